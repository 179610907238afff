package app

import (
	"log/slog"
	"testing"
	"time"

	"headgate/internal/sqlite"
	"headgate/runbooks/drill"
)

// A probe of the record says whether it is locked.
func TestProbesOfTheRecord(t *testing.T) {
	dir := t.TempDir()
	store, err := sqlite.Open(t.Context(), sqlite.Options{Dir: dir, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	var s observations
	clock := &scenarioClock{speed: 1}
	s.probe(t.Context(), dir, clock)
	unlock, err := sqlite.LockExclusive(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	s.probe(t.Context(), dir, clock)
	if err := unlock(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.recordIgnoredOrder("it is in another mode")
	var e drill.Evidence
	s.addTo(&e)
	if len(e.WriteProbes) != 2 || !e.WriteProbes[0].Writable || e.WriteProbes[1].Writable || len(e.UnappliedRequests) != 1 {
		t.Errorf("seen %+v", e)
	}
}

// What Slack accepts twice is noticed, unless the message says that it may be one.
func TestDuplicateMessages(t *testing.T) {
	c := newSlackRecorder()
	say := func(text string, name deliveryID) {
		c.recordAccepted(sentMessage{channel: "C1", text: text, delivery: name}, []byte(`{"ok":true,"channel":"C1","ts":"1.1"}`), time.Now())
	}
	first := deliveryID{Incident: "i1", Seq: "1", Kind: "post"}
	say("WARNING", first)
	say("WARNING", deliveryID{Incident: "i2", Seq: "1", Kind: "post"})
	say("WARNING\nThis may be a repeat", first)
	var e drill.Evidence
	if c.addTo(&e); e.DuplicateMessages != 0 {
		t.Errorf("%d repeated", e.DuplicateMessages)
	}
	say("WARNING", first)
	if c.addTo(&e); e.DuplicateMessages != 1 || len(e.Messages) != 4 {
		t.Errorf("%d repeated, of %d", e.DuplicateMessages, len(e.Messages))
	}
}

// A gate that says something else than was ordered is heard.
func TestIgnoredOrderRecorded(t *testing.T) {
	r := newFixture(t, nil)
	w := openSandbox(t, r, overloadedRun())
	if err := w.setMode(t.Context(), "passthrough"); err != nil {
		t.Fatal(err)
	}
	var e drill.Evidence
	if w.observations.addTo(&e); len(e.UnappliedRequests) > 0 {
		t.Errorf("unheeded: %v", e.UnappliedRequests)
	}
	w.pool.Name = "no such pool"
	if err := w.setMode(t.Context(), "enforce"); err == nil {
		t.Error("an order for no pool was taken")
	}
}
