package loadgen

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// Bounds on what a source may ask for. They keep a mistyped rate or a hostile
// trace from taking all memory.
const (
	// MaxArrivals is the largest number of arrivals in one run or trace.
	MaxArrivals = 2_000_000
	// MaxTokens is the largest prompt or output of one arrival, in tokens.
	MaxTokens = 1 << 20
	// MaxSpan is the latest time of an arrival.
	MaxSpan = 366 * 24 * time.Hour
)

// Arrival is one request that a source asks for.
type Arrival struct {
	At           time.Duration // intended time, scenario time from the start
	PromptTokens int           // size of the prompt
	OutputTokens int           // sent as max_tokens; 0 leaves it to the endpoint
	Large        bool          // the large prompt of a profile; false for traces
}

// check says what is wrong with an arrival that follows one at time last.
func (a Arrival) check(last time.Duration) error {
	switch {
	case a.At < last:
		return fmt.Errorf("arrival at %v comes after one at %v: want times that never decrease", a.At, last)
	case a.At > MaxSpan:
		return fmt.Errorf("arrival at %v: want at most %v", a.At, MaxSpan)
	case a.PromptTokens < 0 || a.PromptTokens > MaxTokens:
		return fmt.Errorf("arrival at %v has %d prompt tokens: want 0 to %d", a.At, a.PromptTokens, MaxTokens)
	case a.OutputTokens < 0 || a.OutputTokens > MaxTokens:
		return fmt.Errorf("arrival at %v has %d output tokens: want 0 to %d", a.At, a.OutputTokens, MaxTokens)
	}
	return nil
}

// Source yields arrivals in order of time until it returns false. A source is
// read once, by one goroutine; equal parameters make equal sources.
type Source interface {
	Next() (Arrival, bool)
}

// Arrivals is a sequence held in memory, in order of time. Its methods return
// new sequences and never change the receiver.
type Arrivals []Arrival

// Collect reads a source to its end. It fails on an arrival out of order or out
// of bounds, and on more than MaxArrivals of them.
func Collect(src Source) (Arrivals, error) { return collectUpTo(src, MaxArrivals) }

func collectUpTo(src Source, limit int) (Arrivals, error) {
	var out Arrivals
	var last time.Duration
	for {
		a, ok := src.Next()
		if !ok {
			return out, nil
		}
		if err := a.check(last); err != nil {
			return nil, err
		}
		if len(out) == limit {
			return nil, fmt.Errorf("source has more than %d arrivals", limit)
		}
		last = a.At
		out = append(out, a)
	}
}

// Source returns a new source that yields the sequence from its beginning.
func (s Arrivals) Source() Source { return &cursor{rest: s} }

// Scale divides all times by load, so that the same arrivals come load times as
// fast. This raises the load unless service times are scaled too: see
// [Stats.Load].
func (s Arrivals) Scale(load float64) (Arrivals, error) {
	if !(load > 0) || math.IsInf(load, 0) {
		return nil, fmt.Errorf("scale by %v: want a finite number above 0", load)
	}
	out := make(Arrivals, len(s))
	for i, a := range s {
		at := float64(a.At) / load
		if at > float64(MaxSpan) {
			return nil, fmt.Errorf("scale by %v moves an arrival beyond %v: want a larger factor", load, MaxSpan)
		}
		a.At = time.Duration(at)
		out[i] = a
	}
	return out, nil
}

// Take returns the first n arrivals, or all when there are fewer.
func (s Arrivals) Take(n int) Arrivals {
	n = min(max(n, 0), len(s))
	return s[:n:n]
}

// Window returns the arrivals with from <= At < to, with times counted from
// from.
func (s Arrivals) Window(from, to time.Duration) Arrivals {
	var out Arrivals
	for _, a := range s {
		if a.At >= from && a.At < to {
			a.At -= from
			out = append(out, a)
		}
	}
	return out
}

