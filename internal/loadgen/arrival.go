package loadgen

import (
	"fmt"
	"time"
)

// Bounds on a source. They keep a mistyped rate or a hostile trace from using all
// memory.
const (
	// MaxArrivals is the largest number of arrivals in one run or trace.
	MaxArrivals = 2_000_000
	// MaxTokens is the largest prompt or output of one arrival, in tokens.
	MaxTokens = 1 << 20
	// MaxSpan is the latest time of an arrival.
	MaxSpan = 366 * 24 * time.Hour
)

// Arrival is one request of a source.
type Arrival struct {
	At           time.Duration // intended time, scenario time from the start
	PromptTokens int           // size of the prompt
	OutputTokens int           // sent as max_tokens; 0 leaves it to the endpoint
	Large        bool          // the large prompt of a profile; false for traces
}

// check validates an arrival that follows one at time last.
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
