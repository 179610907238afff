package judge

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"headgate/internal/format"
	"headgate/internal/strictyaml"
	"headgate/proxy/fault"
	"headgate/runbooks/drill"
)

// Sources of readings.
const (
	sourceGenerator = "load generator"
	sourceEndpoint  = "endpoint"
	sourceSlack     = "receiver of the messages"
	sourceBoth      = "load generator and endpoint"
	sourceIngress   = "production's ingress" // instead of the generator, of a live drill
)

// minSamples is the number of tasks from which a share or a quantile means something.
const minSamples = 20

// measures are the functions that read each measure; the units are in the table of package drill.
var measures = map[drill.Measure]func(*Evaluation) drill.Reading{
	drill.LateShare:         (*Evaluation).lateShare,
	drill.P95:               (*Evaluation).p95,
	drill.RefusedShare:      shareOf(drill.Refused),
	drill.ErrorShare:        shareOf(drill.Broken, drill.Errored, drill.TimedOut),
	drill.ServedShare:       shareOf(drill.Served),
	drill.BadRetryAfter:     (*Evaluation).badRetryAfter,
	drill.RefusedInBaseline: (*Evaluation).refusedInBaseline,
	drill.OverLimit:         (*Evaluation).overLimit,
	drill.TimeToWarn:        (*Evaluation).timeToWarn,
	drill.TimeToPage:        (*Evaluation).timeToPage,
	drill.TimeToResolve:     (*Evaluation).timeToResolve,
	drill.Pages:             (*Evaluation).pages,
	drill.MessageFaults:     (*Evaluation).messageFaults,
	drill.MessagesLost:      (*Evaluation).unnotifiedIncidents,
	drill.DrainedWithin:     (*Evaluation).drainTime,
	drill.RollbackTime:      (*Evaluation).rollbackTime,
	drill.RestoreTime:       (*Evaluation).restoreTime,
	drill.TasksLost:         (*Evaluation).lostTasks,
	drill.FalseCompletions:  (*Evaluation).falseCompletions,
	drill.ProductionDrift:   func(e *Evaluation) drill.Reading { return e.Drift },
}

// Measure reads a measure, once.
func (e *Evaluation) Measure(m drill.Measure) drill.Reading {
	if r, ok := e.readings[m]; ok {
		return r
	}
	r := drill.Reading{Reason: "there is no such measure"}
	if read := measures[m]; read != nil {
		r = read(e)
	}
	if e.live() {
		r.Source = strings.Replace(r.Source, sourceGenerator, sourceIngress, 1)
	}
	e.readings[m] = r
	return r
}

// countReading is the reading of a count.
func countReading(n, samples int, seen, why string, args ...any) drill.Reading {
	r := unknown(seen, why, args...)
	r.Measured, r.Value, r.Samples = true, float64(n), samples
	return r
}

// unknown is the reading of a measure that cannot be read.
func unknown(source, why string, args ...any) drill.Reading {
	return drill.Reading{Source: source, Reason: fmt.Sprintf(why, args...)}
}

// shareOf measures the share of outcomes among the tasks that have ended.
func shareOf(outcomes ...drill.TaskOutcome) func(*Evaluation) drill.Reading {
	return func(e *Evaluation) drill.Reading {
		tasks := e.scenarioTasks()
		ended := len(tasks) - e.countPending(tasks)
		part := count(tasks, func(t drill.Task) bool { return slices.Contains(outcomes, t.Outcome) })
		if ended < minSamples {
			r := unknown(sourceGenerator, "%d tasks have ended, and a share means something from %d on", ended, minSamples)
			r.Samples = ended
			return r
		}
		r := countReading(part, ended, sourceGenerator, "%d of %d", part, ended)
		r.Value /= float64(ended)
		return r
	}
}

// count is how many elements a condition holds for.
func count[T any](all []T, what func(T) bool) int {
	n := 0
	for _, v := range all {
		n += btoi(what(v))
	}
	return n
}

