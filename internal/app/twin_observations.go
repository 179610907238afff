package app

import (
	"context"
	"database/sql"
	"net/url"
	"slices"
	"sync"
	"time"

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

// probe tries to write to a record, as anybody else would, and changes nothing.
func (s *observations) probe(ctx context.Context, path string, clock *scenarioClock) {
	at := clock.at(time.Now())
	err := tryWriteLock(ctx, path)
	if ctx.Err() != nil {
		return // nobody waited for it
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.probes) < maxObservations {
		s.probes = append(s.probes, drill.WriteProbe{At: at, Writable: err == nil})
	}
}

func tryWriteLock(ctx context.Context, path string) error {
	name := url.URL{Scheme: "file", Path: path, RawQuery: url.Values{
		"mode": {"rw"}, "_txlock": {"immediate"}, "_pragma": {"busy_timeout(0)"},
	}.Encode()}
	db, err := sql.Open("sqlite", name.String())
	if err != nil {
		return err
	}
	defer db.Close()
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	return tx.Rollback()
}

// addTo fills in what has been seen.
func (s *observations) addTo(e *drill.Evidence) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e.UnappliedRequests, e.WriteProbes = slices.Clone(s.ignoredOrders), slices.Clone(s.probes)
}
