package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"headgate/web/api"
)

func newIncidentList(h environment) *cobra.Command {
	l := incidentList{serviceCmd: serviceCmd{host: h}}
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List incidents, newest first",
		Long: `List incidents, newest first: those that are open, and those that were opened
lately.`,
		Example: `  headgate incident list
  headgate incident list --open
  headgate incident list --since 30d --pool big --json`,
		Args: usageArgs(cobra.NoArgs),
		RunE: l.run,
	}
	f := cmd.Flags()
	f.BoolVar(&l.open, "open", false, "only those that are not over")
	f.StringVar(&l.since, "since", "7d", "opened since then: a `span` such as 7d or 90m, or a time such as 2026-01-31T12:00:00Z")
	f.StringVar(&l.pool, "pool", "", "only this `pool` (default all)")
	f.StringVar(&l.rule, "rule", "", "only this `rule` (default all)")
	l.add(cmd)
	completePools(cmd, h, &l.where)
	return cmd
}

type incidentList struct {
	serviceCmd
	open              bool
	since, pool, rule string
}

func (l *incidentList) run(cmd *cobra.Command, _ []string) error {
	since, err := api.ParseSince(l.since, l.host.now())
	if err != nil {
		return usageError{fmt.Errorf("--since %w", err)}
	}
	if l.open && !cmd.Flags().Changed("since") {
		since = time.Time{}
	}
	return l.withClient(cmd, func(ctx context.Context, c *api.Client) error {
		all, rest, err := l.read(ctx, c, since)
		if err != nil {
			return err
		}
		if rest != "" {
			fmt.Fprintf(cmd.ErrOrStderr(), "headgate: warning: there are more than %d incidents; shorten --since\n", maxItems)
		}
		if l.json {
			return printJSON(cmd.OutOrStdout(), api.IncidentList{Items: all, Next: rest})
		}
		return incidentTable(cmd.OutOrStdout(), all, colorizerFor(l.host, cmd.OutOrStdout()))
	})
}

// read returns what is asked for. Open incidents belong to it however old they
// are: what is wrong must not be left out because it has been so for long.
func (l *incidentList) read(ctx context.Context, c *api.Client, since time.Time) ([]api.Incident, string, error) {
	q := api.IncidentQuery{Open: l.open, Since: since, Pool: l.pool, Rule: l.rule}
	all, rest, err := allIncidents(ctx, c, q)
	if err != nil || l.open {
		return append([]api.Incident{}, all...), rest, err
	}
	q.Open, q.Since = true, time.Time{}
	open, _, err := allIncidents(ctx, c, q)
	if err != nil {
		return nil, "", err
	}
	for _, i := range open {
		if !slices.ContainsFunc(all, func(o api.Incident) bool { return o.ID == i.ID }) {
			all = append(all, i)
		}
	}
	slices.SortStableFunc(all, func(a, b api.Incident) int { return strings.Compare(b.OpenedAt, a.OpenedAt) })
	return append([]api.Incident{}, all...), rest, nil
}

func incidentTable(w io.Writer, all []api.Incident, p colorizer) error {
	if len(all) == 0 {
		_, err := fmt.Fprintln(w, "no incidents")
		return err
	}
	var b bytes.Buffer
	rows := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(rows, "ID\tLEVEL\tRULE\tPOOL\tVALUE\tOPENED\tSTATE")
	for i := range all {
		n := &all[i]
		fmt.Fprintf(rows, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", sanitize(n.ID), levelOf(n), sanitize(n.Rule), orDash(n.Pool),
			formatValue(n.Value, n.Unit), formatTime(n.OpenedAt), incidentState(n))
	}
	if err := rows.Flush(); err != nil {
		return err
	}
	lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	for i, line := range lines {
		if i > 0 {
			line = highlightIncident(p, &all[i-1], line)
		}
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	return nil
}

// highlightIncident makes what is open stand out.
func highlightIncident(p colorizer, i *api.Incident, line string) string {
	switch {
	case i.EndedAt != nil:
		return line
	case i.Level == "page":
		return p.highlight(red, line)
	default:
		return p.highlight(yellow, line)
	}
}
