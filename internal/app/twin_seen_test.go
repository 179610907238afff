package app

import (
	"database/sql"
	"path/filepath"
	"testing"
	"time"

	"headgate/runbooks/drill"
)

// What is tried on the record from outside says whether it is locked, and leaves no
// lock behind.
func TestProbesOfTheRecord(t *testing.T) {
	path := filepath.Join(t.TempDir(), "record.db")
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec("CREATE TABLE t (n)"); err != nil {
		t.Fatal(err)
	}
	var s sightings
	clock := &playClock{speed: 1}
	s.probe(t.Context(), path, clock)
	unlock, err := lockRecord(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	s.probe(t.Context(), path, clock)
	if err := unlock(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec("INSERT INTO t VALUES (1)"); err != nil {
		t.Errorf("after a probe: %v", err)
	}
	s.unheeded("it is in another mode")
	var e drill.Evidence
	s.see(&e)
	if len(e.Probes) != 2 || !e.Probes[0].Free || e.Probes[1].Free || len(e.Unheeded) != 1 {
		t.Errorf("seen %+v", e)
	}
}

// What Slack accepts twice is noticed, unless the message says that it may be one.
func TestMessagesThatAreSaidTwice(t *testing.T) {
	c := newReceiver()
	say := func(text string, name payload) {
		c.answered(spoken{channel: "C1", text: text, name: name}, []byte(`{"ok":true,"channel":"C1","ts":"1.1"}`), time.Now())
	}
	first := payload{Incident: "i1", Seq: "1", Kind: "post"}
	say("WARNING", first)
	say("WARNING", payload{Incident: "i2", Seq: "1", Kind: "post"})
	say("WARNING\nThis may be a repeat", first)
	var e drill.Evidence
	if c.see(&e); e.Repeated != 0 {
		t.Errorf("%d repeated", e.Repeated)
	}
	say("WARNING", first)
	if c.see(&e); e.Repeated != 1 || len(e.Messages) != 4 {
		t.Errorf("%d repeated, of %d", e.Repeated, len(e.Messages))
	}
}

// A gate that says something else than was ordered is heard.
func TestAnOrderThatIsNotHeeded(t *testing.T) {
	r := newRig(t, nil)
	w := openTwin(t, r, overloaded())
	if err := w.setMode(t.Context(), "passthrough"); err != nil {
		t.Fatal(err)
	}
	var e drill.Evidence
	if w.seen.see(&e); len(e.Unheeded) > 0 {
		t.Errorf("unheeded: %v", e.Unheeded)
	}
	w.pool.Name = "no such pool"
	if err := w.setMode(t.Context(), "enforce"); err == nil {
		t.Error("an order for no pool was taken")
	}
}
