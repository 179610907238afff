package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"headgate/web"
)

// maxAudit is the most that is shown at one time, in changes.
const maxAudit = 10_000

func newAudit(h host) *cobra.Command {
	a := auditCmd{host: h}
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Show who changed a mode, when and why",
		Long: `Show the recorded changes of modes, newest first: who, when, from what to what,
why, and what was running and queued at that moment. When the service does not
answer, they are read from its database.`,
		Example: `  headgate audit
  headgate audit --since 24h --pool big
  headgate audit --since 2026-01-31T00:00:00Z --json`,
		Args: usageArgs(cobra.NoArgs),
		RunE: a.run,
	}
	f := cmd.Flags()
	f.StringVar(&a.since, "since", "7d", "from then on: a `span` such as 7d or 90m, or a time such as 2026-01-31T12:00:00Z")
	f.StringVar(&a.pool, "pool", "", "only this `pool` (default all)")
	f.BoolVar(&a.json, "json", false, "print JSON")
	a.where.add(cmd)
	completePools(cmd, h, &a.where)
	return cmd
}

type auditCmd struct {
	host        host
	where       placeFlags
	since, pool string
	json        bool
}

func (a *auditCmd) run(cmd *cobra.Command, _ []string) error {
	since, err := web.ParseSince(a.since, a.host.now())
	if err != nil {
		return usageError{fmt.Errorf("--since %w", err)}
	}
	p, err := a.where.find(a.host, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	q := web.ChangeQuery{Since: since, Pool: a.pool, Limit: web.MaxPage}
	all, err := a.read(cmd.Context(), p, q, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	if all.Next != "" {
		fmt.Fprintf(cmd.ErrOrStderr(), "headgate: warning: there are more than %d changes; shorten --since\n", maxAudit)
	}
	if a.json {
		return printJSON(cmd.OutOrStdout(), all)
	}
	return auditTable(cmd.OutOrStdout(), all.Items)
}

// pager reads one page.
type pager func(context.Context, web.ChangeQuery) (web.AuditPage, error)

// read asks the service, and reads the database if there is no answer.
func (a *auditCmd) read(ctx context.Context, p place, q web.ChangeQuery, stderr io.Writer) (web.AuditPage, error) {
	all, err := a.fromService(ctx, p, q)
	var silence *web.Silence
	if err == nil || !errors.As(err, &silence) {
		return all, err
	}
	if !p.here {
		return all, unreachableError{err}
	}
	fmt.Fprintf(stderr, "headgate: %v\nheadgate: reading from the database in %s instead\n", err, p.dataDir)
	all, fileErr := everyPage(ctx, q, func(ctx context.Context, q web.ChangeQuery) (web.AuditPage, error) {
		page, err := a.host.audit(ctx, p.dataDir, q)
		return web.PageOf(page), err
	})
	if fileErr != nil {
		return all, unreachableError{fmt.Errorf("the database cannot be read either: %w", fileErr)}
	}
	return all, nil
}

func (a *auditCmd) fromService(ctx context.Context, p place, q web.ChangeQuery) (web.AuditPage, error) {
	if p.closed != nil {
		return web.AuditPage{}, &web.Silence{Err: p.closed}
	}
	client, err := p.client("")
	if err != nil {
		return web.AuditPage{}, err
	}
	defer client.Close()
	if err := client.Alive(ctx); err != nil {
		return web.AuditPage{}, err
	}
	return everyPage(ctx, q, client.Audit)
}

// everyPage reads pages up to maxAudit changes. Next is set if there are more.
func everyPage(ctx context.Context, q web.ChangeQuery, read pager) (web.AuditPage, error) {
	all := web.AuditPage{Items: []web.Change{}}
	for {
		page, err := read(ctx, q)
		if err != nil {
			return web.AuditPage{}, err
		}
		all.Items, all.Next = append(all.Items, page.Items...), page.Next
		if page.Next == "" || page.Next == q.After || len(all.Items) >= maxAudit {
			return all, nil
		}
		q.After = page.Next
	}
}

func auditTable(w io.Writer, changes []web.Change) error {
	if len(changes) == 0 {
		_, err := fmt.Fprintln(w, "no changes")
		return err
	}
	rows := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(rows, "AT\tPOOL\tFROM\tTO\tBY\tVIA\tRUNNING\tQUEUED\tDROPPED\tREASON")
	for i := range changes {
		c := &changes[i]
		fmt.Fprintf(rows, "%s\t%s\t%s\t%s\t%s\t%s\t%d\t%d\t%d\t%s\n", c.Time().UTC().Format(time.RFC3339), inert(c.Pool), inert(c.From), shout(c.To),
			inert(c.Actor), inert(c.Via), c.Running, c.Queued, c.Dropped, cmp.Or(inert(c.Reason), "-"))
	}
	return rows.Flush()
}
