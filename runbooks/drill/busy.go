package drill

import (
	"cmp"
	"slices"
	"time"
)

// busy is how many calls were in flight and how many tasks waited, over time, as
// seen from outside.
type busy struct{ steps []busyStep }

// busyStep holds from At on, until the next one.
type busyStep struct {
	At       time.Duration
	InFlight int
	Waiting  int
}

// change is +1 or -1 at a time.
type change struct {
	at              time.Duration
	inFlight, waits int
}

// busyness follows the gate's own calls. A call counts from when the gate made it
// until it was done with it.
func (l *look) busyness() busy { return l.busynessOf(l.waits) }

func (l *look) busynessOf(waits []wait) busy {
	var all []change
	for _, c := range l.Evidence.Calls {
		all = append(all, change{at: c.Began, inFlight: 1})
		if !c.Open {
			all = append(all, change{at: c.Ended, inFlight: -1})
		}
	}
	for _, w := range waits {
		all = append(all, change{at: w.from, waits: 1}, change{at: w.to, waits: -1})
	}
	return follow(all)
}

// atEndpoint follows what the endpoint saw.
func (l *look) atEndpoint() busy {
	var all []change
	for _, c := range l.Evidence.Calls {
		if !c.Reached {
			continue
		}
		all = append(all, change{at: c.Arrived, inFlight: 1})
		// The gate has the last byte before the endpoint's handler has returned.
		switch {
		case !c.Open && (c.Working || c.Ended < c.Left):
			all = append(all, change{at: max(c.Arrived, c.Ended), inFlight: -1})
		case !c.Working:
			all = append(all, change{at: c.Left, inFlight: -1})
		}
	}
	return follow(all)
}

// follow sums up. What ends at the moment that something else begins makes room
// for it.
func follow(all []change) busy {
	slices.SortStableFunc(all, func(a, b change) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.inFlight+a.waits, b.inFlight+b.waits))
	})
	var b busy
	var now busyStep
	for _, c := range all {
		now.At = c.at
		now.InFlight += c.inFlight
		now.Waiting += c.waits
		if n := len(b.steps); n > 0 && b.steps[n-1].At == c.at {
			b.steps[n-1] = now
			continue
		}
		b.steps = append(b.steps, now)
	}
	return b
}

// peak is the most in flight at once, ever.
func (b busy) peak() int {
	most := 0
	for _, s := range b.steps {
		most = max(most, s.InFlight)
	}
	return most
}

// longest is the longest stretch over which what holds holds, up to end, and when
// it began.
func (b busy) longest(end time.Duration, what func(busyStep) bool) (from, length time.Duration) {
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
func (b busy) throughout(from, to time.Duration, what func(busyStep) bool) bool {
	i, exact := slices.BinarySearchFunc(b.steps, from, func(s busyStep, at time.Duration) int { return cmp.Compare(s.At, at) })
	before := busyStep{At: from}
	if i > 0 {
		before = b.steps[i-1]
	}
	if !exact && !what(before) {
		return false
	}
	for ; i < len(b.steps) && b.steps[i].At <= to; i++ {
		if !what(b.steps[i]) {
			return false
		}
	}
	return true
}

// at returns how it stood at a time.
func (b busy) at(t time.Duration) busyStep {
	i, exact := slices.BinarySearchFunc(b.steps, t, func(s busyStep, at time.Duration) int { return cmp.Compare(s.At, at) })
	switch {
	case exact:
		return b.steps[i]
	case i == 0:
		return busyStep{At: t}
	}
	return b.steps[i-1]
}
