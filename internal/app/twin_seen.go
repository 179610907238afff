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

// sightings are what is seen of a twin besides its load, its calls and its messages.
// They are safe for concurrent use.
type sightings struct {
	mu     sync.Mutex
	odd    []string
	probes []drill.Probe
}

// maxSightings bounds each kind.
const maxSightings = 10_000

func (s *sightings) unheeded(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.odd) < maxSightings {
		s.odd = append(s.odd, what)
	}
}

// probe tries to write to a record, as anybody else would, and changes nothing.
func (s *sightings) probe(ctx context.Context, path string, clock *playClock) {
	at := clock.at(time.Now())
	err := tryToWrite(ctx, path)
	if ctx.Err() != nil {
		return // nobody waited for it
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.probes) < maxSightings {
		s.probes = append(s.probes, drill.Probe{At: at, Free: err == nil})
	}
}

func tryToWrite(ctx context.Context, path string) error {
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

// see fills in what has been seen.
func (s *sightings) see(e *drill.Evidence) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e.Unheeded, e.Probes = slices.Clone(s.odd), slices.Clone(s.probes)
}
