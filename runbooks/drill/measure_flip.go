package drill

import (
	"fmt"
	"time"
)

// flip is from the order to roll back until nothing is refused any more, in real
// seconds. It rests on tasks that would have been refused: before the order some
// were.
func (l *look) flip() Reading {
	t, ok := l.took(StepRollback)
	if !ok {
		return Reading{Seen: seenGenerator, Why: "no rollback was ordered"}
	}
	if t.Err != "" {
		return Reading{Known: true, Never: true, Seen: seenGenerator, Why: "the rollback failed: " + t.Err}
	}
	until := l.restored(t)
	if l.refusedBetween(t.Ordered-l.spec.Duration, t.Ordered) == 0 {
		return Reading{Seen: seenGenerator, Why: "nothing was refused before the rollback, so it can change nothing"}
	}
	if n := l.dropped(t.Ordered, until); n > 0 {
		return Reading{Known: true, Never: true, Samples: n, Seen: seenGenerator, Why: fmt.Sprintf("%d tasks that waited were turned away by the rollback", n)}
	}
	let, last := 0, t.Answered
	for _, task := range l.sent(t.Ordered, until) {
		switch {
		case task.End != Refused:
			let++
		case task.Ended >= until: // it may have reached the gate when that was back
		case task.Sent > last:
			last = task.Sent
		}
	}
	r := Reading{Known: true, Value: l.real(last - t.Ordered), Samples: let, Seen: seenGenerator}
	tail := l.sent(last+1, until) // after the last refusal
	switch {
	case let == 0 || len(tail) == 0:
		r.Never, r.Why = true, "pass-through did not stop refusals"
	case len(tail) < 3:
		r.Known, r.Why = false, "too few tasks came after the rollback"
	default:
		r.Why = fmt.Sprintf("%d tasks were let in after it, and none refused", len(tail))
	}
	return r
}

// dropped counts tasks that waited when the order came, and were turned away for it.
func (l *look) dropped(ordered, until time.Duration) int {
	n := 0
	for _, t := range l.Evidence.Tasks {
		n += one(t.Sent < ordered-l.slack && t.Ended > ordered && t.Ended < until && t.End == Refused)
	}
	return n
}

// restore is from the order to restore until tasks are refused again, in real
// seconds.
func (l *look) restore() Reading {
	from, to, err, ok := l.restoring()
	if !ok {
		return Reading{Seen: seenGenerator, Why: "no restore was ordered"}
	}
	if err != "" {
		return Reading{Known: true, Never: true, Seen: seenGenerator, Why: "the restore failed: " + err}
	}
	after := l.sent(from, max(l.spec.Duration, to+l.slack))
	last, refused := to, false
	for _, task := range after {
		if task.End == Refused {
			refused = true
			break
		}
		last = max(last, task.Sent)
	}
	r := Reading{Known: true, Value: l.real(last - from), Samples: len(after), Seen: seenGenerator}
	switch {
	case refused:
		r.Why = "until the first task was refused again"
	case len(after) == 0:
		r.Known, r.Why = false, "no task came after the restore"
	default:
		r.Never, r.Why = true, fmt.Sprintf("nothing was refused after the restore, of %d tasks", len(after))
	}
	return r
}

// restoring is when the gate was put back, by a step or by taking the rollback back
// within the scenario.
func (l *look) restoring() (ordered, answered time.Duration, err string, ok bool) {
	if t, ok := l.took(StepRestore); ok {
		return t.Ordered, t.Answered, t.Err, true
	}
	t, ok := l.took(StepRollback)
	if !ok || !t.Back {
		return 0, 0, "", false
	}
	return t.Step.At + t.Step.For, t.Undone, "", true
}

func (l *look) took(k StepKind) (Taken, bool) {
	for _, t := range l.Taken {
		if t.Step.Kind == k {
			return t, true
		}
	}
	return Taken{}, false
}

// sent are the tasks that were sent within a span.
func (l *look) sent(from, to time.Duration) []Task {
	var some []Task
	for _, t := range l.Evidence.Tasks {
		if t.Sent >= from && t.Sent < to && t.End != Unsent {
			some = append(some, t)
		}
	}
	return some
}

func (l *look) refusedBetween(from, to time.Duration) int {
	n := 0
	for _, t := range l.sent(from, to) {
		n += one(t.End == Refused)
	}
	return n
}

// real turns a span of scenario time into real seconds.
func (l *look) real(d time.Duration) float64 { return d.Seconds() / l.speed }
