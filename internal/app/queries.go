package app

import (
	"context"
	"time"

	"headgate/alerts/slack"
	"headgate/engine"
	"headgate/internal/sqlite"
	"headgate/runbooks/control"
	"headgate/web/api"
	"headgate/web/ui"
)

// Status returns the pools, in the order of the settings, with what the proxy observed.
func (a *App) Status(now time.Time) api.Status {
	s := api.Status{Version: a.opts.version}
	for _, p := range a.Pools() {
		pool, ok := a.record.control.PoolStatus(now, p.Name)
		if !ok {
			continue
		}
		recent := a.metrics.proxy.Recent(p.Name, now)
		pool.SLOS, pool.Refused1m = control.Seconds(p.SLO), recent.Rejected
		pool.Admitted1m = max(recent.Arrivals-recent.Rejected-recent.Invalid, 0)
		if recent.Ended > 0 {
			p95 := control.Seconds(recent.P95)
			pool.P95TurnaroundS = &p95
		}
		if use, known := a.metrics.proxy.EnvelopeUse(p.Name, now); known {
			pool.EnvelopeUse = &use
		}
		s.Pools = append(s.Pools, pool)
	}
	return s
}

// incidentReader shows the record of incidents to the admin API.
type incidentReader struct {
	store    *sqlite.Store
	renderer slack.PlainTextRenderer
}

// List returns incidents, newest first.
func (i incidentReader) List(ctx context.Context, q api.IncidentQuery) (items []engine.Incident, next string, err error) {
	return i.store.Incidents(ctx, sqlite.IncidentFilter(q))
}

// Incident returns one, with the text of its messages.
func (i incidentReader) Incident(ctx context.Context, id string) (api.IncidentReport, error) {
	story, err := i.store.IncidentHistory(ctx, id)
	r := api.IncidentReport{
		Incident: api.Incident{Incident: story.Incident}, Events: api.EventsOf(story.Events),
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

// poolFacts returns the limits and the objective of a pool, for the pages.
func (a *App) poolFacts(pool string) (ui.PoolFacts, bool) {
	c, err := findPool(a.config(), pool)
	if err != nil || pool == "" {
		return ui.PoolFacts{}, false
	}
	facts := ui.PoolFacts{Objective: c.SLO.Objective, Window: c.SLO.Window}
	if c.Admission.Policy == "threshold" {
		facts.MaxAge, facts.MaxDepth = c.Admission.MaxQueueAge, c.Admission.DepthMultiple*c.Workers
	}
	return facts, true
}
