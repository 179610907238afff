package loadgen

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func arrivalsAt(seconds ...float64) Arrivals {
	var out Arrivals
	for _, s := range seconds {
		out = append(out, Arrival{At: time.Duration(s * float64(time.Second)), PromptTokens: 10, OutputTokens: 5})
	}
	return out
}

func collect(t *testing.T, src Source, err error) Arrivals {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	out, err := Collect(src)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// wantError fails unless err says all of the words.
func wantError(t *testing.T, err error, words ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("got no error, want one that says %q", words)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error %q does not say %q", err, w)
		}
	}
}

func TestCollectGivesBackWhatTheSourceYields(t *testing.T) {
	want := arrivalsAt(0, 1, 1, 2.5)
	got := collect(t, want.Source(), nil)
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	again := collect(t, want.Source(), nil)
	if len(again) != len(want) {
		t.Errorf("a second source yields %d arrivals, want %d: sources must not share their place", len(again), len(want))
	}
}

func TestCollectRefusesBadSources(t *testing.T) {
	for name, c := range map[string]struct {
		in   Arrivals
		says string
	}{
		"backwards":       {arrivalsAt(2, 1), "never decrease"},
		"negative":        {arrivalsAt(-1), "never decrease"},
		"too late":        {Arrivals{{At: MaxSpan + 1}}, "at most"},
		"negative prompt": {Arrivals{{PromptTokens: -1}}, "prompt tokens"},
		"huge prompt":     {Arrivals{{PromptTokens: MaxTokens + 1}}, "prompt tokens"},
		"negative output": {Arrivals{{OutputTokens: -1}}, "output tokens"},
		"huge output":     {Arrivals{{OutputTokens: MaxTokens + 1}}, "output tokens"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Collect(c.in.Source())
			wantError(t, err, c.says)
		})
	}
}

type endlessSource struct{}

func (endlessSource) Next() (Arrival, bool) { return Arrival{}, true }

func TestCollectStopsAtAnEndlessSource(t *testing.T) {
	_, err := collectUpTo(endlessSource{}, 10)
	wantError(t, err, "more than 10 arrivals")
	if got, err := collectUpTo(make(Arrivals, 10).Source(), 10); err != nil || len(got) != 10 {
		t.Errorf("got %d arrivals and %v, want the ten that are allowed", len(got), err)
	}
}

func TestScaleCompressesTimeAndLeavesTheOriginal(t *testing.T) {
	in := arrivalsAt(0, 1, 4)
	got, err := in.Scale(2)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(arrivalsAt(0, 0.5, 2), got); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(arrivalsAt(0, 1, 4), in); d != "" {
		t.Errorf("the receiver changed: %s", d)
	}
}

func TestScaleRefusesNonsense(t *testing.T) {
	for _, load := range []float64{0, -1, math.NaN(), math.Inf(1), math.Inf(-1)} {
		_, err := arrivalsAt(1).Scale(load)
		wantError(t, err, "above 0")
	}
	_, err := arrivalsAt(1).Scale(1e-12)
	wantError(t, err, "larger factor")
}

func TestTakeAndWindow(t *testing.T) {
	in := arrivalsAt(0, 1, 2, 3, 4)
	for name, c := range map[string]struct{ got, want Arrivals }{
		"take some":        {in.Take(2), arrivalsAt(0, 1)},
		"take more":        {in.Take(9), in},
		"take fewer than0": {in.Take(-1), Arrivals{}},
		"window":           {in.Window(1*time.Second, 3*time.Second), arrivalsAt(0, 1)},
		"empty window":     {in.Window(9*time.Second, 10*time.Second), nil},
	} {
		t.Run(name, func(t *testing.T) {
			if d := cmp.Diff(c.want, c.got); d != "" {
				t.Error(d)
			}
		})
	}
	if grown := append(in.Take(2), Arrival{At: 99}); in[2].At == grown[2].At {
		t.Error("appending to a taken part overwrote the original")
	}
}

func TestStatsOfAKnownSequence(t *testing.T) {
	// Gaps of 1, 1 and 18 s: mean 20/3, population deviation by hand 8.0139.
	in := Arrivals{
		{At: 0, PromptTokens: 10, OutputTokens: 1},
		{At: 1 * time.Second, PromptTokens: 20, OutputTokens: 2},
		{At: 2 * time.Second, PromptTokens: 30, OutputTokens: 3},
		{At: 20 * time.Second, PromptTokens: 40, OutputTokens: 4},
	}
	got := in.Stats()
	if d := math.Abs(got.GapVariation - 1.20208); d > 1e-4 {
		t.Errorf("gap variation %v, want 1.20208", got.GapVariation)
	}
	got.GapVariation = 0
	want := Stats{
		Count: 4, Span: 20 * time.Second, MeanRate: 0.2, PeakRate: 0.3, LongestGap: 18 * time.Second,
		Prompt: Sizes{P50: 20, P95: 40, Max: 40}, Output: Sizes{P50: 2, P95: 4, Max: 4},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestStatsWithoutASpan(t *testing.T) {
	for name, in := range map[string]Arrivals{"none": nil, "one": arrivalsAt(5), "all at once": arrivalsAt(5, 5, 5)} {
		got := in.Stats()
		if got.Count != len(in) || got.MeanRate != 0 || got.GapVariation != 0 || got.Span != 0 {
			t.Errorf("%s: got %+v, want the count and zeros", name, got)
		}
	}
}

func TestCompressionStatesTheNewLoad(t *testing.T) {
	src, err := Constant(2, 100*time.Second)
	in := collect(t, src, err)
	service, workers := 4*time.Second, 10
	before := in.Stats().Load(service, workers)
	if math.Abs(before-0.8) > 0.01 {
		t.Fatalf("load %v, want about 2 × 4 ÷ 10", before)
	}
	factor := in.Stats().FactorFor(2, service, workers)
	scaled, err := in.Scale(factor)
	if err != nil {
		t.Fatal(err)
	}
	if after := scaled.Stats().Load(service, workers); math.Abs(after-2) > 0.001 {
		t.Errorf("load after scaling by %v is %v, want 2", factor, after)
	}
}

func TestLoadOfNonsenseIsZero(t *testing.T) {
	st := Stats{MeanRate: 1}
	for name, got := range map[string]float64{
		"no service":    st.Load(0, 4),
		"no workers":    st.Load(time.Second, 0),
		"no rate":       Stats{}.FactorFor(2, time.Second, 4),
		"NaN load":      st.FactorFor(math.NaN(), time.Second, 4),
		"infinite load": st.FactorFor(math.Inf(1), time.Second, 4),
		"negative load": st.FactorFor(-1, time.Second, 4),
	} {
		if got != 0 {
			t.Errorf("%s: got %v, want 0", name, got)
		}
	}
}

func TestRankIsNearest(t *testing.T) {
	for _, c := range []struct {
		n    int
		q    float64
		want int
	}{
		{1, 0.5, 0}, {1, 0.99, 0}, {2, 0.5, 0}, {20, 0.95, 18}, {21, 0.95, 19}, {100, 0.99, 98}, {101, 0.99, 99}, {10, 1, 9}, {10, 0, 0},
	} {
		if got := rank(c.n, c.q); got != c.want {
			t.Errorf("rank(%d, %v) = %d, want %d", c.n, c.q, got, c.want)
		}
	}
}
