package app

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"headgate/alerts"
	"headgate/engine"
	"headgate/proxy"
)

// account is what came of a stretch of time, as somebody on call counts it. A ping is
// a message that disturbs people.
type account struct {
	incidents map[string]int // by rule and worst level: "queue_age page"
	open      int            // that are not over
	posts     int            // messages of their own
	replies   int            // in threads
	pings     int
	tasks     int64 // that count for the SLO
	bad       int64
}

// String tells an account in one line.
func (a account) String() string {
	var parts []string
	total := 0
	for _, k := range slices.Sorted(maps.Keys(a.incidents)) {
		parts = append(parts, fmt.Sprintf("%s %d", k, a.incidents[k]))
		total += a.incidents[k]
	}
	return fmt.Sprintf("%d incidents (%s), %d still open; %d messages, %d replies, %d pings; %d tasks, %d bad",
		total, strings.Join(parts, ", "), a.open, a.posts, a.replies, a.pings, a.tasks, a.bad)
}

// book is the engine's journal: it plans what would be sent, and counts.
type book struct {
	mu        sync.Mutex
	incidents map[string]engine.Incident
	posted    map[string]bool
	sent      account
}

// Load implements engine.Journal.
func (b *book) Load(context.Context) (engine.Saved, error) { return engine.Saved{}, nil }

// Save implements engine.Journal.
func (b *book) Save(_ context.Context, batch engine.Batch) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	planner := alerts.Planner{Routes: alerts.Routes{Page: "page"}}
	known := alerts.Known{Posted: func(id string) []alerts.Destination {
		if b.posted[id] {
			return []alerts.Destination{alerts.ToPage}
		}
		return nil
	}}
	for _, d := range planner.Plan(batch, known) {
		b.posted[d.Incident] = true
		switch d.Kind {
		case alerts.Post:
			b.sent.posts++
		case alerts.Reply:
			b.sent.replies++
		}
		if d.Note.Ping {
			b.sent.pings++
		}
	}
	if b.incidents == nil {
		b.incidents = make(map[string]engine.Incident)
	}
	for _, i := range batch.Incidents {
		b.incidents[i.ID] = i
	}
	return nil
}

func (b *book) close(counts proxy.SLOCounts) account {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.sent
	a.tasks, a.bad, a.incidents = counts.Tasks, counts.Bad, make(map[string]int)
	for _, i := range b.incidents {
		a.incidents[i.Key.Rule+" "+i.Peak.String()]++
		if i.Open() {
			a.open++
		}
	}
	return a
}
