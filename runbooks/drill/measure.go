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
	seenGenerator = "load generator"
	seenEndpoint  = "endpoint"
	seenSlack     = "receiver of the messages"
	seenBoth      = "load generator and endpoint"
	seenDoor      = "production's door" // in the place of the generator, when a drill is live
)

// enough is the number of tasks from which a share or a quantile means something.
const enough = 20

// Measured works out a measure from the facts. It is pure.
func Measured(f Facts, m Measure) Reading { return prepare(f).measure(m) }

func (l *look) measure(m Measure) Reading {
	r := l.read(m)
	if l.live() {
		r.Seen = strings.Replace(r.Seen, seenGenerator, seenDoor, 1)
	}
	return r
}

func (l *look) read(m Measure) Reading {
	switch m {
	case LateShare, P95, RefusedShare, ErrorShare, ServedShare:
		return l.shareOf(m)
	case MissingRetryAfter:
		return l.badRetryAfter()
	case RefusedInBaseline:
		return l.refusedInBaseline()
	case OverLimit:
		return l.overLimit()
	case TimeToWarn, TimeToPage, TimeToResolve:
		return l.timeTo(m)
	case Pages, MessageSays, MessagesLost:
		return l.messages(m)
	case DrainedWithin:
		return l.drained()
	case FlipTime:
		return l.flip()
	case RestoreTime:
		return l.restore()
	case TasksLost:
		return l.lost()
	case FalseEnds:
		return l.falseEnds()
	case Drift:
		return l.Drift
	}
	return Reading{Why: "there is no such measure"}
}

// saw makes a reading of a count.
func saw(n, samples int, seen, why string, args ...any) Reading {
	return Reading{Known: true, Value: float64(n), Samples: samples, Seen: seen, Why: fmt.Sprintf(why, args...)}
}

// shareOf measures what needs many tasks to mean something.
func (l *look) shareOf(m Measure) Reading {
	tasks := l.judged()
	base, part := 0, 0
	var took []float64
	for _, t := range tasks {
		if t.End == Pending && (m == LateShare || m == P95) && l.Evidence.At-t.Due > l.Evidence.SLO && len(l.calls[t.ID]) > 0 {
			took = append(took, (l.Evidence.At - t.Due).Seconds()) // so late already, whatever comes
			continue
		}
		if t.End == Pending {
			continue
		}
		base++
		switch {
		case t.End == Served:
			took = append(took, (t.Ended - t.Due).Seconds())
			part += one(m == ServedShare)
		case t.End == Refused:
			part += one(m == RefusedShare)
		default:
			part += one(m == ErrorShare)
		}
	}
	if m == LateShare || m == P95 {
		return l.turnaround(m, took)
	}
	if base < enough {
		return Reading{Samples: base, Seen: seenGenerator, Why: fmt.Sprintf("%d tasks have ended, and a share means something from %d on", base, enough)}
	}
	return Reading{Known: true, Value: float64(part) / float64(base), Samples: base, Seen: seenGenerator, Why: fmt.Sprintf("%d of %d", part, base)}
}

