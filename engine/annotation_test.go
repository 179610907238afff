package engine

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func (s *script) annotate(annotation Annotation) []Incident {
	s.t.Helper()
	annotated, b, err := s.m.Annotate(s.now, annotation)
	if err != nil {
		s.t.Fatal(err)
	}
	s.record(b)
	return annotated
}

// An annotation is not muted by a silence, and changes neither the level nor what is due.
func TestAnnotation(t *testing.T) {
	s := newScript(t, nil).run(6, warn)
	s.silence("p", time.Minute)
	annotated := s.annotate(Annotation{Kind: EventMode, Pool: "p", By: "ann", Text: "the gate is taken out"})
	if len(annotated) != 1 || annotated[0].Seq != 2 || annotated[0].Level != LevelWarn || annotated[0].PendingUnmute {
		t.Errorf("annotated %+v", annotated)
	}
	s.restart(0).run(61, warn).wantEvents("5 opened warn", "6 mode_changed warn", "66 silence_ended warn")
	if e := s.all[1]; e.By != "ann" || e.Text != "the gate is taken out" || e.Muted {
		t.Errorf("event %+v", e)
	}
}

// An annotation does not count as the notification of an incident that was muted.
func TestAnnotationUnderSilence(t *testing.T) {
	s := newScript(t, nil)
	s.silence("p", time.Hour)
	s.run(6, warn)
	if annotated := s.annotate(Annotation{Kind: EventNote, Rule: "age", By: "headgate"}); len(annotated) != 1 || annotated[0].Notified || !annotated[0].PendingUnmute {
		t.Errorf("annotated %+v", annotated)
	}
}

// It goes to what is open, and to what may come back, but not to what is over.
func TestAnnotationTargets(t *testing.T) {
	s := newScript(t, nil).run(6, warn)
	id := s.incident().ID
	for _, c := range []struct {
		name string
		r    Annotation
		want int
	}{
		{"all", Annotation{}, 1}, {"its pool", Annotation{Pool: "p"}, 1}, {"another pool", Annotation{Pool: "q"}, 0},
		{"its rule", Annotation{Rule: "age"}, 1}, {"another rule", Annotation{Rule: "depth"}, 0},
		{"its ID", Annotation{Incident: id}, 1}, {"another ID", Annotation{Incident: "x"}, 0},
	} {
		c.r.Kind, c.r.By = EventSilenced, "ann"
		if got := len(s.annotate(c.r)); got != c.want {
			t.Errorf("%s: annotated %d incidents, want %d", c.name, got, c.want)
		}
	}
	s.run(6, low)
	if annotated := s.annotate(Annotation{Kind: EventMode, By: "ann"}); len(annotated) != 1 || annotated[0].Open() {
		t.Errorf("resolved, may be reopened: annotated %+v, want it", annotated)
	}
	s.run(700, low)
	if annotated := s.annotate(Annotation{Kind: EventMode, By: "ann"}); len(annotated) != 0 {
		t.Errorf("closed: annotated %+v, want none", annotated)
	}
}

func TestAnnotationRefused(t *testing.T) {
	s := newScript(t, nil).run(6, warn)
	for name, r := range map[string]Annotation{
		"a rule's kind":  {Kind: EventResolved, By: "ann"},
		"no name":        {Kind: EventMode},
		"too many words": {Kind: EventMode, By: "ann", Text: strings.Repeat("x", maxReason+1)},
		"not UTF-8":      {Kind: EventMode, By: "ann", Text: "\xff"},
	} {
		if _, b, err := s.m.Annotate(s.now, r); !errors.Is(err, ErrRefused) || !b.Empty() {
			t.Errorf("%s: %v, %+v", name, err, b)
		}
	}
}

func TestEngineAnnotate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t, nil)
		if _, err := r.Annotate(t.Context(), Annotation{Kind: EventMode, By: "ann"}); !errors.Is(err, ErrNotRunning) {
			t.Errorf("before the start: %v", err)
		}
		r.start()
		defer r.stop()
		if annotated, err := r.Annotate(t.Context(), Annotation{Kind: EventMode, By: "ann"}); err != nil || len(annotated) != 0 {
			t.Errorf("without incidents: %+v, %v", annotated, err)
		}
	})
}
