package loadgen

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
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
	Bursts     []Burst       // must not overlap; the part beyond Duration is cut off
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
func Constant(rate float64, d time.Duration) (Arrivals, error) {
	return Profile{Duration: d, BaseRate: rate}.Arrivals()
}

// Poisson returns small prompts with exponential gaps at a mean rate per second
// for d.
func Poisson(rate float64, d time.Duration, seed uint64) (Arrivals, error) {
	return Profile{Duration: d, BaseRate: rate, Poisson: true, Seed: seed}.Arrivals()
}

// Validate returns an error that names an invalid field and its valid values.
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
		if min(s.PromptTokens, s.OutputTokens) < 0 || max(s.PromptTokens, s.OutputTokens) > MaxTokens {
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

// Streams of the seeded generator: gaps and sizes are drawn apart, so that a
// change of the share does not move the arrivals.
const (
	gapStream  = 0x67617073
	sizeStream = 0x73697a65
)

// segment is a stretch of constant rate.
type segment struct {
	from, to   time.Duration
	rate       float64
	cumulative float64 // expected number of arrivals up to from
}

// Arrivals returns the arrivals of the profile; equal profiles have equal ones. It
// maps a unit-rate process through the inverse of the expected number of arrivals:
// exact at the edges of a burst, where drawing a gap with the rate of its beginning
// would carry the old rate into the burst.
func (p Profile) Arrivals() (Arrivals, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	gaps, sizes := rand.New(rand.NewPCG(p.Seed, gapStream)), rand.New(rand.NewPCG(p.Seed, sizeStream))
	var out Arrivals
	var due float64 // expected number of arrivals at which the next one comes
	advance := func() {
		if p.Poisson {
			due += gaps.ExpFloat64()
		} else { // counted, not added up, so that rounding does not gather
			due = float64(len(out))
		}
	}
	advance()
	for _, s := range p.segments() {
		for s.rate > 0 {
			at := s.from + seconds((due-s.cumulative)/s.rate)
			if at >= s.to {
				break
			}
			a := Arrival{At: max(at, s.from), Large: sizes.Float64() < p.LargeShare}
			shape := cmp.Or(p.Small, SmallShape())
			if a.Large {
				shape = cmp.Or(p.Large, LargeShape())
			}
			a.PromptTokens, a.OutputTokens = shape.PromptTokens, shape.OutputTokens
			out = append(out, a)
			advance()
		}
	}
	return out, nil
}

// segments cuts the duration at the edges of the bursts. It needs bursts that
// do not overlap.
func (p Profile) segments() []segment {
	var out []segment
	var before float64
	add := func(from, to time.Duration, rate float64) {
		to = min(to, p.Duration)
		if from >= to {
			return
		}
		out = append(out, segment{from: from, to: to, rate: rate, cumulative: before})
		before += rate * (to - from).Seconds()
	}
	var at time.Duration
	for _, b := range p.sortedBursts() {
		add(at, b.From, p.BaseRate)
		add(b.From, b.To, p.BaseRate*b.Multiple)
		at = b.To
	}
	add(at, p.Duration, p.BaseRate)
	return out
}

// seconds converts to a duration, to the nearest nanosecond and without
// overflow.
func seconds(s float64) time.Duration {
	if ns := math.Round(s * 1e9); ns < float64(MaxSpan)+1e9 {
		return time.Duration(ns)
	}
	return MaxSpan + time.Second
}
