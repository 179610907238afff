package drill

import (
	"fmt"
	"slices"
	"time"
)

// steadyDuration is how long all has to be well before it counts as the steady state,
// scenario time.
const steadyDuration = 30 * time.Second

// unsteadyBaseline says why the baseline shows no steady state; empty: it does. few
// says that too little was seen.
func (l *evaluation) unsteadyBaseline() (why string, few bool) {
	tasks := l.tasksDue(-l.spec.Baseline, 0)
	ended := 0
	for _, t := range tasks {
		ended += btoi(t.Outcome != Pending)
	}
	if ended < 3 {
		return fmt.Sprintf("only %d of %d tasks had ended by the end of the baseline", ended, len(tasks)), true
	}
	if why := l.unhealthy(tasks); why != "" {
		return why, false
	}
	for _, m := range l.Evidence.Messages {
		if m.Level != levelResolved {
			return "there was an incident already: " + firstLine(m.Text), false
		}
	}
	return "", false
}

// unsteadyAfter says why the steady state is not back; empty: it is.
func (l *evaluation) unsteadyAfter() string {
	at := l.Evidence.At
	if open := l.countPending(l.scenarioTasks()); open > 0 {
		return fmt.Sprintf("%d tasks of the scenario have not ended", open)
	}
	if l.spec.Arrivals.Rest > 0 || l.live() {
		if at < l.spec.Duration+steadyDuration {
			return "it is too early to tell"
		}
		if why := l.unhealthy(l.tasksDue(at-steadyDuration, at)); why != "" {
			return why
		}
	}
	if !l.expectsMessages() {
		return ""
	}
	if r := l.unnotifiedIncidents(); r.Value > 0 {
		return r.Reason
	}
	if len(l.Evidence.Messages) == 0 {
		return ""
	}
	if _, ok, _ := l.lastResolved(); !ok {
		return "an incident has not been said to be over"
	}
	return ""
}

// expectsMessages says whether the drill is about what people are told, so that it waits for
// the last of it.
func (l *evaluation) expectsMessages() bool {
	return slices.ContainsFunc(l.Run.Spec.Expect, func(e Expectation) bool {
		return e.Measure == TimeToResolve || e.Measure == MessagesLost
	})
}

func (l *evaluation) countPending(tasks []Task) int {
	n := 0
	for _, t := range tasks {
		n += btoi(t.Outcome == Pending)
	}
	return n
}

// unhealthy says what is wrong with tasks; empty: nothing. One late task among many is
// chance.
func (l *evaluation) unhealthy(tasks []Task) string {
	refused, failed, late := 0, 0, 0
	for _, t := range tasks {
		switch {
		case t.Outcome == Refused:
			refused++
		case t.Outcome == Served:
			late += btoi(t.Ended-t.Due > l.Evidence.SLO)
		case t.Outcome == Pending:
			late += btoi(l.Evidence.At-t.Due > l.Evidence.SLO)
		default:
			failed++
		}
	}
	switch {
	case refused > 0:
		return fmt.Sprintf("%d of %d tasks were refused", refused, len(tasks))
	case failed > 0:
		return fmt.Sprintf("%d of %d tasks ended with an error", failed, len(tasks))
	case late > 1 && late*10 > len(tasks):
		return fmt.Sprintf("%d of %d tasks were late", late, len(tasks))
	}
	return ""
}

// firstLine is the beginning of a text, on one line and bounded.
func firstLine(text string) string {
	const most = 120
	for i, r := range text {
		if r == '\n' || i >= most {
			return text[:i]
		}
	}
	return text
}
