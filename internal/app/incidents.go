package app

import (
	"context"
	"errors"

	"headgate/alerts"
	"headgate/alerts/slack"
	"headgate/internal/sqlite"
	"headgate/web/api"
)

// incidentReader shows the record of incidents to the admin API.
type incidentReader struct {
	store    *sqlite.Store
	renderer slack.PlainTextRenderer
}

// List implements api.IncidentReader.
func (i incidentReader) List(ctx context.Context, q api.IncidentQuery) (api.IncidentPage, error) {
	items, next, err := i.store.Incidents(ctx, sqlite.IncidentFilter{
		Open: q.Open, Pool: q.Pool, Rule: q.Rule, Since: q.Since, After: q.After, Limit: q.Limit,
	})
	if errors.Is(err, sqlite.ErrPageKey) {
		err = api.ErrUnknownCursor
	}
	return api.IncidentPage{Items: items, Next: next}, err
}

// Incident implements api.IncidentReader.
func (i incidentReader) Incident(ctx context.Context, id string) (api.IncidentDetail, error) {
	story, err := i.store.IncidentHistory(ctx, id)
	if errors.Is(err, sqlite.ErrNoIncident) {
		return api.IncidentDetail{}, api.ErrNoIncident
	}
	d := api.IncidentDetail{
		Incident: story.Incident, Events: story.Events,
		Truncated: len(story.Events) >= api.MaxTimeline || len(story.Deliveries) >= api.MaxTimeline,
	}
	for _, one := range story.Deliveries {
		shown := deliveryRecord(one)
		shown.Text = i.renderer.Render(one, api.MaxMessage)
		d.Deliveries = append(d.Deliveries, shown)
	}
	return d, err
}

func deliveryRecord(d alerts.Delivery) api.DeliveryRecord {
	return api.DeliveryRecord{
		ID: d.ID, Seq: d.Seq, Kind: string(d.Kind), Destination: string(d.Destination), State: string(d.State),
		Attempts: d.Attempts, Created: d.Created, Tried: d.LastAttempt, NotBefore: d.NotBefore, Reason: d.Reason,
		Channel: d.Ref.Channel, AmbiguousAttempts: d.AmbiguousAttempts,
	}
}
