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
	maxIncidents = 10_000 // shown, or looked through, at one time
	wholeID      = 36     // characters of an ID that is not only a beginning
)

func newIncident(h host) *cobra.Command {
	cmd := parentOf("incident", "Show incidents, take them on, silence rules",
		"Show what is wrong and what was, with what was sent about it; take an incident on;\nsilence a rule while the reason is known.")
	cmd.AddCommand(newIncidentList(h), newIncidentShow(h), newIncidentAck(h), newIncidentSilence(h))
	return cmd
}

// parentOf is a command that only has others below it.
func parentOf(name, short, long string) *cobra.Command {
	return &cobra.Command{
		Use: name, Short: short, Long: long, Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
}

// incidentCmd is what the commands about incidents have in common.
type incidentCmd struct {
	host  host
	where placeFlags
	json  bool
}

func (c *incidentCmd) add(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&c.json, "json", false, "print JSON")
	c.where.add(cmd)
}

// ask calls f with a client of a service that is alive.
func (c *incidentCmd) ask(cmd *cobra.Command, f func(context.Context, *api.Client) error) error {
	p, err := c.where.find(c.host, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	client, err := p.client(c.host.actor())
	if err != nil {
		return err
	}
	defer client.Close()
	if err := client.Alive(cmd.Context()); err != nil {
		return reached(err)
	}
	return reached(f(cmd.Context(), client))
}

// doubtful says what to do about an order that was sent and not answered.
func doubtful(err error) error {
	var silence *api.Silence
	if errors.As(err, &silence) && silence.Sent {
		return fmt.Errorf("%w\nit may have been done all the same; giving the order again does no harm", err)
	}
	return err
}

// pages reads up to maxIncidents things, page by page. The rest is the key of the
// page that would follow, empty if there is none.
func pages[T any](read func(after string) (items []T, next string, err error)) (all []T, rest string, err error) {
	for {
		items, next, err := read(rest)
		if err != nil {
			return nil, "", err
		}
		all = append(all, items...)
		if next == "" || next == rest || len(all) >= maxIncidents {
			return all, next, nil
		}
		rest = next
	}
}

// incidentsOf reads all pages that a query leads to.
func incidentsOf(ctx context.Context, c *api.Client, q api.IncidentQuery) ([]api.Incident, string, error) {
	q.Limit = api.MaxPage
	return pages(func(after string) ([]api.Incident, string, error) {
		q.After = after
		list, err := c.Incidents(ctx, q)
		return list.Items, list.Next, err
	})
}

// incidentID completes the beginning of an ID.
func incidentID(ctx context.Context, c *api.Client, given string, open bool) (string, error) {
	what := "incident"
	if open {
		what = "open incident"
	}
	return complete(what, given, func() (ids []string, err error) {
		all, _, err := incidentsOf(ctx, c, api.IncidentQuery{Open: open})
		for i := range all {
			ids = append(ids, all[i].ID)
		}
		return ids, err
	})
}

// complete returns the one ID that begins as given. A whole one is not looked up.
func complete(what, given string, all func() ([]string, error)) (string, error) {
	given = strings.ToLower(given)
	if err := api.CheckID(given); err != nil {
		return "", usageError{err}
	}
	if len(given) >= wholeID {
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
			fit = append(fit, inert(id))
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
