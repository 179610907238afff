package loadgen

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// maxRate bounds a rate, in arrivals per second of scenario time.
const maxRate = 1e6

// Profile is a load made by a formula: a base rate with bursts on top, and two
// sizes of prompt. The zero Small and Large mean the article's.
type Profile struct {
	Duration   time.Duration // how long arrivals come; scenario time
	BaseRate   float64       // arrivals per second outside the bursts
	Bursts     []Burst       // must not overlap; what lies beyond Duration is cut
	LargeShare float64       // share of large prompts, 0 to 1
	Small      Shape
	Large      Shape
	Poisson    bool   // gaps are exponential; otherwise even
	Seed       uint64 // of the gaps and of the choice of prompts
}

// Burst multiplies the base rate from From (included) to To (not included).
type Burst struct {
	From, To time.Duration // scenario time
	Multiple float64       // of the base rate; 0 is a silence
}

// Shape is the size of a request in tokens.
type Shape struct {
	PromptTokens int
	OutputTokens int
}

// SmallShape is the article's review of a small diff.
func SmallShape() Shape { return Shape{PromptTokens: 16, OutputTokens: 256} }

// LargeShape is the article's rewrite of a module.
func LargeShape() Shape { return Shape{PromptTokens: 720, OutputTokens: 256} }

// Article returns the profile of the article: 300 s at 0.8 tasks per second,
// twice that from 120 s to 240 s, 30 % large prompts, exponential gaps.
func Article() Profile {
	return Profile{
		Duration:   300 * time.Second,
		BaseRate:   0.8,
		Bursts:     []Burst{{From: 120 * time.Second, To: 240 * time.Second, Multiple: 2}},
		LargeShare: 0.3,
		Poisson:    true,
		Seed:       1,
	}
}

// Constant returns small prompts at an even rate per second for d, the first at
// time 0.
func Constant(rate float64, d time.Duration) (Source, error) {
	return Profile{Duration: d, BaseRate: rate}.Source()
}

// Poisson returns small prompts with exponential gaps at a mean rate per second
// for d.
func Poisson(rate float64, d time.Duration, seed uint64) (Source, error) {
	return Profile{Duration: d, BaseRate: rate, Poisson: true, Seed: seed}.Source()
}

// Validate says which field cannot be and what would be right.
func (p Profile) Validate() error {
	if p.Duration <= 0 || p.Duration > MaxSpan {
		return fmt.Errorf("duration %v: want above 0 and at most %v", p.Duration, MaxSpan)
	}
	if !(p.BaseRate >= 0 && p.BaseRate <= maxRate) {
		return fmt.Errorf("base rate %v per second: want 0 to %v", p.BaseRate, float64(maxRate))
	}
	if !(p.LargeShare >= 0 && p.LargeShare <= 1) {
		return fmt.Errorf("share of large prompts %v: want 0 to 1", p.LargeShare)
	}
	for _, s := range []Shape{p.Small, p.Large} {
		if err := (Arrival{PromptTokens: s.PromptTokens, OutputTokens: s.OutputTokens}).check(0); err != nil {
			return fmt.Errorf("shape %+v: want 0 to %d tokens", s, MaxTokens)
		}
	}
	if err := p.checkBursts(); err != nil {
		return err
	}
	return p.checkCount()
}

func (p Profile) checkBursts() error {
	sorted := p.sortedBursts()
	for i, b := range sorted {
		switch {
		case b.From < 0 || b.To <= b.From:
			return fmt.Errorf("burst from %v to %v: want 0 <= from < to", b.From, b.To)
		case !(b.Multiple >= 0 && b.Multiple*p.BaseRate <= maxRate):
			return fmt.Errorf("burst of %v × %v per second: want 0 to %v", b.Multiple, p.BaseRate, float64(maxRate))
		case i > 0 && b.From < sorted[i-1].To:
			return fmt.Errorf("burst from %v begins before the one from %v has ended: want no overlap", b.From, sorted[i-1].From)
		}
	}
	return nil
}

func (p Profile) checkCount() error {
	want := p.MeanRate() * p.Duration.Seconds()
	if want > MaxArrivals {
		return fmt.Errorf("profile makes about %.0f arrivals: want at most %d", want, MaxArrivals)
	}
	if want == 0 {
		return fmt.Errorf("profile makes no arrivals: want a rate above 0 somewhere before %v", p.Duration)
	}
	return nil
}

// MeanRate is the expected number of arrivals per second over the whole
// duration, bursts included.
func (p Profile) MeanRate() float64 {
	if p.Duration <= 0 {
		return 0
	}
	var work float64
	for _, s := range p.segments() {
		work += s.rate * (s.to - s.from).Seconds()
	}
	return work / p.Duration.Seconds()
}

func (p Profile) sortedBursts() []Burst {
	return slices.SortedFunc(slices.Values(p.Bursts), func(a, b Burst) int { return cmp.Compare(a.From, b.From) })
}
