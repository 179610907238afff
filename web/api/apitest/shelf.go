package apitest

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	"headgate/engine"
	"headgate/runbooks/control"
	"headgate/web/api"
)

// IncidentStore is a record of incidents in memory: engine.Journal and api.IncidentReader. It
// is safe for concurrent use.
type IncidentStore struct {
	mu         sync.Mutex
	incidents  map[string]engine.Incident
	events     map[string][]engine.Event
	deliveries map[string][]api.Delivery
	err        error
}

// NewIncidentStore returns an empty IncidentStore.
func NewIncidentStore() *IncidentStore {
	return &IncidentStore{
		incidents: map[string]engine.Incident{}, events: map[string][]engine.Event{}, deliveries: map[string][]api.Delivery{},
	}
}

// SetError makes everything fail with an error, until it is called with nil.
func (s *IncidentStore) SetError(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

// Add puts an incident there, with events if there are any.
func (s *IncidentStore) Add(i engine.Incident, events ...engine.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.incidents[i.ID] = i
	s.events[i.ID] = append(s.events[i.ID], events...)
}

// SetDeliveries sets what was sent about an incident.
func (s *IncidentStore) SetDeliveries(id string, ds ...api.Delivery) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deliveries[id] = ds
}

// Stored returns an incident as it is recorded.
func (s *IncidentStore) Stored(id string) engine.Incident {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.incidents[id]
}

// Save implements engine.Journal.
func (s *IncidentStore) Save(_ context.Context, b engine.Batch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
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
func (s *IncidentStore) Load(context.Context) (engine.SavedState, error) {
	return engine.SavedState{}, nil
}

// List returns a page; its keys are no IDs.
func (s *IncidentStore) List(_ context.Context, q api.IncidentQuery) (items []engine.Incident, next string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return nil, "", s.err
	}
	all := slices.SortedFunc(maps.Values(s.incidents), func(a, b engine.Incident) int { return strings.Compare(b.ID, a.ID) })
	if q.After != "" {
		n := slices.IndexFunc(all, func(i engine.Incident) bool { return cursorOf(i) == q.After })
		if n < 0 {
			return nil, "", control.ErrUnknownCursor
		}
		all = all[n+1:]
	}
	all = slices.DeleteFunc(all, func(i engine.Incident) bool {
		return i.Opened.Before(q.Since) || q.Pool != "" && q.Pool != i.Pool || q.Rule != "" && q.Rule != i.Rule
	})
	if len(all) > q.Limit {
		all, next = all[:q.Limit], cursorOf(all[q.Limit-1])
	}
	return all, next, nil
}

func cursorOf(i engine.Incident) string { return "at." + i.ID }

// Incident returns one with its events and deliveries.
func (s *IncidentStore) Incident(_ context.Context, id string) (api.IncidentReport, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, ok := s.incidents[id]
	switch {
	case s.err != nil:
		return api.IncidentReport{}, s.err
	case !ok:
		return api.IncidentReport{}, engine.ErrNoIncident
	}
	return api.IncidentReport{
		Incident: api.Incident{Incident: i}, Events: slices.Clone(s.events[id]), Deliveries: slices.Clone(s.deliveries[id]),
	}, nil
}
