package demo

import (
	"bytes"
	"errors"
	"math"
	"regexp"
	"testing"
	"time"

	"headgate/internal/loadgen"
	"headgate/internal/modelstub"
)

func planOf(t *testing.T, o Options) Plan {
	t.Helper()
	s, err := newWorkload(o)
	if err != nil {
		t.Fatal(err)
	}
	return newPlan(o, s)
}

func TestPlanOfTheArticle(t *testing.T) {
	p := planOf(t, DefaultOptions())
	if p.SLO != time.Minute || p.MaxQueueAge != 25*time.Second || p.Depth != 32 {
		t.Errorf("%+v, want the article's SLO and thresholds", p)
	}
	if p.Duration != 300*time.Second || p.BaseRate != 0.8 || p.Burst == nil || p.Burst.Multiple != 2 {
		t.Errorf("%+v, want the article's load", p)
	}
	if p.MeanService != 17500*time.Millisecond {
		t.Errorf("mean service %v, want 17.5 s", p.MeanService)
	}
	if got := p.Wall(p.Duration); got != 15*time.Second {
		t.Errorf("takes %v on the wall clock, want 15 s", got)
	}
}

func TestLoads(t *testing.T) {
	for _, c := range []struct {
		workers     int
		base, burst float64
	}{{16, 0.875, 1.75}, {4, 3.5, 7}, {64, 0.21875, 0.4375}} {
		o := DefaultOptions()
		o.Workers = c.workers
		p := planOf(t, o)
		if p.Load(1) != c.base || p.Load(2) != c.burst {
			t.Errorf("%d workers: load %v and %v, want %v and %v", c.workers, p.Load(1), p.Load(2), c.base, c.burst)
		}
	}
}

// The mean of a service that depends on size weighs both sizes of prompt.
func TestMeanServiceWeighsSizes(t *testing.T) {
	o := DefaultOptions()
	o.Service = modelstub.Tokens{Prefill: 100, Decode: 100}
	o.Profile.Small = loadgen.Shape{PromptTokens: 100, OutputTokens: 100} // 2.03 s
	o.Profile.Large = loadgen.Shape{PromptTokens: 900, OutputTokens: 100} // 10.03 s
	o.Profile.LargeShare = 0.25
	if got, want := planOf(t, o).MeanService.Seconds(), 4.03; math.Abs(got-want) > 1e-6 {
		t.Errorf("mean %v s, want %v", got, want)
	}
}

// What is drawn has about the expected mean: the load that is stated is the one
// that is played.
func TestDrawsHaveTheStatedMean(t *testing.T) {
	for seed := range uint64(20) {
		o := DefaultOptions()
		o.Seed = seed
		s, err := newWorkload(o)
		if err != nil {
			t.Fatal(err)
		}
		var sum time.Duration
		for _, d := range s.serviceTimes {
			if d < 5*time.Second || d > 30*time.Second {
				t.Fatalf("seed %d: service of %v", seed, d)
			}
			sum += d
		}
		// The standard error of the mean is 7.2 s / √350 = 0.39 s.
		if mean := (sum / time.Duration(len(s.serviceTimes))).Seconds(); math.Abs(mean-17.5) > 2 {
			t.Errorf("seed %d: mean service %.2f s, want about 17.5", seed, mean)
		}
	}
}

var port = regexp.MustCompile(`127\.0\.0\.1:\d+`)

var loginCode = regexp.MustCompile(`code=[A-Z0-9]+`)

// checkIntros checks the introductions of a demo for other options.
func checkIntros(t *testing.T, d *Demo, all map[string]Options) {
	t.Helper()
	for name, o := range all {
		d.plan = planOf(t, o)
		var b bytes.Buffer
		if err := intro(&b, d, 80); err != nil {
			t.Fatal(err)
		}
		text := port.ReplaceAllString(b.String(), "127.0.0.1:PORT")
		golden(t, "intro-"+name+".txt", loginCode.ReplaceAllString(text, "code=CODE"))
	}
}

func TestShort(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 60 * time.Second: "60s", 1250 * time.Millisecond: "1.25s", 416666667: "0.417s", 2 * time.Hour: "7200s",
	} {
		if got := formatSeconds(d); got != want {
			t.Errorf("short(%v) = %q, want %q", d, got, want)
		}
	}
}

func TestStyles(t *testing.T) {
	l := line{{"abc", good}, {"·██", normal}, {"xyz", bad}}
	for width, want := range map[int]string{
		0: "", 2: "\x1b[32mab\x1b[0m", 3: "\x1b[32mabc\x1b[0m", 4: "\x1b[32mabc\x1b[0m·",
		7: "\x1b[32mabc\x1b[0m·██\x1b[1;31mx\x1b[0m", 99: "\x1b[32mabc\x1b[0m·██\x1b[1;31mxyz\x1b[0m",
	} {
		cut := l.truncate(width)
		if got := cut.render(true); got != want {
			t.Errorf("fit to %d: %q, want %q", width, got, want)
		}
		if cut.width() > width {
			t.Errorf("fit to %d is %d wide", width, cut.width())
		}
	}
	if got := l.render(false); got != "abc·██xyz" {
		t.Errorf("without colour: %q", got)
	}
}

func checkWriterErrors(t *testing.T, d *Demo) {
	t.Helper()
	closed := errors.New("closed")
	w := errWriter{closed}
	s := newSimulation(t, DefaultOptions()).summary(sec(400), Complete)
	for name, err := range map[string]error{
		"JSON": s.WriteJSON(w), "text": s.Write(w, 80, true), "picture": s.WriteSVG(w), "outro": outro(w, s, "", 80),
		"intro": intro(w, d, 80), "keeping": Screen{Live: w}.printKeepHelp(d),
	} {
		if !errors.Is(err, closed) {
			t.Errorf("%s: %v, want the writer's error", name, err)
		}
	}
}
