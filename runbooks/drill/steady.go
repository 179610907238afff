package drill

import (
	"fmt"
	"slices"
	"time"
)

// steadyFor is how long all has to be well before it counts as the steady state,
// scenario time.
const steadyFor = 30 * time.Second

// steadyBefore says why the baseline shows no steady state; empty: it does. few
// says that too little was seen.
func (l *look) steadyBefore() (why string, few bool) {
	tasks := l.due(-l.spec.Baseline, 0)
	ended := 0
	for _, t := range tasks {
		ended += one(t.End != Pending)
	}
	if ended < 3 {
		return fmt.Sprintf("only %d of %d tasks had ended by the end of the baseline", ended, len(tasks)), true
	}
	if why := l.unwell(tasks); why != "" {
		return why, false
	}
	for _, m := range l.Evidence.Messages {
		if m.Level != levelResolved {
			return "there was an incident already: " + firstLine(m.Text), false
		}
	}
	return "", false
}

// steadyAfter says why the steady state is not back; empty: it is.
func (l *look) steadyAfter() string {
	at := l.Evidence.At
	if open := l.pendingOf(l.judged()); open > 0 {
		return fmt.Sprintf("%d tasks of the scenario have not ended", open)
	}
	if l.spec.Arrivals.Rest > 0 || l.live() {
		if at < l.spec.Duration+steadyFor {
			return "it is too early to tell"
		}
		if why := l.unwell(l.due(at-steadyFor, at)); why != "" {
			return why
		}
	}
	if !l.tells() {
		return ""
	}
	if r := l.untold(); r.Value > 0 {
		return r.Why
	}
	if len(l.Evidence.Messages) == 0 {
		return ""
	}
	if _, ok, _ := l.resolved(); !ok {
		return "an incident has not been said to be over"
	}
	return ""
}

// tells says whether the drill is about what people are told, so that it waits for
// the last of it.
func (l *look) tells() bool {
	return slices.ContainsFunc(l.Run.Spec.Expect, func(e Expectation) bool {
		return e.Measure == TimeToResolve || e.Measure == MessagesLost
	})
}

func (l *look) pendingOf(tasks []Task) int {
	n := 0
	for _, t := range tasks {
		n += one(t.End == Pending)
	}
	return n
}

// unwell says what is wrong with tasks; empty: nothing. One late task among many is
// chance.
func (l *look) unwell(tasks []Task) string {
	refused, failed, late := 0, 0, 0
	for _, t := range tasks {
		switch {
		case t.End == Refused:
			refused++
		case t.End == Served:
			late += one(t.Ended-t.Due > l.Evidence.SLO)
		case t.End == Pending:
			late += one(l.Evidence.At-t.Due > l.Evidence.SLO)
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
