package app

import (
	"context"
	"errors"

	"headgate/alerts/slack"
	"headgate/engine"
	"headgate/internal/sqlite"
	"headgate/web/api"
)

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
