package judge

import (
	"cmp"
	"iter"
	"math"
	"slices"
	"time"
)

// occupancy is how many calls were in flight and how many tasks waited, over time, as seen from outside. Its first step
// is before all time.
type occupancy []occupancyStep

// occupancyStep holds from At to the next step. As a change, it is +1 or -1 at a time.
type occupancyStep struct {
	At       time.Duration
	InFlight int
	Waiting  int
}

// gateOccupancy follows the gate's own calls. A call counts from when the gate made it until the gate was done with it.
func (e *Evaluation) gateOccupancy() occupancy { return e.gateOccupancyOf(e.waits) }

func (e *Evaluation) gateOccupancyOf(waits []queueWait) occupancy {
	var changes []occupancyStep
	for _, c := range e.Evidence.Calls {
		changes = append(changes, occupancyStep{At: c.Started, InFlight: 1})
		if !c.Open {
			changes = append(changes, occupancyStep{At: c.Ended, InFlight: -1})
		}
	}
	for _, w := range waits {
		changes = append(changes, occupancyStep{At: w.from, Waiting: 1}, occupancyStep{At: w.to, Waiting: -1})
	}
	return accumulate(changes)
}

// endpointOccupancy follows what the endpoint saw.
func (e *Evaluation) endpointOccupancy() occupancy {
	var changes []occupancyStep
	for _, c := range e.Evidence.Calls {
		if !c.Reached {
			continue
		}
		changes = append(changes, occupancyStep{At: c.Arrived, InFlight: 1})
		// The gate has the last byte before the endpoint's handler has returned.
		switch {
		case !c.Open && (c.Working || c.Ended < c.Finished):
			changes = append(changes, occupancyStep{At: max(c.Arrived, c.Ended), InFlight: -1})
		case !c.Working:
			changes = append(changes, occupancyStep{At: c.Finished, InFlight: -1})
		}
	}
	return accumulate(changes)
}

// accumulate sums up changes. What ends at a moment makes room for what begins then.
func accumulate(changes []occupancyStep) occupancy {
	slices.SortStableFunc(changes, func(a, b occupancyStep) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.InFlight+a.Waiting, b.InFlight+b.Waiting))
	})
	now := occupancyStep{At: math.MinInt64}
	b := occupancy{now}
	for _, c := range changes {
		if c.At != now.At {
			b = append(b, now)
		}
		now = occupancyStep{c.At, now.InFlight + c.InFlight, now.Waiting + c.Waiting}
		b[len(b)-1] = now
	}
	return b
}

// peak is the most in flight at once.
func (b occupancy) peak() int {
	return slices.MaxFunc(b, func(a, b occupancyStep) int { return cmp.Compare(a.InFlight, b.InFlight) }).InFlight
}

// spans yields the steps, each with the time at which it ends; the last ends at end.
func (b occupancy) spans(end time.Duration) iter.Seq2[occupancyStep, time.Duration] {
	return func(yield func(occupancyStep, time.Duration) bool) {
		for i, s := range b {
			next := end
			if i+1 < len(b) {
				next = b[i+1].At
			}
			if !yield(s, next) {
				return
			}
		}
	}
}

// longest returns the longest stretch up to end over which a condition holds: when it began, and its length.
func (b occupancy) longest(end time.Duration, holds func(occupancyStep) bool) (from, length time.Duration) {
	began, holding := time.Duration(0), false
	for s, next := range b.spans(end) {
		if !holds(s) {
			holding = false
			continue
		}
		if !holding {
			began, holding = s.At, true
		}
		if next-began > length {
			from, length = began, next-began
		}
	}
	return from, length
}

// meanWhileWaiting returns for how long any task waited, and how many calls were in flight then, on average.
func (b occupancy) meanWhileWaiting(end time.Duration) (waited time.Duration, used float64) {
	for s, next := range b.spans(end) {
		if s.Waiting > 0 && next > s.At {
			waited += next - s.At
			used += float64(s.InFlight) * (next - s.At).Seconds()
		}
	}
	return waited, used / max(waited.Seconds(), 1e-9)
}

// throughout says whether a condition holds at every moment of a span.
func (b occupancy) throughout(from, to time.Duration, holds func(occupancyStep) bool) bool {
	for _, s := range b[b.index(from):] {
		if s.At > to {
			break
		}
		if !holds(s) {
			return false
		}
	}
	return true
}

// at returns the step that holds at a time.
func (b occupancy) at(t time.Duration) occupancyStep { return b[b.index(t)] }

func (b occupancy) index(t time.Duration) int {
	i, exact := slices.BinarySearchFunc(b, t, func(s occupancyStep, t time.Duration) int { return cmp.Compare(s.At, t) })
	if exact {
		return i
	}
	return i - 1
}
