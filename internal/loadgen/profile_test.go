package loadgen

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// must returns the arrivals and fails on an error.
func must(t *testing.T) func(Arrivals, error) Arrivals {
	return func(s Arrivals, err error) Arrivals {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
}

// wantBetween counts the arrivals in [from, to) seconds.
func wantBetween(s Arrivals, from, to time.Duration) int {
	return len(s.window(from*time.Second, to*time.Second))
}

func TestConstantIsEven(t *testing.T) {
	for _, c := range []struct {
		rate float64
		d    time.Duration
		want int
	}{
		{0.8, 300 * time.Second, 240}, {10, time.Second, 10}, {3, time.Second, 3}, {0.001, time.Second, 1}, {7, 1000 * time.Second, 7000},
	} {
		got := must(t)(Constant(c.rate, c.d))
		if len(got) != c.want {
			t.Errorf("%v per second for %v: %d arrivals, want %d", c.rate, c.d, len(got), c.want)
		}
		for i, a := range got {
			if want := seconds(float64(i) / c.rate); a.At != want {
				t.Fatalf("%v per second: arrival %d at %v, want %v", c.rate, i, a.At, want)
			}
			if a.Large {
				t.Fatalf("arrival %d is large: a constant load has small prompts only", i)
			}
		}
	}
}

func TestPoissonHasItsRateAndExponentialGaps(t *testing.T) {
	st := must(t)(Poisson(2, 10_000*time.Second, 7)).stats()
	// 20,000 expected with a deviation of 141: four of them are allowed.
	if math.Abs(float64(st.Count)-20_000) > 570 {
		t.Errorf("%d arrivals, want 20,000 within four deviations", st.Count)
	}
	if math.Abs(st.GapVariation-1) > 0.03 {
		t.Errorf("gap variation %v, want 1 for exponential gaps", st.GapVariation)
	}
}

func TestSourcesRepeatBySeed(t *testing.T) {
	read := func(seed uint64) Arrivals {
		p := Article()
		p.Seed = seed
		return must(t)(p.Arrivals())
	}
	if d := cmp.Diff(read(3), read(3)); d != "" {
		t.Errorf("equal seeds differ: %s", d)
	}
	if cmp.Equal(read(3), read(4)) {
		t.Error("different seeds give the same arrivals")
	}
}

func TestShareDoesNotMoveTheArrivals(t *testing.T) {
	read := func(share float64) Arrivals {
		p := Article()
		p.LargeShare = share
		return must(t)(p.Arrivals())
	}
	small, large := read(0), read(1)
	if len(small) != len(large) {
		t.Fatalf("%d and %d arrivals, want as many", len(small), len(large))
	}
	for i := range small {
		if small[i].At != large[i].At || small[i].Large || !large[i].Large {
			t.Fatalf("arrival %d: %+v and %+v, want the same time, small and large", i, small[i], large[i])
		}
	}
}

func TestArticleProfile(t *testing.T) {
	p := Article()
	if got := p.MeanRate(); math.Abs(got-1.12) > 1e-9 {
		t.Errorf("mean rate %v, want (180×0.8 + 120×1.6) ÷ 300", got)
	}
	const runs = 200
	var quiet, burst, large, all int
	for seed := range uint64(runs) {
		p.Seed = seed
		s := must(t)(p.Arrivals())
		quiet += wantBetween(s, 0, 120) + wantBetween(s, 240, 300)
		burst += wantBetween(s, 120, 240)
		all += len(s)
		for _, a := range s {
			if a.At >= p.Duration {
				t.Fatalf("arrival at %v, after the end", a.At)
			}
			want := SmallShape()
			if a.Large {
				large++
				want = LargeShape()
			}
			if (Shape{a.PromptTokens, a.OutputTokens}) != want {
				t.Fatalf("arrival %+v, want shape %+v", a, want)
			}
		}
	}
	for name, c := range map[string]struct{ got, want, tolerance float64 }{
		"rate outside the burst": {float64(quiet) / runs / 180, 0.8, 0.02},
		"rate in the burst":      {float64(burst) / runs / 120, 1.6, 0.04},
		"share of large prompts": {float64(large) / float64(all), 0.3, 0.01},
	} {
		if math.Abs(c.got-c.want) > c.tolerance {
			t.Errorf("%s: %v, want %v ± %v", name, c.got, c.want, c.tolerance)
		}
	}
}

func TestBurstEdgesAreExact(t *testing.T) {
	p := Profile{Duration: 40 * time.Second, BaseRate: 1, Bursts: []Burst{
		{From: 30 * time.Second, To: 90 * time.Second, Multiple: 0.5}, // beyond the end: cut
		{From: 10 * time.Second, To: 20 * time.Second, Multiple: 3},   // not in order: sorted
		{From: 20 * time.Second, To: 25 * time.Second, Multiple: 0},   // touches: allowed
	}}
	s := must(t)(p.Arrivals())
	got := []int{wantBetween(s, 0, 10), wantBetween(s, 10, 20), wantBetween(s, 20, 25), wantBetween(s, 25, 30), wantBetween(s, 30, 40), len(s)}
	if d := cmp.Diff([]int{10, 30, 0, 5, 5, 50}, got); d != "" {
		t.Errorf("arrivals by window: %s", d)
	}
	if mean := p.MeanRate(); math.Abs(mean-50.0/40) > 1e-9 {
		t.Errorf("mean rate %v, want 1.25", mean)
	}
}

func TestOwnShapes(t *testing.T) {
	p := Profile{Duration: 10 * time.Second, BaseRate: 1, LargeShare: 1, Large: Shape{PromptTokens: 7, OutputTokens: 9}}
	for _, a := range must(t)(p.Arrivals()) {
		if a.PromptTokens != 7 || a.OutputTokens != 9 {
			t.Fatalf("got %+v, want the shape given", a)
		}
	}
}

func TestProfileRefusesNonsense(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	burst := func(from, to time.Duration, m float64) func(*Profile) {
		return func(p *Profile) { p.Bursts = append(p.Bursts, Burst{from * time.Second, to * time.Second, m}) }
	}
	for name, c := range map[string]struct {
		change func(*Profile)
		says   string
	}{
		"no duration":       {func(p *Profile) { p.Duration = 0 }, "duration"},
		"negative duration": {func(p *Profile) { p.Duration = -1 }, "duration"},
		"endless":           {func(p *Profile) { p.Duration = MaxSpan + 1 }, "duration"},
		"negative rate":     {func(p *Profile) { p.BaseRate = -1 }, "base rate"},
		"NaN rate":          {func(p *Profile) { p.BaseRate = nan }, "base rate"},
		"infinite rate":     {func(p *Profile) { p.BaseRate = inf }, "base rate"},
		"share above 1":     {func(p *Profile) { p.LargeShare = 1.1 }, "share"},
		"NaN share":         {func(p *Profile) { p.LargeShare = nan }, "share"},
		"negative shape":    {func(p *Profile) { p.Small.PromptTokens = -1 }, "shape"},
		"empty burst":       {burst(5, 5, 2), "0 <= from < to"},
		"reversed burst":    {burst(6, 5, 2), "0 <= from < to"},
		"early burst":       {burst(-1, 5, 2), "0 <= from < to"},
		"NaN burst":         {burst(1, 5, nan), "burst of"},
		"infinite burst":    {burst(1, 5, inf), "burst of"},
		"overlap with 120":  {burst(100, 121, 2), "overlap"},
		"too many":          {func(p *Profile) { p.BaseRate = 1e6 / 2 }, "at most 2000000"},
		"no arrivals":       {func(p *Profile) { p.BaseRate = 0 }, "no arrivals"},
	} {
		t.Run(name, func(t *testing.T) {
			p := Article()
			c.change(&p)
			_, err := p.Arrivals()
			wantError(t, err, c.says)
		})
	}
	if got := (Profile{BaseRate: 1}).MeanRate(); got != 0 {
		t.Errorf("mean rate without a duration is %v, want 0", got)
	}
}

func FuzzProfile(f *testing.F) {
	f.Add(int64(300e9), 0.8, int64(120e9), int64(240e9), 2.0, 0.3, true, uint64(1))
	f.Add(int64(1), 1e6, int64(0), int64(1), 0.0, 1.0, false, uint64(0))
	f.Fuzz(func(t *testing.T, d int64, rate float64, from, to int64, multiple, share float64, poisson bool, seed uint64) {
		p := Profile{Duration: time.Duration(d), BaseRate: rate, LargeShare: share, Poisson: poisson, Seed: seed,
			Bursts: []Burst{{time.Duration(from), time.Duration(to), multiple}}}
		if p.MeanRate()*p.Duration.Seconds() > 10_000 {
			return
		}
		got, err := p.Arrivals()
		var last time.Duration
		for _, a := range got {
			if a.At < last || a.At >= p.Duration || err != nil {
				t.Fatalf("arrival at %v after one at %v of %v, with error %v", a.At, last, p.Duration, err)
			}
			last = a.At
		}
	})
}
