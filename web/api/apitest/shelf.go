package apitest

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	"headgate/engine"
	"headgate/web/api"
)

// Shelf is a record of incidents in memory: engine.Journal and api.Incidents. It
// is safe for concurrent use.
type Shelf struct {
	mu         sync.Mutex
	incidents  map[string]engine.Incident
	events     map[string][]engine.Event
	deliveries map[string][]api.DeliveryRecord
	broken     error
}

// NewShelf returns an empty Shelf.
func NewShelf() *Shelf {
	return &Shelf{
		incidents: map[string]engine.Incident{}, events: map[string][]engine.Event{}, deliveries: map[string][]api.DeliveryRecord{},
	}
}

// Break makes everything fail with an error, until it is called with nil.
func (s *Shelf) Break(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broken = err
}

// Put puts an incident there, with events if there are any.
func (s *Shelf) Put(i engine.Incident, events ...engine.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.incidents[i.ID] = i
	s.events[i.ID] = append(s.events[i.ID], events...)
}

// Deliver sets what was sent about an incident.
func (s *Shelf) Deliver(id string, ds ...api.DeliveryRecord) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deliveries[id] = ds
}

// Recorded returns an incident as it is recorded.
func (s *Shelf) Recorded(id string) engine.Incident {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.incidents[id]
}

// Save implements engine.Journal.
func (s *Shelf) Save(_ context.Context, b engine.Batch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken != nil {
		return s.broken
	}
	for _, i := range b.Incidents {
		s.incidents[i.ID] = i
	}
	for _, e := range b.Events {
		if !slices.ContainsFunc(s.events[e.Incident], func(o engine.Event) bool { return o.Seq == e.Seq }) {
			s.events[e.Incident] = append(s.events[e.Incident], e)
		}
	}
	return nil
}

// Load implements engine.Journal; nothing is remembered.
func (s *Shelf) Load(context.Context) (engine.Saved, error) { return engine.Saved{}, nil }

// List implements api.Incidents. Its keys are no IDs.
func (s *Shelf) List(_ context.Context, q api.IncidentQuery) (api.IncidentPage, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken != nil {
		return api.IncidentPage{}, s.broken
	}
	all := slices.SortedFunc(maps.Values(s.incidents), func(a, b engine.Incident) int { return strings.Compare(b.ID, a.ID) })
	if q.After != "" {
		n := slices.IndexFunc(all, func(i engine.Incident) bool { return keyOf(i) == q.After })
		if n < 0 {
			return api.IncidentPage{}, api.ErrUnknownKey
		}
		all = all[n+1:]
	}
	all = slices.DeleteFunc(all, func(i engine.Incident) bool {
		return i.Opened.Before(q.Since) || q.Pool != "" && q.Pool != i.Key.Pool || q.Rule != "" && q.Rule != i.Key.Rule
	})
	if len(all) <= q.Limit {
		return api.IncidentPage{Items: all}, nil
	}
	return api.IncidentPage{Items: all[:q.Limit], Next: keyOf(all[q.Limit-1])}, nil
}

func keyOf(i engine.Incident) string { return "at." + i.ID }

// Incident implements api.Incidents.
func (s *Shelf) Incident(_ context.Context, id string) (api.IncidentDetail, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken != nil {
		return api.IncidentDetail{}, s.broken
	}
	i, ok := s.incidents[id]
	if !ok {
		return api.IncidentDetail{}, api.ErrNoIncident
	}
	return api.IncidentDetail{
		Incident: i, Events: slices.Clone(s.events[id]), Deliveries: slices.Clone(s.deliveries[id]),
	}, nil
}
