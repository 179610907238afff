package engine

import (
	"fmt"
	"testing"
	"time"
)

// A breach that recurs within the window continues its incident.
func TestReopen(t *testing.T) {
	s := newScript(t, nil).run(6, warn).run(6, low) // resolved at 11
	id := s.incident().ID
	s.run(600, low).run(6, warn) // breached again at 612, one second too late
	s.wantEvents("5 opened warn", "6 recovering warn", "11 resolved warn recovered", "617 opened warn")
	if s.incident().ID == id {
		t.Error("trouble after the window continues the old incident")
	}
	s = newScript(t, nil).run(6, warn).run(6, low).run(599, low).run(6, warn) // breached again at 611, in time
	s.wantEvents("5 opened warn", "6 recovering warn", "11 resolved warn recovered", "616 reopened warn")
	if st := s.m.States()[0]; !st.LastResolved.IsZero() || st.Incident != "id-000001" {
		t.Errorf("state %+v", st)
	}
	inc := s.incident()
	if inc.ID != "id-000001" || inc.ReopenCount != 1 || !inc.Open() || inc.Resolution != "" || inc.Seq != 4 || !inc.Changed.Equal(epoch.Add(616*time.Second)) {
		t.Errorf("incident %+v", inc)
	}
}

// The window goes on while nothing runs.
func TestReopenAfterRestart(t *testing.T) {
	s := newScript(t, nil).run(6, warn).run(6, low).restart(5*time.Minute).run(6, warn)
	s.wantEvents("5 opened warn", "6 recovering warn", "11 resolved warn recovered", "317 reopened warn")
	s = newScript(t, nil).run(6, warn).run(6, low).restart(11*time.Minute).run(6, warn)
	s.wantEvents("5 opened warn", "6 recovering warn", "11 resolved warn recovered", "677 opened warn")
}

// Without a window every trouble is its own.
func TestNeverReopen(t *testing.T) {
	s := newScript(t, func(c *Config) { c.ReopenWindow = 0 }).run(6, warn).run(6, low).run(6, warn)
	s.wantEvents("5 opened warn", "6 recovering warn", "11 resolved warn recovered", "17 opened warn")
}

// What was a warning may come back as a page: the highest so far is kept.
func TestReopenHigher(t *testing.T) {
	r := ageRule()
	r.Page.For = 0
	s := newScript(t, nil, r).run(6, warn).run(6, low).run(1, page)
	s.wantEvents("5 opened warn", "6 recovering warn", "11 resolved warn recovered", "12 reopened page")
	if inc := s.incident(); inc.Peak != LevelPage {
		t.Errorf("peak %v", inc.Peak)
	}
}

// An oscillation over the thresholds is one incident, flagged and summed up: no
// events without an end.
func TestFlapping(t *testing.T) {
	s := newScript(t, nil).run(6, warn)
	for range 4000 {
		s.run(2, low).run(2, warn)
	}
	s.wantEvents("5 opened warn", "6 recovering warn", "8 refired warn", "10 recovering warn", "12 refired warn", "14 recovering warn",
		"16 refired warn", "18 recovering warn", "20 flapping warn x5",
		"1820 flapping warn x64", "3620 flapping warn x64", "5420 flapping warn x64", "7220 flapping warn x64",
		"9020 flapping warn x64", "10820 flapping warn x64", "12620 flapping warn x64", "14420 flapping warn x64")
	if inc := s.incident(); !inc.Flapping || !inc.Open() {
		t.Errorf("incident %+v", inc)
	}
}

// Ups and downs while flapping are digested; the first page is not.
func TestFlappingIsDigested(t *testing.T) {
	s := newScript(t, nil)
	for range 5 {
		s.run(6, warn).run(6, low)
	}
	if got := s.emitted[len(s.emitted)-3:]; got[0] != "53 reopened warn digested" || got[1] != "53 flapping warn x5" || got[2] != "59 resolved warn recovered digested" {
		t.Fatalf("said %q", got)
	}
	n := len(s.emitted)
	s.run(11, page).run(6, warn).run(11, page)
	got := s.emitted[n:]
	want := []string{"65 reopened warn digested", "70 escalated page", "76 deescalated warn digested", "87 escalated page digested"}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("said %q, want %q", got, want)
	}
}

// When changes become rare, flapping ends with one notification, whether the incident is open or not.
func TestFlappingEnds(t *testing.T) {
	s := newScript(t, nil)
	for range 5 {
		s.run(6, warn).run(6, low)
	}
	s.run(1800, low) // the first flip, at 5, is too old after 1805
	if got := s.emitted[len(s.emitted)-1]; got != "1806 steady warn" {
		t.Fatalf("said %q at the end", got)
	}
	if got := s.m.Incidents(); len(got) != 0 {
		t.Errorf("incidents %+v: none can be reopened any more", got)
	}
}

// Flapping survives restarts.
func TestFlappingRestart(t *testing.T) {
	s := newScript(t, nil).run(6, warn)
	for range 4000 {
		s.restart(0).run(2, low).restart(0).run(2, warn)
	}
	if n := countKind(s.emitted, EventFlapping); n != 9 || len(s.emitted) != 8+n {
		t.Errorf("said %q", s.emitted)
	}
}
