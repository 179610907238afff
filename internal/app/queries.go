package app

import (
	"context"
	"errors"
	"sync"
	"time"

	"headgate/alerts/slack"
	"headgate/engine"
	"headgate/internal/sqlite"
	"headgate/runbooks/control"
	"headgate/runbooks/drill"
	"headgate/web/api"
	"headgate/web/ui"
)

// Status returns the pools, in the order of the settings.
func (a *App) Status(now time.Time) api.Status {
	s := api.Status{Version: a.version}
	for _, p := range a.Pools() {
		if pool, ok := a.record.control.PoolStatus(now, p.Name); ok {
			a.addObserved(&pool, now, p)
			s.Pools = append(s.Pools, pool)
		}
	}
	return s
}

// addObserved adds what the proxy observed.
func (a *App) addObserved(s *control.PoolStatus, now time.Time, p Pool) {
	recent := a.metrics.proxy.Recent(p.Name, now)
	s.SLOS, s.Refused1m, s.Admitted1m = control.Seconds(p.SLO), recent.Rejected, max(recent.Arrivals-recent.Rejected-recent.Invalid, 0)
	if recent.Ended > 0 {
		p95 := control.Seconds(recent.P95)
		s.P95TurnaroundS = &p95
	}
	if use, known := a.metrics.proxy.EnvelopeUse(p.Name, now); known {
		s.EnvelopeUse = &use
	}
}

// auditReader shows the record to the admin API.
type auditReader struct{ store *sqlite.Store }

// Audit returns a page of the audit.
func (a auditReader) Audit(ctx context.Context, q control.AuditQuery) (control.AuditPage, error) {
	return auditPage(a.store.Audit(ctx, auditFilter(q)))
}

func auditFilter(q control.AuditQuery) sqlite.AuditFilter {
	return sqlite.AuditFilter{Since: q.Since, Pool: q.Pool, Kind: string(q.Kind), After: q.After, Limit: q.Limit}
}

func auditPage(p sqlite.AuditPage, err error) (control.AuditPage, error) {
	if errors.Is(err, sqlite.ErrPageKey) {
		err = api.ErrUnknownCursor
	}
	return control.NewAuditPage(p.Changes, p.Entries, p.Next), err
}

// incidentReader shows the record of incidents to the admin API.
type incidentReader struct {
	store    *sqlite.Store
	renderer slack.PlainTextRenderer
}

// List returns incidents, newest first.
func (i incidentReader) List(ctx context.Context, q api.IncidentQuery) (items []engine.Incident, next string, err error) {
	items, next, err = i.store.Incidents(ctx, sqlite.IncidentFilter{
		Open: q.Open, Pool: q.Pool, Rule: q.Rule, Since: q.Since, After: q.After, Limit: q.Limit,
	})
	if errors.Is(err, sqlite.ErrPageKey) {
		err = api.ErrUnknownCursor
	}
	return items, next, err
}

// Incident returns one, with the text of its messages.
func (i incidentReader) Incident(ctx context.Context, id string) (api.IncidentReport, error) {
	story, err := i.store.IncidentHistory(ctx, id)
	if errors.Is(err, sqlite.ErrNoIncident) {
		return api.IncidentReport{}, api.ErrNoIncident
	}
	r := api.IncidentReport{
		Incident: api.Incident{Incident: story.Incident}, Events: story.Events,
		Truncated: len(story.Events) >= api.MaxTimeline || len(story.Deliveries) >= api.MaxTimeline,
	}
	for _, d := range story.Deliveries {
		shown := api.Delivery{
			ID: d.ID, Seq: d.Seq, Kind: string(d.Kind), Destination: string(d.Destination), State: string(d.State),
			Attempts: d.Attempts, Created: d.Created, Tried: d.LastAttempt, Reason: d.Reason,
			Channel: d.Ref.Channel, AmbiguousAttempts: d.AmbiguousAttempts, Text: i.renderer.Render(d, api.MaxMessage),
		}
		if d.State.Pending() {
			shown.NextAttempt = d.NotBefore
		}
		r.Deliveries = append(r.Deliveries, shown)
	}
	return r, err
}

// drillRunStore is the record of drills.
type drillRunStore struct{ *sqlite.Drills }

var _ api.DrillRunReader = drillRunStore{}

// Runs returns a page of runs.
func (r drillRunStore) Runs(ctx context.Context, q drill.Query) (runs []drill.Run, next string, err error) {
	runs, next, err = r.Drills.Runs(ctx, q)
	if errors.Is(err, sqlite.ErrPageKey) {
		err = api.ErrUnknownCursor
	}
	return runs, next, err
}

// sloCountsTTL is how long the counts of an error budget are shown as they are: they
// are recorded once a minute.
const sloCountsTTL = 15 * time.Second

// poolFacts tells the pages of limits and objectives.
type poolFacts struct {
	app *App

	mu     sync.Mutex
	counts map[string]sloCounts
}

// sloCounts is how many tasks of a window were well and bad, at a time.
type sloCounts struct {
	good, bad int64
	known     bool
	at        time.Time
}

// Facts implements ui.Facts.
func (f *poolFacts) Facts(ctx context.Context, now time.Time, pool string) (ui.PoolFacts, bool) {
	c, err := findPool(f.app.current.config(), pool)
	if err != nil || pool == "" {
		return ui.PoolFacts{}, false
	}
	facts := ui.PoolFacts{Objective: c.SLO.Objective, Window: c.SLO.Window}
	if c.Admission.Policy == "threshold" {
		facts.MaxAge, facts.MaxDepth = c.Admission.MaxQueueAge, c.Admission.DepthMultiple*c.Workers
	}
	b := f.cachedCounts(ctx, now, pool, c.SLO.Window)
	facts.Good, facts.Bad, facts.Counted = b.good, b.bad, b.known
	return facts, true
}

// cachedCounts returns the counts of a pool. Names of pools come from the settings, so
// there are few.
func (f *poolFacts) cachedCounts(ctx context.Context, now time.Time, pool string, window time.Duration) sloCounts {
	f.mu.Lock()
	defer f.mu.Unlock()
	if b, ok := f.counts[pool]; ok && b.known && now.Sub(b.at) < sloCountsTTL {
		return b
	}
	good, bad, err := f.app.record.store.SLO(ctx, pool, now.Add(-window))
	b := sloCounts{good: good, bad: bad, known: err == nil, at: now}
	f.counts[pool] = b
	return b
}
