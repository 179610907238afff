package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"headgate/web/api"
)

// maxAudit is the most that is shown at one time, in changes and entries.
const maxAudit = 10_000

func newAudit(h environment) *cobra.Command {
	a := auditCmd{host: h}
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Show who did what, when and why",
		Long: `Show what is recorded, newest first. Changes of modes: who, when, from what to
what, why, and what was running and queued at that moment. Everything else that
was done, withheld or refused: buttons pressed, decisions of the engine, actions,
attempts that were turned away, drills. When the service does not answer, it is
read from its database.`,
		Example: `  headgate audit
  headgate audit --since 24h --pool big
  headgate audit --kind decision
  headgate audit --since 2026-01-31T00:00:00Z --json`,
		Args: usageArgs(cobra.NoArgs),
		RunE: a.run,
	}
	f := cmd.Flags()
	f.StringVar(&a.since, "since", "7d", "from then on: a `span` such as 7d or 90m, or a time such as 2026-01-31T12:00:00Z")
	f.StringVar(&a.pool, "pool", "", "only this `pool` (default all)")
	f.StringVar(&a.kind, "kind", "", "only this `kind`: "+strings.Join(api.AuditKinds(), ", "))
	f.BoolVar(&a.json, "json", false, "print JSON")
	a.where.add(cmd)
	completePools(cmd, h, &a.where)
	return cmd
}

type auditCmd struct {
	host        environment
	where       endpointFlags
	since, pool string
	kind        string
	json        bool
}

func (a *auditCmd) run(cmd *cobra.Command, _ []string) error {
	since, err := api.ParseSince(a.since, a.host.now())
	if err != nil {
		return usageError{fmt.Errorf("--since %w", err)}
	}
	if a.kind != "" && !slices.Contains(api.AuditKinds(), a.kind) {
		return usageError{fmt.Errorf("--kind must be one of %s", strings.Join(api.AuditKinds(), ", "))}
	}
	p, err := a.where.resolve(a.host, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	q := api.AuditQuery{Since: since, Pool: a.pool, Kind: a.kind, Limit: api.MaxPage}
	all, err := a.read(cmd.Context(), p, q, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	if all.Next != "" {
		fmt.Fprintf(cmd.ErrOrStderr(), "headgate: warning: there are more than %d items; shorten --since\n", maxAudit)
	}
	if a.json {
		return printJSON(cmd.OutOrStdout(), all)
	}
	return auditTable(cmd.OutOrStdout(), all.Items)
}

// auditReader reads one page.
type auditReader func(context.Context, api.AuditQuery) (api.AuditPage, error)

// read asks the service, and reads the database if there is no answer.
func (a *auditCmd) read(ctx context.Context, p endpoint, q api.AuditQuery, stderr io.Writer) (api.AuditPage, error) {
	all, err := a.fromService(ctx, p, q)
	var silence *api.UnreachableError
	if err == nil || !errors.As(err, &silence) {
		return all, err
	}
	if !p.local {
		return all, unreachableError{err}
	}
	fmt.Fprintf(stderr, "headgate: %v\nheadgate: reading from the database in %s instead\n", err, p.dataDir)
	all, fileErr := readAuditPages(ctx, q, func(ctx context.Context, q api.AuditQuery) (api.AuditPage, error) {
		page, err := a.host.readAudit(ctx, p.dataDir, q)
		return api.AuditPageOf(page), err
	})
	if fileErr != nil {
		return all, unreachableError{fmt.Errorf("the database cannot be read either: %w", fileErr)}
	}
	return all, nil
}

func (a *auditCmd) fromService(ctx context.Context, p endpoint, q api.AuditQuery) (api.AuditPage, error) {
	if p.unusable != nil {
		return api.AuditPage{}, &api.UnreachableError{Err: p.unusable}
	}
	client, err := p.client("")
	if err != nil {
		return api.AuditPage{}, err
	}
	defer client.Close()
	if err := client.Ping(ctx); err != nil {
		return api.AuditPage{}, err
	}
	return readAuditPages(ctx, q, client.Audit)
}

// readAuditPages reads pages up to maxAudit items. Next is set if there are more.
func readAuditPages(ctx context.Context, q api.AuditQuery, read auditReader) (api.AuditPage, error) {
	all := api.AuditPage{Items: []api.AuditItem{}}
	for {
		page, err := read(ctx, q)
		if err != nil {
			return api.AuditPage{}, err
		}
		all.Items, all.Next = append(all.Items, page.Items...), page.Next
		if page.Next == "" || page.Next == q.After || len(all.Items) >= maxAudit {
			return all, nil
		}
		q.After = page.Next
	}
}

func auditTable(w io.Writer, items []api.AuditItem) error {
	if len(items) == 0 {
		_, err := fmt.Fprintln(w, "nothing recorded")
		return err
	}
	rows := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(rows, "AT\tKIND\tPOOL\tWHAT\tBY\tVIA\tRUNNING\tQUEUED\tDROPPED\tREASON")
	for _, i := range items {
		at := i.Time().UTC().Format(time.RFC3339)
		if c := i.Change; c != nil {
			fmt.Fprintf(rows, "%s\t%s\t%s\t%s\t%s\t%s\t%d\t%d\t%d\t%s\n", at, api.KindMode, sanitize(c.Pool), transitionText(c),
				sanitize(c.Actor), sanitize(c.Via), c.Running, c.Queued, c.Dropped, cmp.Or(sanitize(c.Reason), "-"))
			continue
		}
		e := i.Entry
		fmt.Fprintf(rows, "%s\t%s\t%s\t%s %s\t%s\t%s\t-\t-\t-\t%s\n", at, sanitize(e.Kind), cmp.Or(sanitize(e.Pool), "-"), sanitize(e.Action), sanitize(e.Result),
			sanitize(e.Actor), sanitize(e.Via), cmp.Or(sanitize(e.Reason), "-"))
	}
	return rows.Flush()
}

// transitionText says how a mode changed; the first one of a pool comes from nowhere.
func transitionText(c *api.Change) string {
	if c.From == c.To {
		return "begins in " + modeText(c.To)
	}
	return sanitize(c.From) + " → " + modeText(c.To)
}
