package cli

import (
	"context"
	"slices"
	"strings"
	"time"

	"headgate/runbooks/control"
	"headgate/web/api"
)

// Audit shows changes of modes and everything else in the audit log.
type Audit struct {
	Service
	Since, Pool, Kind string
}

// Run shows the audit log.
func (a *Audit) Run(ctx context.Context) error {
	since, err := api.ParseSince(a.Since, a.Now())
	if err != nil {
		return Usagef("--since %w", err)
	}
	if a.Kind != "" && !slices.Contains(api.AuditKinds(), a.Kind) {
		return Usagef("--kind must be one of %s", strings.Join(api.AuditKinds(), ", "))
	}
	show := func(read func(control.AuditQuery) (control.AuditPage, error)) error {
		items, rest, err := readPages(func(after string) ([]control.AuditRecord, string, error) {
			page, err := read(control.AuditQuery{
				Since: since, Pool: a.Pool, Kind: control.AuditKind(a.Kind), Limit: api.MaxPage, After: after,
			})
			return page.Items, page.Next, err
		})
		if err != nil {
			return err
		}
		a.warnTruncated(rest, "items")
		return a.show(control.AuditPage{Items: items, Next: rest}, func(p *printer) { auditTable(p, items) })
	}
	return a.callOrRead(ctx, func(c *api.Client) error {
		return show(func(q control.AuditQuery) (control.AuditPage, error) { return c.Audit(ctx, q) })
	}, func(dir string) error {
		return show(func(q control.AuditQuery) (control.AuditPage, error) { return a.ReadAudit(ctx, dir, q) })
	})
}

// auditTable shows changes of modes with their task counts; other entries have none.
func auditTable(p *printer, items []control.AuditRecord) {
	header := []any{"AT", "KIND", "POOL", "WHAT", "BY", "VIA", "RUNNING", "QUEUED", "DROPPED", "REASON"}
	list(p, items, "nothing recorded", header, func(t *table, i *control.AuditRecord) {
		at := i.At().UTC().Format(time.RFC3339)
		if c := i.Change; c != nil {
			t.row(plain, at, control.KindMode, c.Pool, transitionText(c), c.Actor, c.Via, c.Running, c.Queued, c.Dropped,
				c.Reason)
		} else {
			e := i.Entry
			t.row(plain, at, e.Kind, e.Pool, e.Action+" "+string(e.Result), e.Actor, e.Via, "", "", "", e.Reason)
		}
	})
}

// transitionText says how a mode changed; the first change of a pool only sets it.
func transitionText(c *control.ModeChange) string {
	if c.From == c.To {
		return "starts in " + modeText(c.To.String())
	}
	return c.From.String() + " → " + modeText(c.To.String())
}
