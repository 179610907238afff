package drill

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"headgate/internal/strictyaml"
	"headgate/proxy/fault"
)

// Who sees things.
const (
	sourceGenerator = "load generator"
	sourceEndpoint  = "endpoint"
	sourceSlack     = "receiver of the messages"
	sourceBoth      = "load generator and endpoint"
	sourceIngress   = "production's door" // in the place of the generator, when a drill is live
)

// minSamples is the number of tasks from which a share or a quantile means something.
const minSamples = 20

// ReadMeasure works out a measure from the facts. It is pure.
func ReadMeasure(f Facts, m Measure) Reading { return newEvaluation(f).measure(m) }

func (l *evaluation) measure(m Measure) Reading {
	r := l.compute(m)
	if l.live() {
		r.Source = strings.Replace(r.Source, sourceGenerator, sourceIngress, 1)
	}
	return r
}

func (l *evaluation) compute(m Measure) Reading {
	switch m {
	case LateShare, P95, RefusedShare, ErrorShare, ServedShare:
		return l.shareReading(m)
	case MissingRetryAfter:
		return l.badRetryAfter()
	case RefusedInBaseline:
		return l.refusedInBaseline()
	case OverLimit:
		return l.overLimit()
	case TimeToWarn, TimeToPage, TimeToResolve:
		return l.notificationDelay(m)
	case Pages, MessageFaults, MessagesLost:
		return l.messageReading(m)
	case DrainedWithin:
		return l.drainTime()
	case RollbackTime:
		return l.rollbackTime()
	case RestoreTime:
		return l.restoreTime()
	case TasksLost:
		return l.lostTasks()
	case FalseCompletions:
		return l.falseCompletions()
	case ProductionDrift:
		return l.Drift
	}
	return Reading{Reason: "there is no such measure"}
}

// countReading makes a reading of a count.
func countReading(n, samples int, seen, why string, args ...any) Reading {
	return Reading{Measured: true, Value: float64(n), Samples: samples, Source: seen, Reason: fmt.Sprintf(why, args...)}
}

// shareReading measures what needs many tasks to mean something.
func (l *evaluation) shareReading(m Measure) Reading {
	tasks := l.scenarioTasks()
	base, part := 0, 0
	var took []float64
	for _, t := range tasks {
		if t.Outcome == Pending && (m == LateShare || m == P95) && l.Evidence.At-t.Due > l.Evidence.SLO && len(l.callsByTask[t.ID]) > 0 {
			took = append(took, (l.Evidence.At - t.Due).Seconds()) // so late already, whatever comes
			continue
		}
		if t.Outcome == Pending {
			continue
		}
		base++
		switch {
		case t.Outcome == Served:
			took = append(took, (t.Ended - t.Due).Seconds())
			part += btoi(m == ServedShare)
		case t.Outcome == Refused:
			part += btoi(m == RefusedShare)
		default:
			part += btoi(m == ErrorShare)
		}
	}
	if m == LateShare || m == P95 {
		return l.turnaroundReading(m, took)
	}
	if base < minSamples {
		return Reading{Samples: base, Source: sourceGenerator, Reason: fmt.Sprintf("%d tasks have ended, and a share means something from %d on", base, minSamples)}
	}
	return Reading{Measured: true, Value: float64(part) / float64(base), Samples: base, Source: sourceGenerator, Reason: fmt.Sprintf("%d of %d", part, base)}
}

