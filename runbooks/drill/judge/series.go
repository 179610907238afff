package judge

import (
	"slices"
	"time"

	"headgate/runbooks/drill"
)

// turnaroundWindow is the window of Point.Turnaround.
const turnaroundWindow = 10 * time.Second

// Series returns one point for each scenario second that has been seen, at most drill.MaxPoints.
func (e *Evaluation) Series() []drill.Point {
	first := -e.spec.Baseline
	n := min(drill.MaxPoints, int((e.Evidence.At-first)/time.Second))
	if n <= 0 {
		return nil
	}
	points := make([]drill.Point, n)
	b := e.gateOccupancy()
	for i := range points {
		at := first + time.Duration(i+1)*time.Second
		now := b.at(at)
		points[i] = drill.Point{At: at.Seconds(), Turnaround: -1, Depth: now.Waiting, InFlight: now.InFlight}
	}
	e.fillCounts(points, first)
	e.fillQueueAges(points, first)
	e.fillTurnarounds(points, first)
	return points
}

// pointIndex is the index of the point that a time belongs to; false: none.
func pointIndex(at, first time.Duration, n int) (int, bool) {
	i := int((at - first) / time.Second)
	return i, at >= first && i < n
}

func (e *Evaluation) fillCounts(points []drill.Point, first time.Duration) {
	for _, t := range e.Evidence.Tasks {
		if t.Outcome == drill.Unsent {
			continue
		}
		if i, ok := pointIndex(t.Sent, first, len(points)); ok {
			points[i].Arrived++
		}
		i, ok := pointIndex(t.Ended, first, len(points))
		switch {
		case !ok || t.Outcome == drill.Pending:
		case t.Outcome == drill.Served:
			points[i].Served++
		case t.Outcome == drill.Refused:
			points[i].Refused++
		default:
			points[i].Errors++
		}
	}
}

// fillQueueAges sets how long the oldest task has waited. Waits are sorted by their beginning.
func (e *Evaluation) fillQueueAges(points []drill.Point, first time.Duration) {
	oldest := 0
	for i := range points {
		at := first + time.Duration(i+1)*time.Second
		for oldest < len(e.waits) && e.waits[oldest].to <= at {
			oldest++
		}
		for _, w := range e.waits[oldest:] {
			if w.from >= at {
				break
			}
			if w.to > at {
				points[i].QueueAge = (at - w.from).Seconds()
				break
			}
		}
	}
}

func (e *Evaluation) fillTurnarounds(points []drill.Point, first time.Duration) {
	served := filter(e.Evidence.Tasks, func(t drill.Task) bool { return t.Outcome == drill.Served })
	slices.SortFunc(served, func(a, b drill.Task) int { return int(a.Ended - b.Ended) })
	from, to := 0, 0
	for i := range points {
		at := first + time.Duration(i+1)*time.Second
		for to < len(served) && served[to].Ended <= at {
			to++
		}
		for from < to && served[from].Ended <= at-turnaroundWindow {
			from++
		}
		if from == to {
			continue
		}
		took := make([]float64, 0, to-from)
		for _, t := range served[from:to] {
			took = append(took, (t.Ended - t.Due).Seconds())
		}
		slices.Sort(took)
		points[i].Turnaround = quantile(took, 0.95)
	}
}
