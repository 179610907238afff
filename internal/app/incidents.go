package app

import (
	"context"
	"errors"

	"headgate/alerts"
	"headgate/alerts/slack"
	"headgate/internal/sqlite"
	"headgate/web/api"
)

// incidents shows the record of incidents to the admin API.
type incidents struct {
	store *sqlite.Store
	words slack.Wording
}

// List implements api.Incidents.
func (i incidents) List(ctx context.Context, q api.IncidentQuery) (api.IncidentPage, error) {
	items, next, err := i.store.Incidents(ctx, sqlite.IncidentFilter{
		Open: q.Open, Pool: q.Pool, Rule: q.Rule, Since: q.Since, After: q.After, Limit: q.Limit,
	})
	if errors.Is(err, sqlite.ErrKey) {
		err = api.ErrUnknownKey
	}
	return api.IncidentPage{Items: items, Next: next}, err
}

// Incident implements api.Incidents.
func (i incidents) Incident(ctx context.Context, id string) (api.IncidentDetail, error) {
	story, err := i.store.Story(ctx, id)
	if errors.Is(err, sqlite.ErrNoIncident) {
		return api.IncidentDetail{}, api.ErrNoIncident
	}
	d := api.IncidentDetail{
		Incident: story.Incident, Events: story.Events,
		Cut: len(story.Events) >= api.MaxTimeline || len(story.Deliveries) >= api.MaxTimeline,
	}
	for _, one := range story.Deliveries {
		shown := deliveryRecord(one)
		shown.Text = i.words.Of(one, api.MaxMessage)
		d.Deliveries = append(d.Deliveries, shown)
	}
	return d, err
}

func deliveryRecord(d alerts.Delivery) api.DeliveryRecord {
	return api.DeliveryRecord{
		ID: d.ID, Seq: d.Seq, Kind: string(d.Kind), Destination: string(d.Destination), State: string(d.State),
		Attempts: d.Attempts, Created: d.Created, Tried: d.Tried, NotBefore: d.NotBefore, Reason: d.Reason,
		Channel: d.Ref.Channel, Doubts: d.Doubts,
	}
}
