package engine

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func (s *script) remark(r Remark) []Incident {
	s.t.Helper()
	told, b, err := s.m.Remark(s.now, r)
	if err != nil {
		s.t.Fatal(err)
	}
	s.note(b)
	return told
}

// A remark is told whatever is silenced, and changes neither level nor what is due.
func TestRemark(t *testing.T) {
	s := newScript(t, nil).run(6, warn)
	s.silence("p", time.Minute)
	told := s.remark(Remark{Kind: EventMode, Pool: "p", By: "ann", Words: "the gate is taken out"})
	if len(told) != 1 || told[0].Seq != 2 || told[0].Level != LevelWarn || told[0].Due {
		t.Errorf("told %+v", told)
	}
	s.restart(0).run(61, warn).want("5 opened warn", "6 mode_changed warn", "66 silence_ended warn")
	if e := s.all[1]; e.By != "ann" || e.Words != "the gate is taken out" || e.Muted {
		t.Errorf("event %+v", e)
	}
}

// What nobody has heard of stays so: a remark about it is no news of it.
func TestRemarkUnderASilence(t *testing.T) {
	s := newScript(t, nil)
	s.silence("p", time.Hour)
	s.run(6, warn)
	if told := s.remark(Remark{Kind: EventNoted, Rule: "age", By: "headgate"}); len(told) != 1 || told[0].Told || !told[0].Due {
		t.Errorf("told %+v", told)
	}
}

// It goes to what is open, and to what may come back, but not to what is over.
func TestRemarkReaches(t *testing.T) {
	s := newScript(t, nil).run(6, warn)
	id := s.incident().ID
	for _, c := range []struct {
		name string
		r    Remark
		want int
	}{
		{"all", Remark{}, 1}, {"its pool", Remark{Pool: "p"}, 1}, {"another pool", Remark{Pool: "q"}, 0},
		{"its rule", Remark{Rule: "age"}, 1}, {"another rule", Remark{Rule: "depth"}, 0},
		{"its ID", Remark{Incident: id}, 1}, {"another ID", Remark{Incident: "x"}, 0},
	} {
		c.r.Kind, c.r.By = EventSilenced, "ann"
		if got := len(s.remark(c.r)); got != c.want {
			t.Errorf("%s: told %d, want %d", c.name, got, c.want)
		}
	}
	s.run(6, low)
	if told := s.remark(Remark{Kind: EventMode, By: "ann"}); len(told) != 1 || told[0].Open() {
		t.Errorf("one that may be reopened: %+v", told)
	}
	s.run(700, low)
	if told := s.remark(Remark{Kind: EventMode, By: "ann"}); len(told) != 0 {
		t.Errorf("one that is over: %+v", told)
	}
}

func TestRemarkRefused(t *testing.T) {
	s := newScript(t, nil).run(6, warn)
	for name, r := range map[string]Remark{
		"a rule's kind":  {Kind: EventResolved, By: "ann"},
		"nobody":         {Kind: EventMode},
		"too many words": {Kind: EventMode, By: "ann", Words: strings.Repeat("x", maxReason+1)},
		"not UTF-8":      {Kind: EventMode, By: "ann", Words: "\xff"},
	} {
		if _, b, err := s.m.Remark(s.now, r); !errors.Is(err, ErrRefused) || !b.Empty() {
			t.Errorf("%s: %v, %+v", name, err, b)
		}
	}
}

func TestEngineRemark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		if _, err := r.Remark(t.Context(), Remark{Kind: EventMode, By: "ann"}); !errors.Is(err, ErrNotRunning) {
			t.Errorf("before the start: %v", err)
		}
		r.start()
		defer r.stop()
		if told, err := r.Remark(t.Context(), Remark{Kind: EventMode, By: "ann"}); err != nil || len(told) != 0 {
			t.Errorf("without incidents: %+v, %v", told, err)
		}
	})
}