func btoi(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// turnaroundReading measures tasks that were served, from their intended arrival.
func (l *evaluation) turnaroundReading(m Measure, took []float64) Reading {
	if len(took) < minSamples {
		return Reading{Samples: len(took), Source: sourceGenerator, Reason: fmt.Sprintf("%d tasks were served, and a quantile means something from %d on", len(took), minSamples)}
	}
	slices.Sort(took)
	r := Reading{Measured: true, Samples: len(took), Source: sourceGenerator}
	if m == P95 {
		r.Value = quantile(took, 0.95)
		r.Reason = fmt.Sprintf("of %d served, %d of 100 took no longer", len(took), 95)
		return r
	}
	late := 0
	for _, s := range took {
		late += btoi(s > l.Evidence.SLO.Seconds())
	}
	r.Value = float64(late) / float64(len(took))
	r.Reason = fmt.Sprintf("%d of %d served later than %s", late, len(took), formatDuration(l.Evidence.SLO))
	return r
}

// quantile is by nearest rank, of sorted values.
func quantile(sorted []float64, q float64) float64 {
	return sorted[max(0, int(math.Ceil(q*float64(len(sorted))))-1)]
}

// badRetryAfter counts refusals that do not tell when to come back, in all phases.
func (l *evaluation) badRetryAfter() Reading {
	bad, refused, example := 0, 0, ""
	for _, t := range l.Evidence.Tasks {
		if t.Outcome != Refused {
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
		return Reading{Source: sourceGenerator, Reason: "nothing was refused"}
	case bad > 0 && example == "":
		return countReading(bad, refused, sourceGenerator, "refusals without Retry-After")
	case bad > 0:
		return countReading(bad, refused, sourceGenerator, "refusals with Retry-After %s, which is not 1 to 60 whole seconds", strictyaml.Quote(example))
	}
	return countReading(0, refused, sourceGenerator, "every refusal said when to come back")
}

func validRetryAfter(text string) bool {
	n, err := strconv.Atoi(text)
	return err == nil && n >= 1 && n <= 60
}

func (l *evaluation) refusedInBaseline() Reading {
	tasks := l.tasksDue(-l.spec.Baseline, 0)
	if len(tasks) == 0 {
		return Reading{Source: sourceGenerator, Reason: "no task was sent in the baseline"}
	}
	n := 0
	for _, t := range tasks {
		n += btoi(t.Outcome == Refused)
	}
	return countReading(n, len(tasks), sourceGenerator, "%d of %d tasks before the trouble were refused", n, len(tasks))
}

func (l *evaluation) overLimit() Reading {
	if len(l.Evidence.Calls) == 0 || l.Evidence.Workers == 0 {
		return Reading{Source: sourceEndpoint, Reason: "no call was made"}
	}
	peak := max(l.gateOccupancy().peak(), l.endpointOccupancy().peak())
	return countReading(max(0, peak-l.Evidence.Workers), len(l.Evidence.Calls), sourceEndpoint, "in flight %d of %d", peak, l.Evidence.Workers)
}

// drainTime is from the end of the scenario until the last of its tasks has ended.
func (l *evaluation) drainTime() Reading {
	tasks := l.scenarioTasks()
	if len(tasks) == 0 {
		return Reading{Source: sourceGenerator, Reason: "no task was sent"}
	}
	var last time.Duration
	for _, t := range tasks {
		if t.Outcome == Pending {
			return Reading{
				Measured: l.Complete, NotObserved: true, Value: max(0, l.Evidence.At-l.spec.Duration).Seconds(),
				Samples: len(tasks), Source: sourceGenerator, Reason: fmt.Sprintf("task %d has not ended", t.ID),
			}
		}
		last = max(last, t.Ended)
	}
	return Reading{Measured: true, Value: max(0, last-l.spec.Duration).Seconds(), Samples: len(tasks), Source: sourceGenerator, Reason: "when the last task ended"}
}

// lostTasks counts tasks that came to no end that they should have come to.
func (l *evaluation) lostTasks() Reading {
	tasks := l.Evidence.Tasks
	if len(tasks) == 0 {
		return Reading{Source: sourceGenerator, Reason: "no task was sent"}
	}
	n, why := 0, "every task came to its end"
	for _, t := range tasks {
		if what := l.lossReason(t); what != "" {
			n++
			why = fmt.Sprintf("task %d %s", t.ID, what)
		}
	}
	return countReading(n, len(tasks), sourceBoth, "%s", why)
}

func (l *evaluation) lossReason(t Task) string {
	switch t.Outcome {
	case Pending:
		if t.Due < l.spec.Duration && l.Complete {
			return "was never answered"
		}
	case TimedOut:
		if !l.hitByFault(t) {
			return "was given up by its client, and no fault had befallen it"
		}
	case Errored, Broken:
		if !l.hitByFault(t) {
			return fmt.Sprintf("ended with an error (%s), and no fault had befallen it", cmp.Or(t.ConnError, fmt.Sprintf("status %d", t.Status)))
		}
	}
	return ""
}

// falseCompletions counts answers that looked whole and were not.
func (l *evaluation) falseCompletions() Reading {
	served, n, why := 0, 0, "every answer that looked whole was"
	for _, t := range l.Evidence.Tasks {
		if t.Outcome != Served && !(t.Outcome == Broken && t.CleanEOF) {
			continue
		}
		served++
		if what := l.falseCompletionReason(t); what != "" {
			n++
			why = fmt.Sprintf("task %d ended as if it were whole, and %s", t.ID, what)
		}
	}
	if served == 0 {
		return Reading{Source: sourceBoth, Reason: "nothing was served"}
	}
	return countReading(n, served, sourceBoth, "%s", why)
}

func (l *evaluation) falseCompletionReason(t Task) string {
	c, ok := l.lastCall(t)
	switch {
	case !ok:
		return "no call was made for it"
	case t.Outcome == Broken && c.Fault != fault.Malformed:
		return "its answer was cut: it should have broken off"
	case t.Outcome == Broken:
		return ""
	case c.brokenByFault():
		return fmt.Sprintf("fault %s had broken its answer", c.Fault)
	case !c.Reached && c.Fault == "":
		return "it never reached the endpoint"
	case c.Reached && !c.Working && !c.Complete:
		return "the endpoint did not answer to the end"
	case c.Checksum != 0 && t.Checksum != 0 && (c.Checksum != t.Checksum || c.Bytes != t.Bytes):
		return fmt.Sprintf("its answer is not the endpoint's: %d bytes of %d", t.Bytes, c.Bytes)
	}
	return ""
}