func btoi(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// turnarounds returns the seconds that tasks took from their intended arrival, in ascending order, of those that were
// served and those that are late already, whatever happens to them. The reading says why they are too few.
func (e *Evaluation) turnarounds() ([]float64, drill.Reading) {
	var took []float64
	for _, t := range e.scenarioTasks() {
		waited := e.Evidence.At - t.Due
		switch {
		case t.Outcome == drill.Served:
			took = append(took, (t.Ended - t.Due).Seconds())
		case t.Outcome == drill.Pending && waited > e.Evidence.SLO && len(e.callsByTask[t.ID]) > 0:
			took = append(took, waited.Seconds())
		}
	}
	slices.Sort(took)
	r := unknown(sourceGenerator, "%d tasks were served, and a quantile means something from %d on", len(took), minSamples)
	r.Samples, r.Measured = len(took), len(took) >= minSamples
	return took, r
}

func (e *Evaluation) p95() drill.Reading {
	took, r := e.turnarounds()
	if r.Measured {
		r.Value, r.Reason = quantile(took, 0.95), fmt.Sprintf("of %d served, 95 of 100 took no longer", len(took))
	}
	return r
}

func (e *Evaluation) lateShare() drill.Reading {
	took, r := e.turnarounds()
	if r.Measured {
		late := count(took, func(s float64) bool { return s > e.Evidence.SLO.Seconds() })
		r.Value = float64(late) / float64(len(took))
		r.Reason = fmt.Sprintf("%d of %d served later than %s", late, len(took), format.Duration(e.Evidence.SLO))
	}
	return r
}

// quantile is by nearest rank, of sorted values.
func quantile(sorted []float64, q float64) float64 {
	return sorted[max(0, int(math.Ceil(q*float64(len(sorted))))-1)]
}

// badRetryAfter counts refusals without a valid Retry-After, in all phases.
func (e *Evaluation) badRetryAfter() drill.Reading {
	bad, refused, example := 0, 0, ""
	for _, t := range e.Evidence.Tasks {
		if t.Outcome != drill.Refused {
			continue
		}
		refused++
		if !validRetryAfter(t.RetryAfter) {
			bad++
			example = t.RetryAfter
		}
	}
	switch {
	case refused == 0:
		return unknown(sourceGenerator, "nothing was refused")
	case bad > 0 && example == "":
		return countReading(bad, refused, sourceGenerator, "refusals without Retry-After")
	case bad > 0:
		return countReading(bad, refused, sourceGenerator,
			"refusals with Retry-After %s, which is not 1 to 59 whole seconds", strictyaml.Quote(example))
	}
	return countReading(0, refused, sourceGenerator, "every refusal said when to come back")
}

func validRetryAfter(text string) bool {
	n, err := strconv.Atoi(text)
	return err == nil && n >= 1 && n <= 60
}

func (e *Evaluation) refusedInBaseline() drill.Reading {
	tasks := e.tasksDue(-e.spec.Baseline, 0)
	if len(tasks) == 0 {
		return unknown(sourceGenerator, "no task was sent in the baseline")
	}
	n := count(tasks, func(t drill.Task) bool { return t.Outcome == drill.Refused })
	return countReading(n, len(tasks), sourceGenerator,
		"%d of %d tasks before the disturbance were refused", n, len(tasks))
}

func (e *Evaluation) overLimit() drill.Reading {
	if len(e.Evidence.Calls) == 0 || e.Evidence.Workers == 0 {
		return unknown(sourceEndpoint, "no call was made")
	}
	peak, most := max(e.gateOccupancy().peak(), e.endpointOccupancy().peak()), e.Evidence.Workers
	return countReading(max(0, peak-most), len(e.Evidence.Calls), sourceEndpoint, "in flight %d of %d", peak, most)
}

// drainTime is from the end of the scenario until the last of its tasks has ended.
func (e *Evaluation) drainTime() drill.Reading {
	tasks := e.scenarioTasks()
	if len(tasks) == 0 {
		return unknown(sourceGenerator, "no task was sent")
	}
	r := drill.Reading{Measured: true, Samples: len(tasks), Source: sourceGenerator, Reason: "when the last task ended"}
	last := e.spec.Duration
	for _, t := range tasks {
		if t.Outcome == drill.Pending {
			r.Measured, r.NotObserved, r.Reason = e.Complete, true, fmt.Sprintf("task %d has not ended", t.ID)
			last = max(e.spec.Duration, e.Evidence.At)
			break
		}
		last = max(last, t.Ended)
	}
	r.Value = (last - e.spec.Duration).Seconds()
	return r
}

// lostTasks counts tasks without a proper end.
func (e *Evaluation) lostTasks() drill.Reading {
	tasks := e.Evidence.Tasks
	if len(tasks) == 0 {
		return unknown(sourceGenerator, "no task was sent")
	}
	n, why := 0, "every task ended"
	for _, t := range tasks {
		if what := e.lossReason(t); what != "" {
			n++
			why = fmt.Sprintf("task %d %s", t.ID, what)
		}
	}
	return countReading(n, len(tasks), sourceBoth, "%s", why)
}

func (e *Evaluation) lossReason(t drill.Task) string {
	switch {
	case t.Outcome == drill.Pending:
		return reasonIf(t.Due < e.spec.Duration && e.Complete, "was never answered")
	case e.hitByFault(t):
		return ""
	case t.Outcome == drill.TimedOut:
		return "was abandoned by its client, and no fault had hit it"
	case t.Outcome == drill.Errored, t.Outcome == drill.Broken:
		cause := cmp.Or(t.ConnError, fmt.Sprintf("status %d", t.Status))
		return fmt.Sprintf("ended with an error (%s), and no fault had hit it", cause)
	}
	return ""
}

// falseCompletions counts incomplete answers that looked complete.
func (e *Evaluation) falseCompletions() drill.Reading {
	served, n, why := 0, 0, "every answer that looked whole was"
	for _, t := range e.Evidence.Tasks {
		if t.Outcome != drill.Served && !(t.Outcome == drill.Broken && t.CleanEOF) {
			continue
		}
		served++
		if what := e.falseCompletionReason(t); what != "" {
			n++
			why = fmt.Sprintf("task %d ended as if it were whole, and %s", t.ID, what)
		}
	}
	if served == 0 {
		return unknown(sourceBoth, "nothing was served")
	}
	return countReading(n, served, sourceBoth, "%s", why)
}

func (e *Evaluation) falseCompletionReason(t drill.Task) string {
	c, ok := e.lastCall(t)
	switch {
	case !ok:
		return "no call was made for it"
	case t.Outcome == drill.Broken && c.Fault != fault.Malformed:
		return "its answer was cut: it should have broken off"
	case t.Outcome == drill.Broken:
		return ""
	case brokenByFault(c):
		return fmt.Sprintf("fault %s had broken its answer", c.Fault)
	case !c.Reached && c.Fault == "":
		return "it never reached the endpoint"
	case c.Reached && !c.Working && !c.Complete:
		return "the endpoint did not answer to the end"
	case answerDiffers(t, c):
		return fmt.Sprintf("its answer is not the endpoint's: %d bytes of %d", t.Bytes, c.Bytes)
	}
	return ""
}
