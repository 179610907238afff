package judge

import (
	"fmt"
	"math"
	"slices"
	"time"

	"headgate/runbooks/drill"
)

// rollbackTime is from the request to roll back until refusals stop, in real seconds. It can be measured only if tasks
// were refused before the request.
func (e *Evaluation) rollbackTime() drill.Reading {
	t, ok := e.stepResult(drill.StepRollback)
	if !ok {
		return unknown(sourceGenerator, "no rollback was ordered")
	}
	if t.Err != "" {
		return drill.Reading{Measured: true, NotObserved: true, Source: sourceGenerator,
			Reason: "the rollback failed: " + t.Err}
	}
	until := e.rollbackEnd(t)
	if e.refusedBetween(t.Requested-e.spec.Duration, t.Requested) == 0 {
		return unknown(sourceGenerator, "nothing was refused before the rollback, so it can change nothing")
	}
	if n := e.droppedByRollback(t.Requested, until); n > 0 {
		return drill.Reading{Measured: true, NotObserved: true, Samples: n, Source: sourceGenerator,
			Reason: fmt.Sprintf("%d waiting tasks were rejected by the rollback", n)}
	}
	let, last, late := 0, t.Completed, false
	for _, task := range e.tasksSent(t.Requested, until) {
		switch {
		case task.Outcome != drill.Refused:
			let++
		case task.Ended >= until: // it may have reached the gate after the rollback
		case task.Sent > last:
			last, late = task.Sent, true
		}
	}
	r := drill.Reading{Measured: true, Value: e.wallSeconds(last - t.Requested), Samples: let, Source: sourceGenerator}
	tail := e.tasksSent(last+1, until) // after the last refusal
	switch {
	case let == 0 || len(tail) == 0 || late && len(tail) < e.admittedByChance(t.Requested, until):
		r.NotObserved, r.Reason = true, "pass-through did not stop refusals"
	case len(tail) < 3:
		r.Measured, r.Reason = false, "too few tasks came after the rollback"
	default:
		r.Reason = fmt.Sprintf("%d tasks were admitted after it, and none refused", len(tail))
	}
	return r
}

// admittedByChance is how many tasks in a row are admitted by chance in fewer than one of 1,000 cases while the gate
// still refuses, at the rate of an equally long time before the rollback.
func (e *Evaluation) admittedByChance(requested, until time.Duration) int {
	before := e.tasksSent(requested-(until-requested), requested)
	admitted := count(before, func(t drill.Task) bool { return t.Outcome != drill.Refused })
	if admitted == 0 || admitted == len(before) {
		return 0 // the other conditions decide
	}
	share := float64(admitted) / float64(len(before))
	return int(math.Ceil(math.Log(0.001) / math.Log(share)))
}

// droppedByRollback counts tasks that waited at the rollback and were rejected by it.
func (e *Evaluation) droppedByRollback(ordered, until time.Duration) int {
	return count(e.Evidence.Tasks, func(t drill.Task) bool {
		return t.Sent < ordered-e.tolerance && t.Ended > ordered && t.Ended < until && t.Outcome == drill.Refused
	})
}

// restoreTime is from the request to restore until tasks are refused again, in real seconds.
func (e *Evaluation) restoreTime() drill.Reading {
	from, to, err, ok := e.restoreRequest()
	if !ok {
		return unknown(sourceGenerator, "no restore was ordered")
	}
	if err != "" {
		return drill.Reading{Measured: true, NotObserved: true, Source: sourceGenerator,
			Reason: "the restore failed: " + err}
	}
	after := e.tasksSent(from, max(e.spec.Duration, to+e.tolerance))
	last, refused := to, false
	for _, task := range after {
		if task.Outcome == drill.Refused {
			refused = true
			break
		}
		last = max(last, task.Sent)
	}
	r := drill.Reading{Measured: true, Value: e.wallSeconds(last - from), Samples: len(after), Source: sourceGenerator}
	switch {
	case refused:
		r.Reason = "until the first task was refused again"
	case len(after) == 0:
		r.Measured, r.Reason = false, "no task came after the restore"
	default:
		r.NotObserved, r.Reason = true, fmt.Sprintf("nothing was refused after the restore, of %d tasks", len(after))
	}
	return r
}

// restoreRequest is when the gate was restored, by a step or by reverting the rollback within the scenario.
func (e *Evaluation) restoreRequest() (ordered, answered time.Duration, err string, ok bool) {
	if t, ok := e.stepResult(drill.StepRestore); ok {
		return t.Requested, t.Completed, t.Err, true
	}
	t, ok := e.stepResult(drill.StepRollback)
	if !ok || !t.Reverted {
		return 0, 0, "", false
	}
	return t.Step.At + t.Step.For, t.RevertedAt, "", true
}

func (e *Evaluation) stepResult(k drill.StepKind) (StepResult, bool) {
	i := slices.IndexFunc(e.Steps, func(t StepResult) bool { return t.Step.Kind == k })
	if i < 0 {
		return StepResult{}, false
	}
	return e.Steps[i], true
}

// tasksSent are the tasks that were sent within a span.
func (e *Evaluation) tasksSent(from, to time.Duration) []drill.Task {
	return filter(e.Evidence.Tasks, func(t drill.Task) bool {
		return t.Sent >= from && t.Sent < to && t.Outcome != drill.Unsent
	})
}

func (e *Evaluation) refusedBetween(from, to time.Duration) int {
	return count(e.tasksSent(from, to), func(t drill.Task) bool { return t.Outcome == drill.Refused })
}

// wallSeconds turns a span of scenario time into real seconds.
func (e *Evaluation) wallSeconds(d time.Duration) float64 { return d.Seconds() / e.speed }
