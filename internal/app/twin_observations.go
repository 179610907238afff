package app

import (
	"context"
	"slices"
	"sync"
	"time"

	"headgate/internal/sqlite"
	"headgate/runbooks/drill"
)

// observations are what is seen of a twin besides its load, its calls and its messages.
// They are safe for concurrent use.
type observations struct {
	mu            sync.Mutex
	ignoredOrders []string
	probes        []drill.WriteProbe
}

// maxObservations bounds each kind.
const maxObservations = 10_000

func (s *observations) recordIgnoredOrder(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.ignoredOrders) < maxObservations {
		s.ignoredOrders = append(s.ignoredOrders, what)
	}
}

// probe tries to write to the record in dir, as another process would, and changes nothing.
func (s *observations) probe(ctx context.Context, dir string, clock *scenarioClock) {
	at := clock.at(time.Now())
	err := sqlite.ProbeWrite(ctx, dir)
	if ctx.Err() != nil {
		return // nobody waited for it
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.probes) < maxObservations {
		s.probes = append(s.probes, drill.WriteProbe{At: at, Writable: err == nil})
	}
}

// addTo fills in what has been seen.
func (s *observations) addTo(e *drill.Evidence) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e.UnappliedRequests, e.WriteProbes = slices.Clone(s.ignoredOrders), slices.Clone(s.probes)
}
