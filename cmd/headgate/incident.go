package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"headgate/web/api"
)

const (
	maxItems     = 10_000 // shown, or looked through, at one time
	fullIDLength = 36     // characters of an ID that is not only a beginning
)

func newIncident(h environment) *cobra.Command {
	cmd := newGroup("incident", "Show incidents, take them on, silence rules",
		"Show what is wrong and what was, with what was sent about it; take an incident on;\nsilence a rule while the reason is known.")
	cmd.AddCommand(newIncidentList(h), newIncidentShow(h), newIncidentAck(h), newIncidentSilence(h))
	return cmd
}

// newGroup is a command that only has others below it.
func newGroup(name, short, long string) *cobra.Command {
	return &cobra.Command{
		Use: name, Short: short, Long: long, Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
}

// serviceCmd is what the commands about incidents have in common.
type serviceCmd struct {
	host  environment
	where endpointFlags
	json  bool
}

func (c *serviceCmd) add(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&c.json, "json", false, "print JSON")
	c.where.add(cmd)
}

// withClient calls f with a client of a service that is alive.
func (c *serviceCmd) withClient(cmd *cobra.Command, f func(context.Context, *api.Client) error) error {
	p, err := c.where.resolve(c.host, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	client, err := p.client(c.host.actor())
	if err != nil {
		return err
	}
	defer client.Close()
	if err := client.Ping(cmd.Context()); err != nil {
		return asUnreachable(err)
	}
	return asUnreachable(f(cmd.Context(), client))
}

// hintMaybeApplied says what to do about an order that was sent and not answered.
func hintMaybeApplied(err error) error {
	var silence *api.UnreachableError
	if errors.As(err, &silence) && silence.Sent {
		return fmt.Errorf("%w\nit may have been done all the same; giving the order again does no harm", err)
	}
	return err
}

// readPages reads up to maxItems things, page by page. The rest is the key of the
// page that would follow, empty if there is none.
func readPages[T any](read func(after string) (items []T, next string, err error)) (all []T, rest string, err error) {
	for {
		items, next, err := read(rest)
		if err != nil {
			return nil, "", err
		}
		all = append(all, items...)
		if next == "" || next == rest || len(all) >= maxItems {
			return all, next, nil
		}
		rest = next
	}
}

// allIncidents reads all pages that a query leads to.
func allIncidents(ctx context.Context, c *api.Client, q api.IncidentQuery) ([]api.Incident, string, error) {
	q.Limit = api.MaxPage
	return readPages(func(after string) ([]api.Incident, string, error) {
		q.After = after
		list, err := c.Incidents(ctx, q)
		return list.Items, list.Next, err
	})
}

// resolveIncidentID completes the beginning of an ID.
func resolveIncidentID(ctx context.Context, c *api.Client, given string, open bool) (string, error) {
	what := "incident"
	if open {
		what = "open incident"
	}
	return resolveID(what, given, func() (ids []string, err error) {
		all, _, err := allIncidents(ctx, c, api.IncidentQuery{Open: open})
		for i := range all {
			ids = append(ids, all[i].ID)
		}
		return ids, err
	})
}

// resolveID returns the one ID that begins as given. A whole one is not looked up.
func resolveID(what, given string, all func() ([]string, error)) (string, error) {
	given = strings.ToLower(given)
	if err := api.CheckID(given); err != nil {
		return "", usageError{err}
	}
	if len(given) >= fullIDLength {
		return given, nil
	}
	ids, err := all()
	if err != nil {
		return "", err
	}
	var fit []string
	for _, id := range ids {
		if id == given {
			return id, nil
		}
		if strings.HasPrefix(id, given) {
			fit = append(fit, sanitize(id))
		}
	}
	switch {
	case len(fit) == 0:
		return "", fmt.Errorf("no %s has an ID that begins with %s", what, given)
	case len(fit) > 1:
		return "", usageError{fmt.Errorf("%d %ss have IDs that begin with %s: %s; give more of it",
			len(fit), what, given, strings.Join(fit[:min(len(fit), 5)], ", "))}
	}
	return fit[0], nil
}
