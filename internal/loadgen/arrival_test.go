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

func TestStatsOfAKnownSequence(t *testing.T) {
	// Gaps of 1, 1 and 18 s: mean 20/3, population deviation by hand 8.0139.
	in := Arrivals{
		{At: 0, PromptTokens: 10, OutputTokens: 1},
		{At: 1 * time.Second, PromptTokens: 20, OutputTokens: 2},
		{At: 2 * time.Second, PromptTokens: 30, OutputTokens: 3},
		{At: 20 * time.Second, PromptTokens: 40, OutputTokens: 4},
	}
	got := in.stats()
	if d := math.Abs(got.GapVariation - 1.20208); d > 1e-4 {
		t.Errorf("gap variation %v, want 1.20208", got.GapVariation)
	}
	got.GapVariation = 0
	want := sequenceStats{
		Count: 4, Span: 20 * time.Second, MeanRate: 0.2, PeakRate: 0.3, LongestGap: 18 * time.Second,
		Prompt: sizes{P50: 20, P95: 40, Max: 40}, Output: sizes{P50: 2, P95: 4, Max: 4},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestStatsWithoutASpan(t *testing.T) {
	for name, in := range map[string]Arrivals{"none": nil, "one": arrivalsAt(5), "all at once": arrivalsAt(5, 5, 5)} {
		got := in.stats()
		if got.Count != len(in) || got.MeanRate != 0 || got.GapVariation != 0 || got.Span != 0 {
			t.Errorf("%s: got %+v, want the count and zeros", name, got)
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
