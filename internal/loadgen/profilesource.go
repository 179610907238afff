package loadgen

import (
	"math"
	"math/rand/v2"
	"time"
)

// Streams of the seeded generator: gaps and sizes are drawn apart, so that a
// change of the share does not move the arrivals.
const (
	gapStream  = 0x67617073
	sizeStream = 0x73697a65
)

// segment is a stretch of constant rate. before is the expected number of
// arrivals up to its beginning.
type segment struct {
	from, to   time.Duration
	rate       float64
	cumulative float64
}

// profileSource maps a unit-rate process through the inverse of the expected
// number of arrivals: exact at the edges of a burst, where drawing a gap with
// the rate of its beginning would carry the old rate into the burst.
type profileSource struct {
	profile   Profile
	segments  []segment
	gaps      *rand.Rand
	sizes     *rand.Rand
	count     int
	nextCount float64 // expected arrivals at which the next one comes
}

// Source returns the arrivals of the profile. Equal profiles give equal
// arrivals.
func (p Profile) Source() (Source, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	if p.Small == (Shape{}) {
		p.Small = SmallShape()
	}
	if p.Large == (Shape{}) {
		p.Large = LargeShape()
	}
	s := &profileSource{
		profile:  p,
		segments: p.segments(),
		gaps:     rand.New(rand.NewPCG(p.Seed, gapStream)),
		sizes:    rand.New(rand.NewPCG(p.Seed, sizeStream)),
	}
	s.advance()
	return s, nil
}

// Next returns the next arrival. Part of Source.
func (s *profileSource) Next() (Arrival, bool) {
	at, ok := s.timeOf(s.nextCount)
	if !ok {
		return Arrival{}, false
	}
	s.count++
	s.advance()
	large := s.sizes.Float64() < s.profile.LargeShare
	shape := s.profile.Small
	if large {
		shape = s.profile.Large
	}
	return Arrival{At: at, PromptTokens: shape.PromptTokens, OutputTokens: shape.OutputTokens, Large: large}, true
}

// advance sets when the next arrival is due. Even arrivals are counted, not
// added up, so that rounding does not gather.
func (s *profileSource) advance() {
	if s.profile.Poisson {
		s.nextCount += s.gaps.ExpFloat64()
		return
	}
	s.nextCount = float64(s.count)
}

// timeOf is when the expected number of arrivals reaches due.
func (s *profileSource) timeOf(due float64) (time.Duration, bool) {
	for len(s.segments) > 0 {
		seg := s.segments[0]
		at := seg.from + seconds((due-seg.cumulative)/seg.rate)
		if seg.rate > 0 && at < seg.to {
			return max(at, seg.from), true
		}
		s.segments = s.segments[1:]
	}
	return 0, false
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
