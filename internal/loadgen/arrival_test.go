package loadgen

import (
	"cmp"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
)

func arrivalsAt(seconds ...float64) Arrivals {
	var out Arrivals
	for _, s := range seconds {
		out = append(out, Arrival{At: time.Duration(s * float64(time.Second)), PromptTokens: 10, OutputTokens: 5})
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
	if d := gocmp.Diff(want, got); d != "" {
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

func TestCodeTraceIsWhole(t *testing.T) {
	s, err := CodeTrace()
	if err != nil {
		t.Fatal(err)
	}
	st := s.stats()
	if st.Count != 8819 || st.Span != 3435_948*time.Millisecond || s[0].At != 0 {
		t.Errorf("%d rows over %v from %v, want 8819 over 3435.948 s from 0", st.Count, st.Span, s[0].At)
	}
	if !slices.IsSortedFunc(s, func(a, b Arrival) int { return cmp.Compare(a.At, b.At) }) {
		t.Error("the arrivals are not in order of time")
	}
	approxEqual(t, "mean rate", st.MeanRate, 2.57, 0.005)
	approxEqual(t, "peak ÷ mean", st.PeakRate/st.MeanRate, 12.7, 0.05)
	approxEqual(t, "gap variation", st.GapVariation, 13.15, 0.005)
	approxEqual(t, "longest gap in seconds", st.LongestGap.Seconds(), 217, 0.5)
	if want := (sizes{1469, 7315, 7437}); st.Prompt != want {
		t.Errorf("prompts %v, want %v", st.Prompt, want)
	}
	if want := (sizes{13, 90, 1899}); st.Output != want {
		t.Errorf("outputs %v, want %v", st.Output, want)
	}
}

func approxEqual(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tolerance) {
		t.Errorf("%s: got %v, want %v ± %v", what, got, want, tolerance)
	}
}

func TestNoticeLiesBesideTheRecordedArrivals(t *testing.T) {
	var text string
	for _, name := range []string{"traces/README.md", "traces/LICENSE-Azure-CC-BY-4.0.txt"} {
		part, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		text += string(part)
	}
	for _, want := range []string{
		"Azure LLM inference trace 2023", "CC BY 4.0", "Patel et al.", "Changes:", "Creative Commons Attribution 4.0 International",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the notice does not say %q", want)
		}
	}
}
