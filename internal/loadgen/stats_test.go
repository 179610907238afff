package loadgen

import (
	"math"
	"slices"
	"time"
)

// peakWindow is the width of the windows in which the peak rate is counted.
const peakWindow = 10 * time.Second

// sequenceStats describes a sequence of arrivals.
type sequenceStats struct {
	Count        int
	Span         time.Duration // from the first arrival to the last
	MeanRate     float64       // arrivals per second of the span; 0 without a span
	PeakRate     float64       // arrivals per second in the fullest 10 s window
	GapVariation float64       // standard deviation of the gaps ÷ their mean; Poisson has 1
	LongestGap   time.Duration
	Prompt       sizes
	Output       sizes
}

// sizes are nearest-rank quantiles of token counts.
type sizes struct{ P50, P95, Max int }

// stats describes the sequence. The 10 s windows of the peak lie side by side
// from time 0.
func (s Arrivals) stats() sequenceStats {
	st := sequenceStats{Count: len(s)}
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

func sizesOf(s Arrivals, size func(Arrival) int) sizes {
	all := make([]int, len(s))
	for i, a := range s {
		all[i] = size(a)
	}
	slices.Sort(all)
	return sizes{P50: all[rank(len(all), 0.50)], P95: all[rank(len(all), 0.95)], Max: all[len(all)-1]}
}

// window returns the arrivals with from <= At < to, with times counted from
// from.
func (s Arrivals) window(from, to time.Duration) Arrivals {
	var out Arrivals
	for _, a := range s {
		if a.At >= from && a.At < to {
			a.At -= from
			out = append(out, a)
		}
	}
	return out
}
