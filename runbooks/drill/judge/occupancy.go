package judge

import (
	"cmp"
	"slices"
	"time"
)

// occupancy is how many calls were in flight and how many tasks waited, over time, as
// seen from outside.
type occupancy struct{ steps []occupancyStep }

// occupancyStep holds from At on, until the next one.
type occupancyStep struct {
	At       time.Duration
	InFlight int
	Waiting  int
}

// occupancyDelta is +1 or -1 at a time.
type occupancyDelta struct {
	at                time.Duration
	inFlight, waiting int
}

// gateOccupancy follows the gate's own calls. A call counts from when the gate made it
// until it was done with it.
func (l *Evaluation) gateOccupancy() occupancy { return l.gateOccupancyOf(l.waits) }

func (l *Evaluation) gateOccupancyOf(waits []queueWait) occupancy {
	var all []occupancyDelta
	for _, c := range l.Evidence.Calls {
		all = append(all, occupancyDelta{at: c.Started, inFlight: 1})
		if !c.Open {
			all = append(all, occupancyDelta{at: c.Ended, inFlight: -1})
		}
	}
	for _, w := range waits {
		all = append(all, occupancyDelta{at: w.from, waiting: 1}, occupancyDelta{at: w.to, waiting: -1})
	}
	return accumulate(all)
}

// endpointOccupancy follows what the endpoint saw.
func (l *Evaluation) endpointOccupancy() occupancy {
	var all []occupancyDelta
	for _, c := range l.Evidence.Calls {
		if !c.Reached {
			continue
		}
		all = append(all, occupancyDelta{at: c.Arrived, inFlight: 1})
		// The gate has the last byte before the endpoint's handler has returned.
		switch {
		case !c.Open && (c.Working || c.Ended < c.Finished):
			all = append(all, occupancyDelta{at: max(c.Arrived, c.Ended), inFlight: -1})
		case !c.Working:
			all = append(all, occupancyDelta{at: c.Finished, inFlight: -1})
		}
	}
	return accumulate(all)
}

// accumulate sums up. What ends at the moment that something else begins makes room
// for it.
func accumulate(all []occupancyDelta) occupancy {
	slices.SortStableFunc(all, func(a, b occupancyDelta) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.inFlight+a.waiting, b.inFlight+b.waiting))
	})
	var b occupancy
	var now occupancyStep
	for _, c := range all {
		now.At = c.at
		now.InFlight += c.inFlight
		now.Waiting += c.waiting
		if n := len(b.steps); n > 0 && b.steps[n-1].At == c.at {
			b.steps[n-1] = now
			continue
		}
		b.steps = append(b.steps, now)
	}
	return b
}

// peak is the most in flight at once, ever.
func (b occupancy) peak() int {
	most := 0
	for _, s := range b.steps {
		most = max(most, s.InFlight)
	}
	return most
}

// longest is the longest stretch over which what holds holds, up to end, and when
// it began.
func (b occupancy) longest(end time.Duration, what func(occupancyStep) bool) (from, length time.Duration) {
	began := time.Duration(-1)
	for i, s := range b.steps {
		next := end
		if i+1 < len(b.steps) {
			next = b.steps[i+1].At
		}
		switch {
		case !what(s):
			began = -1
			continue
		case began < 0:
			began = s.At
		}
		if next-began > length {
			from, length = began, next-began
		}
	}
	return from, length
}

// throughout says whether something held at every moment of a span.
func (b occupancy) throughout(from, to time.Duration, what func(occupancyStep) bool) bool {
	if !what(b.at(from)) {
		return false
	}
	for i, _ := b.search(from); i < len(b.steps) && b.steps[i].At <= to; i++ {
		if !what(b.steps[i]) {
			return false
		}
	}
	return true
}

// at returns how it stood at a time.
func (b occupancy) at(t time.Duration) occupancyStep {
	i, exact := b.search(t)
	switch {
	case exact:
		return b.steps[i]
	case i == 0:
		return occupancyStep{At: t}
	}
	return b.steps[i-1]
}

// search returns the index of the first step from a time on, and whether it is at that time.
func (b occupancy) search(t time.Duration) (int, bool) {
	return slices.BinarySearchFunc(b.steps, t, func(s occupancyStep, t time.Duration) int { return cmp.Compare(s.At, t) })
}
