package engine

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// A silence mutes what is sent, not the state, and ends with the truth.
func TestSilence(t *testing.T) {
	s := newScript(t, nil)
	s.silence("p", time.Minute)
	s.run(61, page)
	s.wantEvents("5 opened warn muted", "10 escalated page muted", "60 silence_ended page")
	if inc := s.incident(); inc.PendingUnmute || !inc.Notified {
		t.Errorf("incident %+v: nothing is due any more", inc)
	}
	if left := s.m.Silences(); len(left) != 0 || !s.store.silences["id-000001"].EndHandled {
		t.Errorf("silences %+v, saved %+v", left, s.store.silences)
	}
}

// An incident that was notified and ended during a silence is notified when the silence ends, even if it can no longer
// be reopened.
func TestSilenceEndedMeanwhile(t *testing.T) {
	s := newScript(t, nil).run(6, warn)
	s.silence("", time.Hour)
	s.run(1000, low).restart(time.Minute).run(3000, low)
	s.wantEvents("5 opened warn", "6 recovering warn muted", "11 resolved warn recovered muted", "3606 silence_ended warn")
	if got := s.m.Incidents(); len(got) != 0 {
		t.Errorf("incidents %+v remain", got)
	}
}

// An incident that is still open when the silence ends is notified again.
func TestSilenceStillOpen(t *testing.T) {
	s := newScript(t, nil).run(11, page)
	s.silence("p", 3*time.Hour)
	s.run(3*3600+1, page)
	s.wantEvents("5 opened warn", "10 escalated page", "10811 silence_ended page")
	s.run(3600, page)
	if got := s.emitted[len(s.emitted)-1]; got != "14411 reminder page" {
		t.Errorf("said %q, want a reminder an hour after the silence", got)
	}
}

// The end of a silence notifies nothing without incidents, nor about incidents that were closed before it.
func TestSilenceWithoutEvents(t *testing.T) {
	s := newScript(t, nil)
	s.silence("p", time.Minute)
	s.run(100, low).wantEvents()
	s = newScript(t, nil).run(6, warn).run(6, low)
	s.silence("p", time.Minute)
	s.run(100, low).wantEvents("5 opened warn", "6 recovering warn", "11 resolved warn recovered")
}

// Of many that come and go in one silence, the latest is the truth.
func TestSilenceLatestIncident(t *testing.T) {
	s := newScript(t, func(c *Config) { c.ReopenWindow = 0 }).run(6, warn)
	s.silence("p", time.Hour)
	for range 3 {
		s.run(6, low).run(6, warn)
	}
	s.run(4000, low)
	var notified []string
	for _, e := range s.all {
		if e.Kind == EventUnmuted {
			notified = append(notified, e.Incident)
		}
	}
	if len(notified) != 2 || notified[0] != "id-000001" || notified[1] != s.all[len(s.all)-1].Incident {
		t.Errorf("notified of %q, want the known one and the latest", notified)
	}
}

// It is about its rule and its pool only.
func TestSilenceScope(t *testing.T) {
	tests := map[string]struct {
		silence Silence
		muted   bool
	}{
		"all pools":    {Silence{Rule: "age"}, true},
		"its pool":     {Silence{Rule: "age", Pool: "p"}, true},
		"another pool": {Silence{Rule: "age", Pool: "q"}, false},
		"another rule": {Silence{Rule: "depth"}, false},
		"not yet":      {Silence{Rule: "age", From: epoch.Add(6 * time.Second)}, false},
		"just now":     {Silence{Rule: "age", From: epoch.Add(5 * time.Second)}, true},
	}
	for name, test := range tests {
		s := newScript(t, nil)
		test.silence.By, test.silence.Until = "ann", epoch.Add(time.Hour)
		if _, _, err := s.m.Silence(s.now, test.silence); err != nil {
			t.Fatal(err)
		}
		s.run(6, warn)
		if s.all[0].Muted != test.muted {
			t.Errorf("%s: %q", name, s.emitted)
		}
	}
}

// The end is exclusive, and nothing is notified while another silence applies.
func TestSilenceOverlap(t *testing.T) {
	s := newScript(t, nil).run(5, warn)
	s.silence("p", 10*time.Second)
	s.silence("", 5*time.Minute)
	s.run(301, warn)
	s.wantEvents("5 opened warn muted", "305 silence_ended warn")
	s = newScript(t, nil)
	s.silence("p", 5*time.Second)
	s.run(6, warn).wantEvents("5 opened warn")
}

