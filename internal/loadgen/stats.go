package loadgen

import (
	"math"
	"slices"
	"time"
)

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
