package engine

import (
	"fmt"
	"testing"
)

func incidentBatch(n int, kind EventKind, open bool) Batch {
	inc := Incident{ID: fmt.Sprint(n), Peak: LevelPage, Seq: 1}
	if !open {
		inc.Ended = epoch
	}
	return Batch{
		States:    []State{{Key: ruleKey, Incident: inc.ID}},
		Incidents: []Incident{inc},
		Events:    []Event{{ID: fmt.Sprint(kind, n), Incident: inc.ID, Seq: n, Kind: kind}},
		Silences:  []Silence{{ID: "s", Reason: inc.ID}},
	}
}

// What follows replaces, what happens adds up.
func TestBacklogCoalesces(t *testing.T) {
	var l backlog
	for n := range 100 {
		b := incidentBatch(n%2, EventOpened, true)
		b.Events[0].Seq = n
		if dropped := l.add(b); dropped != 0 {
			t.Fatalf("%d dropped", dropped)
		}
	}
	b := l.batch()
	if len(b.States) != 1 || b.States[0].Incident != "1" || len(b.Incidents) != 2 || len(b.Silences) != 1 || b.Silences[0].Reason != "1" {
		t.Errorf("batch %+v", b)
	}
	for n, e := range b.Events {
		if e.Seq != n {
			t.Fatalf("event %d is %+v", n, e)
		}
	}
}

// Memory is bounded: what only tells how it went is dropped first, and what is
// open is kept whatever comes.
func TestBacklogIsBounded(t *testing.T) {
	var l backlog
	l.add(incidentBatch(-1, EventOpened, true))
	dropped := 0
	for n := range 3 * maxUnsaved {
		kind := EventReminder
		if n%4 == 0 {
			kind = EventResolved
		}
		b := incidentBatch(0, kind, true)
		b.Events[0].ID = fmt.Sprint(n)
		dropped += l.add(b)
	}
	resolved := 0
	for _, e := range l.events {
		if e.Kind == EventResolved {
			resolved++
		}
	}
	if len(l.events) > maxUnsaved || dropped+len(l.events) != 3*maxUnsaved+1 {
		t.Errorf("%d events and %d dropped", len(l.events), dropped)
	}
	if resolved != 3*maxUnsaved/4 || l.events[0].Kind != EventOpened {
		t.Errorf("%d of %d events that count are left, the first is %s", resolved, 3*maxUnsaved/4, l.events[0].Kind)
	}
}

func TestBacklogBoundsIncidents(t *testing.T) {
	var more backlog
	more.add(incidentBatch(0, EventOpened, true))
	for n := 1; n < 2*maxUnsaved; n++ {
		b := incidentBatch(n, EventOpened, false)
		more.incidents = append(more.incidents, b.Incidents...)
		more.events = append(more.events, pendingEvent{Event: b.Events[0]})
	}
	var l backlog
	dropped := l.merge(more)
	if len(l.incidents) != maxUnsaved || !l.incidents[0].Open() || len(l.events)+dropped != 2*maxUnsaved {
		t.Errorf("%d incidents, %d events, %d dropped", len(l.incidents), len(l.events), dropped)
	}
	kept := map[string]bool{}
	for _, i := range l.incidents {
		kept[i.ID] = true
	}
	for _, e := range l.events {
		if !kept[e.Incident] {
			t.Fatalf("event %+v without its incident", e)
		}
	}
}

// Only pages are handed over, only what is to be sent, and only once.
func TestBacklogReportsUnsavedPages(t *testing.T) {
	var l backlog
	warning := incidentBatch(1, EventOpened, true)
	warning.Incidents[0].Peak = LevelWarn
	muted := incidentBatch(2, EventOpened, true)
	muted.Events[0].Muted = true
	for _, b := range []Batch{warning, muted, incidentBatch(3, EventOpened, true)} {
		l.add(b)
	}
	b := l.takeUnreportedPages()
	if len(b.Events) != 1 || b.Events[0].Incident != "3" || len(b.Incidents) != 1 || b.Incidents[0].ID != "3" || len(b.States) != 0 {
		t.Errorf("handed over %+v", b)
	}
	if again := l.takeUnreportedPages(); !again.Empty() {
		t.Errorf("handed over again %+v", again)
	}
	if got := l.batch(); len(got.Events) != 3 {
		t.Errorf("%d events left for the journal, want 3", len(got.Events))
	}
}

// A warning that signals are missing is handed over as a page is: nothing else can
// fire then.
func TestBacklogReportsMissingSignals(t *testing.T) {
	var l backlog
	for n, rule := range []string{"queue_age", SignalMissing} {
		b := incidentBatch(n, EventOpened, true)
		b.Incidents[0].Peak, b.Incidents[0].Key.Rule = LevelWarn, rule
		l.add(b)
	}
	if b := l.takeUnreportedPages(); len(b.Events) != 1 || len(b.Incidents) != 1 || b.Incidents[0].Key.Rule != SignalMissing {
		t.Errorf("handed over %+v", b)
	}
}