// A silence that ended while nothing ran is dealt with at the first step.
func TestSilenceEndsInDowntime(t *testing.T) {
	s := newScript(t, nil)
	s.silence("p", time.Minute)
	s.run(11, page).restart(time.Hour).run(2, page)
	s.wantEvents("5 opened warn muted", "10 escalated page muted", "3611 silence_ended page")
}

// Ending a silence early notifies at once and names the actor.
func TestUnsilence(t *testing.T) {
	s := newScript(t, nil)
	id := s.silence("p", time.Hour).ID
	s.run(11, page)
	lifted, b, err := s.m.Unsilence(s.now, id, "bob")
	if err != nil {
		t.Fatal(err)
	}
	s.record(b)
	s.run(5, page).wantEvents("5 opened warn muted", "10 escalated page muted", "11 silence_ended page")
	if !lifted.EndHandled || !lifted.Until.Equal(epoch.Add(11*time.Second)) || s.all[2].By != "bob" {
		t.Errorf("lifted %+v, event %+v", lifted, s.all[2])
	}
	if _, _, err := s.m.Unsilence(s.now, id, "ann"); !errors.Is(err, ErrNoSilence) {
		t.Errorf("the second time: %v", err)
	}
	if _, _, err := s.m.Unsilence(s.now, id, ""); !errors.Is(err, ErrRefused) {
		t.Errorf("without a name: got %v, want ErrRefused", err)
	}
}

// One that has not begun ends without a word.
func TestUnsilenceBeforeStart(t *testing.T) {
	s := newScript(t, nil).run(6, warn)
	done, b, err := s.m.Silence(s.now, Silence{Rule: "age", By: "ann", From: s.now.Add(time.Hour), Until: s.now.Add(2 * time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	s.record(b)
	_, b, err = s.m.Unsilence(s.now, done.Silence.ID, "ann")
	if err != nil {
		t.Fatal(err)
	}
	s.record(b)
	s.wantEvents("5 opened warn")
}

// Who presses second is shown the silence that is there; who wants it for longer
// gets another one.
func TestSilenceTwice(t *testing.T) {
	s := newScript(t, nil)
	first := s.silence("p", time.Hour)
	s.run(30, low)
	if again := s.silence("p", time.Hour); again != first {
		t.Errorf("second silence %+v, want %+v", again, first)
	}
	if longer := s.silence("p", 2*time.Hour); longer.ID == first.ID {
		t.Error("a longer one was refused")
	}
	if wider := s.silence("", time.Hour); wider.ID == first.ID {
		t.Error("one for all pools was refused")
	}
	if n := len(s.m.Silences()); n != 3 {
		t.Errorf("%d silences, want 3", n)
	}
}

func TestSilenceRefused(t *testing.T) {
	ok := Silence{Rule: "age", By: "ann", Until: epoch.Add(time.Hour)}
	tests := map[string]struct {
		edit func(*Silence)
		says string
	}{
		"of no rule": {func(s *Silence) { s.Rule = "" }, "rule is missing"},
		"no name":    {func(s *Silence) { s.By = "" }, "name is missing"},
		"past":       {func(s *Silence) { s.Until = epoch }, "not 0s"},
		"endless":    {func(s *Silence) { s.Until = epoch.AddDate(300, 0, 0) }, "up to 720h0m0s"},
		"a novel":    {func(s *Silence) { s.Reason = strings.Repeat("x", 1001) }, "1001 bytes"},
		"long pool":  {func(s *Silence) { s.Pool = strings.Repeat("x", 201) }, "201 bytes"},
	}
	m := newScript(t, nil).m
	for name, test := range tests {
		s := ok
		test.edit(&s)
		if _, b, err := m.Silence(epoch, s); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), test.says) || !b.Empty() {
			t.Errorf("%s: %v", name, err)
		}
	}
	for n := range maxSilences {
		ok.Until = epoch.Add(time.Hour + time.Duration(n)*2*time.Minute)
		if _, _, err := m.Silence(epoch, ok); err != nil {
			t.Fatal(err)
		}
	}
	ok.Until = epoch.Add(700 * time.Hour)
	if _, _, err := m.Silence(epoch, ok); !errors.Is(err, ErrTooMany) {
		t.Errorf("one more than fit: %v", err)
	}
}
