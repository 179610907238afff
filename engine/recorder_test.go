package engine

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"headgate/internal/writebehind"
)

func incidentBatch(n int, kind EventKind, open bool) Batch {
	inc := Incident{ID: fmt.Sprint(n), Peak: LevelPage, Seq: n}
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

// States replace each other, events add up.
func TestMergeBatches(t *testing.T) {
	var all Batch
	for n := range 100 {
		b := incidentBatch(n%2, EventOpened, true)
		b.Events[0].Seq = n
		var dropped int
		if all, dropped = mergeBatches(all, b); dropped != 0 {
			t.Fatalf("%d dropped", dropped)
		}
	}
	if len(all.States) != 1 || all.States[0].Incident != "1" || len(all.Incidents) != 2 || len(all.Silences) != 1 || all.Silences[0].Reason != "1" {
		t.Errorf("batch %+v", all)
	}
	for n, e := range all.Events {
		if e.Seq != n {
			t.Fatalf("event %d is %+v", n, e)
		}
	}
}

// Memory is bounded: events that change no incident are dropped first, and open incidents are always kept.
func TestMergeBounds(t *testing.T) {
	all := incidentBatch(-1, EventOpened, true)
	dropped := 0
	for n := range 3 * maxUnsaved {
		kind := EventReminder
		if n%4 == 0 {
			kind = EventResolved
		}
		b := incidentBatch(0, kind, true)
		b.Events[0].ID = fmt.Sprint(n)
		var more int
		all, more = mergeBatches(all, b)
		dropped += more
	}
	resolved := 0
	for _, e := range all.Events {
		if e.Kind == EventResolved {
			resolved++
		}
	}
	if len(all.Events) > maxUnsaved || dropped+len(all.Events) != 3*maxUnsaved+1 {
		t.Errorf("%d events and %d dropped", len(all.Events), dropped)
	}
	if resolved != 3*maxUnsaved/4 || all.Events[0].Kind != EventOpened {
		t.Errorf("%d of %d events that count are left, the first is %s", resolved, 3*maxUnsaved/4, all.Events[0].Kind)
	}
}

func TestMergeBoundsIncidents(t *testing.T) {
	more := incidentBatch(0, EventOpened, true)
	for n := 1; n < 2*maxUnsaved; n++ {
		b := incidentBatch(n, EventOpened, false)
		more.Incidents, more.Events = append(more.Incidents, b.Incidents...), append(more.Events, b.Events...)
	}
	all, dropped := mergeBatches(Batch{}, more)
	if len(all.Incidents) != maxUnsaved || !all.Incidents[0].Open() || len(all.Events)+dropped != 2*maxUnsaved {
		t.Errorf("%d incidents, %d events, %d dropped", len(all.Incidents), len(all.Events), dropped)
	}
	kept := map[string]bool{}
	for _, i := range all.Incidents {
		kept[i.ID] = true
	}
	for _, e := range all.Events {
		if !kept[e.Incident] {
			t.Fatalf("event %+v without its incident", e)
		}
	}
}

// Unsaved pages are reported: only pages and missing signals, only what is to be sent, and each event once.
func TestReportPages(t *testing.T) {
	metrics, err := NewMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	var reported []Batch
	r := newRecorder(Options{Log: slog.New(slog.DiscardHandler), Metrics: metrics, OnUnsaved: func(b Batch) { reported = append(reported, b) }})
	warning, muted, missing := incidentBatch(1, EventOpened, true), incidentBatch(2, EventOpened, true), incidentBatch(4, EventOpened, true)
	warning.Incidents[0].Peak, missing.Incidents[0].Peak, missing.Incidents[0].Rule = LevelWarn, LevelWarn, SignalMissing
	muted.Events[0].Muted = true
	var all Batch
	for _, b := range []Batch{warning, muted, incidentBatch(3, EventOpened, true), missing} {
		all, _ = mergeBatches(all, b)
	}
	r.reportPages(all)
	r.reportPages(all)
	if len(reported) != 1 || len(reported[0].Events) != 2 || reported[0].Events[0].Incident != "3" || reported[0].Events[1].Incident != "4" ||
		len(reported[0].Incidents) != 2 || len(reported[0].States) != 0 {
		t.Errorf("reported %+v", reported)
	}
}

// The first attempt that fails hands pages over: nothing else need happen for it.
func TestRecorderReportsPagesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t, nil).start()
		r.signals.set(ruleKey, page)
		advance(10 * time.Second)
		r.journal.fail(func(context.Context) (bool, error) { return false, errDisk })
		same(t, "before the page", r.unrecorded.events())
		advance(time.Second)
		same(t, "at the page", r.unrecorded.events(), "2 escalated page")
		advance(time.Minute)
		same(t, "a minute later", r.unrecorded.events(), "2 escalated page")
		r.journal.fail(nil)
		r.stop()
	})
}

// While it fails, attempts become rare, however much comes; pages do not wait for
// the next one.
func TestRecorderBacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t, func(o *Options) { o.Rules[0].Page.For = 120 * time.Second })
		r.journal.fail(func(context.Context) (bool, error) { return false, errDisk })
		r.start()
		r.signals.set(ruleKey, warn)
		for n := range 119 { // each step changes the incident, and so is a batch
			r.signals.set(ruleKey, Value{V: 25 + float64(n)})
			advance(time.Second)
		}
		attempts := r.metric("headgate_journal_errors_total", "save_incidents")
		if attempts < 20 || attempts > 32 {
			t.Errorf("%v attempts in two minutes, want about one in five seconds", attempts)
		}
		advance(2 * time.Second)
		same(t, "unrecorded at the page", r.unrecorded.events(), "2 escalated page")
		if got := r.metric("headgate_journal_errors_total", "save_incidents"); got > attempts+1 {
			t.Errorf("%v attempts for it", got-attempts)
		}
		r.journal.fail(nil)
		advance(writebehind.DefaultMaxRetry)
		same(t, "journal", r.journal.events(), "1 opened warn", "2 escalated page")
		r.signals.set(ruleKey, low)
		advance(time.Second)
		same(t, "journal, at once again", r.journal.events(), "1 opened warn", "2 escalated page", "3 recovering page")
		r.journal.fail(func(context.Context) (bool, error) { return false, errDisk })
		before := r.metric("headgate_journal_errors_total", "save_incidents")
		advance(2 * time.Second)
		if got := r.metric("headgate_journal_errors_total", "save_incidents") - before; got < 4 {
			t.Errorf("%v attempts in two seconds of a new failure: it begins with short pauses", got)
		}
		r.journal.fail(nil)
		r.stop()
	})
}
