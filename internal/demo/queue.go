package demo

import (
	"cmp"
	"slices"
	"time"
)

// Step is one change of the number of tasks that wait.
type Step struct {
	At    time.Duration // scenario time
	Depth int           // from At on
}

// waitInterval returns when a task began and ceased to wait for the endpoint; false
// for one that never did. Those that were refused at once are no part of any
// queue.
func (t task) waitInterval(slo, now time.Duration) (from, to time.Duration, ok bool) {
	switch f := t.status(slo); {
	case f == notSent || f == refused:
		return 0, 0, false
	case t.started != unset:
		to = t.started
	case t.ended != unset:
		to = t.ended
	default:
		to = now
	}
	return t.sent, to, to > t.sent
}

// queueDepth returns the number of waiting tasks over time, up to now.
func queueDepth(tasks []task, slo, now time.Duration) []Step {
	var changes []Step
	for _, t := range tasks {
		if from, to, ok := t.waitInterval(slo, now); ok {
			changes = append(changes, Step{from, 1}, Step{to, -1})
		}
	}
	// Of changes at the same time those who leave come first, so that a place
	// which changes hands does not count twice.
	slices.SortFunc(changes, func(a, b Step) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Depth, b.Depth))
	})
	steps := []Step{{}}
	n := 0
	for _, c := range changes {
		if c.At >= now { // who still waits has not left
			break
		}
		n += c.Depth
		if last := &steps[len(steps)-1]; last.At == c.At {
			last.Depth = n
			continue
		}
		steps = append(steps, Step{c.At, n})
	}
	return steps
}

// maxDepth returns the highest depth.
func maxDepth(steps []Step) int {
	most := 0
	for _, s := range steps {
		most = max(most, s.Depth)
	}
	return most
}

// firstEmpty returns the first time at or after from at which nobody waits; false
// when there is none before end.
func firstEmpty(steps []Step, from, end time.Duration) (time.Duration, bool) {
	if from > end {
		return 0, false
	}
	for i, s := range steps {
		last := i == len(steps)-1
		if s.Depth == 0 && (last || steps[i+1].At > from) {
			return max(s.At, from), true
		}
	}
	return 0, false
}

// bucketMax returns the highest depth in each of n equal parts of the time from 0
// to span.
func bucketMax(steps []Step, n int, span time.Duration) []int {
	out := make([]int, n)
	if n == 0 || span <= 0 {
		return out
	}
	column := func(at time.Duration) int {
		return min(int(float64(at)/float64(span)*float64(n)), n-1)
	}
	for i, s := range steps {
		if s.At > span {
			break
		}
		end := column(s.At)
		if i+1 < len(steps) {
			end = column(min(steps[i+1].At, span))
		}
		for c := column(s.At); c <= end; c++ {
			out[c] = max(out[c], s.Depth)
		}
	}
	return out
}
