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

// replayReport is the result of a replay, as on-call experiences it. A ping is
// a message that notifies people.
type replayReport struct {
	incidents     map[string]int // by rule and worst level: "queue_age page"
	open          int            // that are not over
	messages      int            // separate messages
	replies       int            // in threads
	notifications int
	tasks         int64 // that count for the SLO
	bad           int64
}

// String formats a report as one line.
func (a replayReport) String() string {
	var parts []string
	total := 0
	for _, k := range slices.Sorted(maps.Keys(a.incidents)) {
		parts = append(parts, fmt.Sprintf("%s %d", k, a.incidents[k]))
		total += a.incidents[k]
	}
	return fmt.Sprintf("%d incidents (%s), %d still open; %d messages, %d replies, %d pings; %d tasks, %d bad",
		total, strings.Join(parts, ", "), a.open, a.messages, a.replies, a.notifications, a.tasks, a.bad)
}

// countingJournal is the engine's journal: it plans what would be sent, and counts.
type countingJournal struct {
	mu        sync.Mutex
	incidents map[string]engine.Incident
	posted    map[string]bool
	report    replayReport
}

// Load implements engine.Journal.
func (b *countingJournal) Load(context.Context) (engine.SavedState, error) {
	return engine.SavedState{}, nil
}

// Save implements engine.Journal.
func (b *countingJournal) Save(_ context.Context, batch engine.Batch) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	planner := alerts.Planner{Routes: alerts.Routes{Page: "page"}}
	known := alerts.TxView{Posted: func(id string) []alerts.Destination {
		if b.posted[id] {
			return []alerts.Destination{alerts.ToPage}
		}
		return nil
	}}
	for _, d := range planner.Plan(batch, known) {
		b.posted[d.Incident] = true
		switch d.Kind {
		case alerts.Post:
			b.report.messages++
		case alerts.Reply:
			b.report.replies++
		}
		if d.Notification.Ping {
			b.report.notifications++
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

func (b *countingJournal) finish(counts proxy.SLOCounts) replayReport {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.report
	a.tasks, a.bad, a.incidents = counts.Tasks, counts.Bad, make(map[string]int)
	for _, i := range b.incidents {
		a.incidents[i.Key.Rule+" "+i.Peak.String()]++
		if i.Open() {
			a.open++
		}
	}
	return a
}