// cursor reads Arrivals as a Source.
type cursor struct{ rest Arrivals }

func (c *cursor) Next() (Arrival, bool) {
	if len(c.rest) == 0 {
		return Arrival{}, false
	}
	a := c.rest[0]
	c.rest = c.rest[1:]
	return a, true
}

// peakWindow is the width of the windows in which the peak rate is counted.
const peakWindow = 10 * time.Second

// Stats describes a sequence of arrivals.
type Stats struct {
	Count        int
	Span         time.Duration // from the first arrival to the last
	MeanRate     float64       // arrivals per second of the span; 0 without a span
	PeakRate     float64       // arrivals per second in the fullest 10 s window
	GapVariation float64       // standard deviation of the gaps ÷ their mean; Poisson has 1
	LongestGap   time.Duration
	Prompt       Sizes
	Output       Sizes
}

// Sizes are nearest-rank quantiles of token counts.
type Sizes struct{ P50, P95, Max int }

// Stats describes the sequence. The 10 s windows of the peak lie side by side
// from time 0.
func (s Arrivals) Stats() Stats {
	st := Stats{Count: len(s)}
	if len(s) == 0 {
		return st
	}
	st.Span = s[len(s)-1].At - s[0].At
	st.PeakRate = float64(s.fullestWindow()) / peakWindow.Seconds()
	st.Prompt = sizesOf(s, func(a Arrival) int { return a.PromptTokens })
	st.Output = sizesOf(s, func(a Arrival) int { return a.OutputTokens })
	if st.Span > 0 {
		st.MeanRate = float64(st.Count) / st.Span.Seconds()
		st.GapVariation, st.LongestGap = s.gaps(st.Span)
	}
	return st
}

// Load is the offered load: mean arrival rate × mean service time ÷ workers.
// Above 1 the queue grows without end. Time compression multiplies it. It is 0
// when the arguments make no sense.
func (st Stats) Load(service time.Duration, workers int) float64 {
	if service <= 0 || workers <= 0 {
		return 0
	}
	return st.MeanRate * service.Seconds() / float64(workers)
}

// FactorFor is the factor for [Arrivals.Scale] that makes the offered load equal
// to load. It is 0 when no factor can.
func (st Stats) FactorFor(load float64, service time.Duration, workers int) float64 {
	now := st.Load(service, workers)
	if now == 0 || !(load > 0) || math.IsInf(load/now, 0) {
		return 0
	}
	return load / now
}

func (s Arrivals) fullestWindow() int {
	best, count, window := 0, 0, time.Duration(-1)
	for _, a := range s {
		if w := a.At / peakWindow; w != window {
			window, count = w, 0
		}
		count++
		best = max(best, count)
	}
	return best
}

// gaps needs a span above 0, and so at least two arrivals.
func (s Arrivals) gaps(span time.Duration) (variation float64, longest time.Duration) {
	n := float64(len(s) - 1)
	mean := span.Seconds() / n
	var squares float64
	for i := 1; i < len(s); i++ {
		gap := s[i].At - s[i-1].At
		longest = max(longest, gap)
		off := gap.Seconds() - mean
		squares += off * off
	}
	return math.Sqrt(squares/n) / mean, longest
}

func sizesOf(s Arrivals, size func(Arrival) int) Sizes {
	all := make([]int, len(s))
	for i, a := range s {
		all[i] = size(a)
	}
	slices.Sort(all)
	return Sizes{P50: all[rank(len(all), 0.50)], P95: all[rank(len(all), 0.95)], Max: all[len(all)-1]}
}

// rank is the index of the nearest-rank quantile q among n > 0 sorted values:
// the smallest value that at least the share q of them does not exceed.
func rank(n int, q float64) int {
	// q·n in floating point can land just above a whole number (0.95·20).
	return min(max(int(math.Ceil(q*float64(n)-1e-9))-1, 0), n-1)
}