func one(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// turnaround measures tasks that were served, from their intended arrival.
func (l *look) turnaround(m Measure, took []float64) Reading {
	if len(took) < enough {
		return Reading{Samples: len(took), Seen: seenGenerator, Why: fmt.Sprintf("%d tasks were served, and a quantile means something from %d on", len(took), enough)}
	}
	slices.Sort(took)
	r := Reading{Known: true, Samples: len(took), Seen: seenGenerator}
	if m == P95 {
		r.Value = quantile(took, 0.95)
		r.Why = fmt.Sprintf("of %d served, %d of 100 took no longer", len(took), 95)
		return r
	}
	late := 0
	for _, s := range took {
		late += one(s > l.Evidence.SLO.Seconds())
	}
	r.Value = float64(late) / float64(len(took))
	r.Why = fmt.Sprintf("%d of %d served later than %s", late, len(took), formatDuration(l.Evidence.SLO))
	return r
}

// quantile is by nearest rank, of sorted values.
func quantile(sorted []float64, q float64) float64 {
	return sorted[max(0, int(math.Ceil(q*float64(len(sorted))))-1)]
}

// badRetryAfter counts refusals that do not tell when to come back, in all phases.
func (l *look) badRetryAfter() Reading {
	bad, refused, example := 0, 0, ""
	for _, t := range l.Evidence.Tasks {
		if t.End != Refused {
			continue
		}
		refused++
		if !goodRetryAfter(t.RetryAfter) {
			bad++
			example = t.RetryAfter
		}
	}
	switch {
	case refused == 0:
		return Reading{Seen: seenGenerator, Why: "nothing was refused"}
	case bad > 0 && example == "":
		return saw(bad, refused, seenGenerator, "refusals without Retry-After")
	case bad > 0:
		return saw(bad, refused, seenGenerator, "refusals with Retry-After %s, which is not 1 to 60 whole seconds", strictyaml.Quote(example))
	}
	return saw(0, refused, seenGenerator, "every refusal said when to come back")
}

func goodRetryAfter(text string) bool {
	n, err := strconv.Atoi(text)
	return err == nil && n >= 1 && n <= 60
}

func (l *look) refusedInBaseline() Reading {
	tasks := l.due(-l.spec.Baseline, 0)
	if len(tasks) == 0 {
		return Reading{Seen: seenGenerator, Why: "no task was sent in the baseline"}
	}
	n := 0
	for _, t := range tasks {
		n += one(t.End == Refused)
	}
	return saw(n, len(tasks), seenGenerator, "%d of %d tasks before the trouble were refused", n, len(tasks))
}

func (l *look) overLimit() Reading {
	if len(l.Evidence.Calls) == 0 || l.Evidence.Workers == 0 {
		return Reading{Seen: seenEndpoint, Why: "no call was made"}
	}
	peak := max(l.busyness().peak(), l.atEndpoint().peak())
	return saw(max(0, peak-l.Evidence.Workers), len(l.Evidence.Calls), seenEndpoint, "in flight %d of %d", peak, l.Evidence.Workers)
}

// drained is from the end of the scenario until the last of its tasks has ended.
func (l *look) drained() Reading {
	tasks := l.judged()
	if len(tasks) == 0 {
		return Reading{Seen: seenGenerator, Why: "no task was sent"}
	}
	var last time.Duration
	for _, t := range tasks {
		if t.End == Pending {
			return Reading{
				Known: l.Over, Never: true, Value: max(0, l.Evidence.At-l.spec.Duration).Seconds(),
				Samples: len(tasks), Seen: seenGenerator, Why: fmt.Sprintf("task %d has not ended", t.ID),
			}
		}
		last = max(last, t.Ended)
	}
	return Reading{Known: true, Value: max(0, last-l.spec.Duration).Seconds(), Samples: len(tasks), Seen: seenGenerator, Why: "when the last task ended"}
}

// lost counts tasks that came to no end that they should have come to.
func (l *look) lost() Reading {
	tasks := l.Evidence.Tasks
	if len(tasks) == 0 {
		return Reading{Seen: seenGenerator, Why: "no task was sent"}
	}
	n, why := 0, "every task came to its end"
	for _, t := range tasks {
		if what := l.lostBy(t); what != "" {
			n++
			why = fmt.Sprintf("task %d %s", t.ID, what)
		}
	}
	return saw(n, len(tasks), seenBoth, "%s", why)
}

func (l *look) lostBy(t Task) string {
	switch t.End {
	case Pending:
		if t.Due < l.spec.Duration && l.Over {
			return "was never answered"
		}
	case TimedOut:
		if !l.struck(t) {
			return "was given up by its client, and no fault had befallen it"
		}
	case Error, Broken:
		if !l.struck(t) {
			return fmt.Sprintf("ended with an error (%s), and no fault had befallen it", cmp.Or(t.Why, fmt.Sprintf("status %d", t.Status)))
		}
	}
	return ""
}

// falseEnds counts answers that looked whole and were not.
func (l *look) falseEnds() Reading {
	served, n, why := 0, 0, "every answer that looked whole was"
	for _, t := range l.Evidence.Tasks {
		if t.End != Served && !(t.End == Broken && t.Clean) {
			continue
		}
		served++
		if what := l.falseEnd(t); what != "" {
			n++
			why = fmt.Sprintf("task %d ended as if it were whole, and %s", t.ID, what)
		}
	}
	if served == 0 {
		return Reading{Seen: seenBoth, Why: "nothing was served"}
	}
	return saw(n, served, seenBoth, "%s", why)
}

func (l *look) falseEnd(t Task) string {
	c, ok := l.lastCall(t)
	switch {
	case !ok:
		return "no call was made for it"
	case t.End == Broken && c.Fault != fault.Malformed:
		return "its answer was cut: it should have broken off"
	case t.End == Broken:
		return ""
	case c.broke():
		return fmt.Sprintf("fault %s had broken its answer", c.Fault)
	case !c.Reached && c.Fault == "":
		return "it never reached the endpoint"
	case c.Reached && !c.Working && !c.Whole:
		return "the endpoint did not answer to the end"
	case c.Sum != 0 && t.Sum != 0 && (c.Sum != t.Sum || c.Bytes != t.Bytes):
		return fmt.Sprintf("its answer is not the endpoint's: %d bytes of %d", t.Bytes, c.Bytes)
	}
	return ""
}
