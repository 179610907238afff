package demo

import (
	"strings"
	"testing"
	"time"
)

func draw(s State, p Plan, width, height int, colour bool) string {
	var b strings.Builder
	for _, l := range frame(s, p, width, height) {
		b.WriteString(strings.TrimRight(l.render(colour), " ") + "\n")
	}
	return b.String()
}

func TestFrames(t *testing.T) {
	w := newSimulation(t, DefaultOptions())
	for _, c := range []struct {
		name          string
		at            time.Duration
		width, height int
		colour        bool
	}{
		{"wide", sec(225), 96, 40, false},
		{"colour", sec(225), 96, 40, true},
		{"usual", sec(290), 80, 24, false},
		{"narrow", sec(150), 44, 24, false},
		{"flat", sec(60), 80, 14, false},
		{"draining", sec(350), 80, 30, false},
	} {
		golden(t, "frame-"+c.name+".txt", draw(w.at(c.at), w.plan, c.width, c.height, c.colour))
	}
}

func TestFrameAtTheEnd(t *testing.T) {
	w := newSimulation(t, DefaultOptions())
	for ending, want := range map[Outcome]string{Complete: "done", Interrupted: "stopped", DrainLimit: "stopped"} {
		s := w.at(sec(400))
		s.Outcome = ending
		if got := draw(s, w.plan, 80, 24, false); !strings.HasPrefix(got, want) {
			t.Errorf("%s begins with %q, want %q", ending, got[:20], want)
		}
	}
}

// Whatever the terminal's size, the frame leaves room for the cursor and breaks
// no line.
func TestFramesFit(t *testing.T) {
	w := newSimulation(t, DefaultOptions())
	for _, at := range []time.Duration{0, sec(1), sec(130), sec(250), sec(500)} {
		s := w.at(at)
		for _, width := range []int{0, 1, 2, 7, 11, 12, 13, 20, 40, 50, 51, 65, 66, 67, 80, 100, 101, 300} {
			for _, height := range []int{0, 1, 2, 5, 14, 15, 16, 17, 18, 19, 20, 24, 25, 30, 100} {
				lines := frame(s, w.plan, width, height)
				if len(lines) > max(height-1, 0) {
					t.Fatalf("%d×%d at %v: %d lines", width, height, at, len(lines))
				}
				for _, l := range lines {
					if l.width() > width {
						t.Fatalf("%d×%d at %v: %q is too wide", width, height, at, l.render(false))
					}
				}
			}
		}
	}
}

func TestNoColourMeansNone(t *testing.T) {
	w := newSimulation(t, DefaultOptions())
	if got := draw(w.at(sec(250)), w.plan, 96, 40, false); strings.Contains(got, "\x1b") {
		t.Errorf("escape sequences without colour:\n%q", got)
	}
}

func TestOverIsMarked(t *testing.T) {
	p := Plan{SLO: slo, Workers: 1}
	for _, c := range []struct {
		p95  time.Duration
		n    int
		want string
	}{{sec(60), 5, "ok  60.0 s"}, {sec(60.1), 5, "OVER  60.1 s"}, {0, 0, "-"}} {
		if got := p95Cell(Reading{P95: c.p95, Ended: c.n}, p.SLO).text; got != c.want {
			t.Errorf("p95 of %v: %q, want %q", c.p95, got, c.want)
		}
	}
}

func TestBarsShowTheSmallest(t *testing.T) {
	got := strings.Join(bars([]int{0, 1, 50, 100}, 100, 2), "|")
	if want := "   █| ▁██"; got != want {
		t.Errorf("bars %q, want %q", got, want)
	}
	if got := strings.Join(bars([]int{0, 0}, 0, 1), "|"); got != "  " {
		t.Errorf("bars of nothing %q", got)
	}
}

func TestPhases(t *testing.T) {
	w := newSimulation(t, DefaultOptions())
	for at, want := range map[float64]Phase{0: Baseline, 119.9: Baseline, 120: Burst, 239.9: Burst, 240: After, 299.9: After, 300: Draining} {
		if got := w.plan.Phase(sec(at)); got != want {
			t.Errorf("at %v s: %s, want %s", at, got, want)
		}
	}
	w.plan.Burst = nil
	if got := w.plan.Phase(sec(200)); got != Baseline {
		t.Errorf("without a burst: %s, want %s", got, Baseline)
	}
}
