package demo

import (
	"bytes"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"
)

// screen is a terminal that knows what the live view needs of one.
type screen struct {
	width int
	rows  []string
	y, x  int
}

var sequence = regexp.MustCompile(`^\x1b\[([?0-9;]*)([A-Za-z])`)

func (s *screen) Write(p []byte) (int, error) {
	for text := string(p); text != ""; {
		if m := sequence.FindStringSubmatch(text); m != nil {
			s.applyControl(m[2])
			text = text[len(m[0]):]
			continue
		}
		r := []rune(text)[0]
		s.put(r)
		text = text[len(string(r)):]
	}
	return len(p), nil
}

func (s *screen) applyControl(c string) {
	s.grow()
	switch c {
	case "A":
		s.y = max(s.y-1, 0)
	case "K":
		s.rows[s.y] = string([]rune(s.rows[s.y])[:min(s.x, len([]rune(s.rows[s.y])))])
	case "J":
		s.applyControl("K")
		s.rows = s.rows[:s.y+1]
	}
}

func (s *screen) put(r rune) {
	s.grow()
	switch r {
	case '\r':
		s.x = 0
	case '\n':
		s.y++
	default:
		if s.x >= s.width {
			s.x, s.y = 0, s.y+1
			s.grow()
		}
		row := []rune(s.rows[s.y] + strings.Repeat(" ", max(s.x-len([]rune(s.rows[s.y])), 0)))
		s.rows[s.y] = string(row[:s.x]) + string(r) + string(row[min(s.x+1, len(row)):])
		s.x++
	}
}

func (s *screen) grow() {
	for len(s.rows) <= s.y {
		s.rows = append(s.rows, "")
	}
}

func (s *screen) text() string {
	var b strings.Builder
	for _, row := range s.rows[:s.y] {
		b.WriteString(strings.TrimRight(row, " ") + "\n")
	}
	return b.String()
}

// After many frames, of growing and shrinking height, the terminal shows the
// last one and what stood above, and nothing else.
func TestLiveRedrawsInPlace(t *testing.T) {
	w := newSimulation(t, DefaultOptions())
	s := &screen{width: 80}
	_, _ = s.Write([]byte("above\r\n"))
	height := 0
	v := &liveView{out: s, size: func() (int, int) { return 80, height }, plan: w.plan}
	for i, h := range []int{24, 40, 10, 30} {
		height = h
		if err := v.render(w.at(sec(float64(60 * i)))); err != nil {
			t.Fatal(err)
		}
	}
	if err := v.close(); err != nil {
		t.Fatal(err)
	}
	if want := "above\n" + draw(w.at(sec(180)), w.plan, 80, 30, false); s.text() != want {
		t.Errorf("screen:\n%s\nwant:\n%s", s.text(), want)
	}
}

// A terminal that has become narrower has broken the lines that stand in it: the
// view goes up by as many rows as they take now.
func TestLiveCountsBrokenLines(t *testing.T) {
	var out bytes.Buffer
	width := 40
	v := &liveView{out: &out, size: func() (int, int) { return width, 24 }, widths: []int{80, 0, 41, 40}, hidden: true}
	v.plan = newSimulation(t, DefaultOptions()).plan
	if err := v.render(State{}); err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(out.String(), "\x1b[A"); got != 2+1+2+1 {
		t.Errorf("went up %d rows, want 6", got)
	}
}

func TestLiveGivesTheCursorBack(t *testing.T) {
	var out bytes.Buffer
	v := &liveView{out: &out, size: func() (int, int) { return 80, 24 }, plan: newSimulation(t, DefaultOptions()).plan}
	if err := v.close(); err != nil || out.Len() > 0 {
		t.Errorf("done before a frame: %q, %v", out.String(), err)
	}
	_ = v.render(State{})
	_ = v.render(State{})
	_ = v.close()
	if got := out.String(); strings.Count(got, hideCursor) != 1 || !strings.HasSuffix(got, showCursor) {
		t.Errorf("cursor not hidden once and shown at the end: %q", got)
	}
}

func TestPlainLines(t *testing.T) {
	w := newSimulation(t, DefaultOptions())
	var out bytes.Buffer
	v := &lineView{out: &out}
	for _, at := range []float64{0, 15, 180, 240, 315} {
		if err := v.render(w.at(sec(at))); err != nil {
			t.Fatal(err)
		}
	}
	last := w.at(sec(420))
	last.Outcome = Complete
	if err := v.render(last); err != nil {
		t.Fatal(err)
	}
	golden(t, "lines.txt", out.String())
}

type errWriter struct{ err error }

func (d errWriter) Write([]byte) (int, error) { return 0, d.err }

func TestViewsPassErrorsOn(t *testing.T) {
	closed := errors.New("closed")
	w := newSimulation(t, DefaultOptions())
	for name, v := range map[string]view{
		"live":  &liveView{out: errWriter{closed}, size: func() (int, int) { return 80, 24 }, plan: w.plan},
		"lines": &lineView{out: errWriter{closed}},
	} {
		if err := v.render(w.at(sec(60))); !errors.Is(err, closed) {
			t.Errorf("%s: %v, want the writer's error", name, err)
		}
	}
}

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
