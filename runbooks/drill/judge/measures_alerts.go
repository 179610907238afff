package judge

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"headgate/internal/strictyaml"
	"headgate/runbooks/drill"
)

// Levels of messages.
const (
	levelWarn     = "warn"
	levelPage     = "page"
	levelResolved = "resolved"
)

// notificationDelay measures the time until the notification was accepted.
func (l *Evaluation) notificationDelay(m drill.Measure) drill.Reading {
	since, what := l.spec.DisturbanceStart(), "warning"
	at, ok, n := time.Duration(0), false, 0
	switch m {
	case drill.TimeToWarn:
		at, ok, n = l.firstMessage(since, levelWarn, levelPage)
	case drill.TimeToPage:
		what = "page"
		at, ok, n = l.firstMessage(since, levelPage)
	default:
		since, what = l.spec.DisturbanceEnd(), "resolved message"
		at, ok, n = l.lastResolved()
	}
	waited := max(0, l.Evidence.At-since).Seconds()
	switch {
	case ok:
		return drill.Reading{Measured: true, Value: max(0, at-since).Seconds(), Samples: n, Source: sourceSlack, Reason: "when the " + what + " was accepted"}
	case len(l.Evidence.Messages) == 0 && l.Evidence.SlackCalls > 0:
		return drill.Reading{Measured: l.Complete, NotObserved: true, Value: waited, Source: sourceSlack,
			Reason: fmt.Sprintf("no message was accepted by Slack, of %d tries", l.Evidence.SlackCalls)}
	case len(l.Evidence.Messages) == 0:
		return drill.Reading{Measured: l.Complete, NotObserved: true, Value: waited, Source: sourceSlack, Reason: "no message was accepted by Slack: no attempt was made"}
	}
	return drill.Reading{Measured: l.Complete, NotObserved: true, Value: waited, Samples: len(l.Evidence.Messages), Source: sourceSlack,
		Reason: fmt.Sprintf("no %s arrived within %.0f s", what, waited)}
}

// firstMessage is when the first message of a level was accepted, of those made since.
func (l *Evaluation) firstMessage(since time.Duration, levels ...string) (at time.Duration, ok bool, n int) {
	for _, m := range l.Evidence.Messages {
		if m.Kind == kindEdit || !slices.Contains(levels, m.Level) {
			continue
		}
		n++
		if t := l.acceptedAt(m); t >= since && (!ok || t < at) {
			at, ok = t, true
		}
	}
	return at, ok, n
}

// Kinds of messages.
const (
	kindEdit  = "edit" // of a message that stands already
	kindReply = "reply"
)

// lastResolved is when the last incident was said to be over, if all were.
func (l *Evaluation) lastResolved() (at time.Duration, ok bool, n int) {
	over := map[string]time.Duration{}
	for _, m := range l.Evidence.Messages {
		if m.Level == levelResolved {
			over[m.Incident] = max(over[m.Incident], l.acceptedAt(m))
			n++
		}
	}
	if n == 0 {
		return 0, false, 0
	}
	for _, m := range l.Evidence.Messages {
		t, done := over[m.Incident]
		if !done || m.Level != levelResolved && l.acceptedAt(m) > t {
			return 0, false, n
		}
		at = max(at, t)
	}
	return at, true, n
}

// pages counts the pages that Slack accepted.
func (l *Evaluation) pages() drill.Reading {
	_, _, n := l.firstMessage(l.spec.DisturbanceStart(), levelPage)
	return countReading(n, len(l.Evidence.Messages), sourceSlack, "pages accepted by Slack")
}

// unnotifiedIncidents counts incidents that no accepted message belongs to.
func (l *Evaluation) unnotifiedIncidents() drill.Reading {
	told := map[string]bool{}
	for _, m := range l.Evidence.Messages {
		told[m.Incident] = true
	}
	n, why := 0, "every incident was announced"
	for _, id := range l.Evidence.Incidents {
		if !told[id] {
			n++
			why = "no message announced incident " + id
		}
	}
	return countReading(n, len(l.Evidence.Incidents), sourceSlack, "%s", why)
}

// messageFaults counts what messages got wrong or left out.
func (l *Evaluation) messageFaults() drill.Reading {
	if len(l.Evidence.Messages) == 0 {
		return drill.Reading{Measured: l.Complete, NotObserved: true, Source: sourceSlack, Reason: "no message was accepted by Slack"}
	}
	n, why := l.incidentsWithoutBreach()
	if l.Evidence.DuplicateMessages > 0 {
		n, why = n+l.Evidence.DuplicateMessages, fmt.Sprintf("%d messages were sent twice", l.Evidence.DuplicateMessages)
	}
	if left, what := l.staleMessages(); left > 0 {
		n, why = n+left, what
	}
	for _, m := range l.Evidence.Messages {
		if what := l.messageFault(m); what != "" {
			n++
			why = what
		}
	}
	return countReading(n, len(l.Evidence.Messages), sourceSlack, "%s", why)
}

var (
	poolPattern  = regexp.MustCompile(`\(pool ([^)\s]+)\)`)
	limitPattern = regexp.MustCompile(`(-?[0-9][0-9.]*) ?([^\s,]*), limit (-?[0-9][0-9.]*) ?([^\s,.]*)`)
	rulePattern  = regexp.MustCompile("rule `?([a-z][a-z0-9_]*)")
)

// messageFault says what a message got wrong; empty: nothing.
func (l *Evaluation) messageFault(m drill.Message) string {
	switch pool := poolPattern.FindStringSubmatch(m.Text); {
	case !strings.Contains(m.Text, "DRILL"):
		return "a message does not say DRILL"
	case pool != nil && pool[1] != l.Evidence.Pool:
		return fmt.Sprintf("a message names pool %s, not %s", strictyaml.Quote(pool[1]), l.Evidence.Pool)
	case pool == nil && !l.aboutHeadgate(m):
		return fmt.Sprintf("a message does not name the pool, %s", l.Evidence.Pool)
	}
	if m.Kind == kindEdit || m.Level == levelResolved || !announcesBreach(m) {
		return ""
	}
	if !limitPattern.MatchString(m.Text) {
		return "a message about a breach does not say the value and the limit"
	}
	return ""
}

// incidentsWithoutBreach counts incidents of which no message ever says a value that breaches its
// limit. One message may: it tells how it stands when it is sent.
func (l *Evaluation) incidentsWithoutBreach() (n int, why string) {
	const several = 3
	all, breaches := map[string]int{}, map[string]int{}
	for _, m := range l.Evidence.Messages {
		a := limitPattern.FindStringSubmatch(m.Text)
		if m.Level == levelResolved || a == nil || a[2] != a[4] {
			continue
		}
		all[m.Incident]++
		breaches[m.Incident] += btoi(parseNumber(a[1]) >= parseNumber(a[3]))
	}
	why = "every message said what it should"
	for id, of := range all {
		if of >= several && breaches[id] == 0 {
			n++
			why = "no message about incident " + id + " says a value that breaches its limit"
		}
	}
	return n, why
}

// maxEditLag is how long the message of an incident may lag behind its thread, on the
// wall clock.
const maxEditLag = 10 * time.Second

// staleMessages counts incidents whose thread has said that they are over while
// their message still says otherwise.
func (l *Evaluation) staleMessages() (n int, why string) {
	said, over := map[string]string{}, map[string]time.Time{}
	for _, m := range l.Evidence.Messages {
		switch {
		case m.Kind != kindReply:
			said[m.Incident] = m.Level
		case m.Level == levelResolved:
			over[m.Incident] = m.Accepted
		default:
			delete(over, m.Incident)
		}
	}
	now := l.ScenarioStart.Add(time.Duration(float64(l.Evidence.At) / l.speed))
	for id, at := range over {
		if said[id] != levelResolved && now.Sub(at) > maxEditLag {
			n++
			why = fmt.Sprintf("incident %s has ended, and its message still says %s", id, said[id])
		}
	}
	return n, why
}

// announcesBreach says whether a message announces a breach, and so must name it.
func announcesBreach(m drill.Message) bool {
	return m.Kind == "post" || strings.Contains(m.Text, "Now a page")
}

// aboutHeadgate says whether a message, or the one in whose thread it stands, is about
// headgate itself and not about a pool.
func (l *Evaluation) aboutHeadgate(m drill.Message) bool {
	for _, o := range l.Evidence.Messages {
		if o.Incident != m.Incident && o.Text != m.Text {
			continue
		}
		if rule := rulePattern.FindStringSubmatch(o.Text); rule != nil {
			switch rule[1] {
			case "delivery_stuck", "delivery_dead", "evaluation_late", "journal_failing", "drill_overdue":
				return true
			}
			return false
		}
	}
	return false
}

func parseNumber(text string) float64 {
	v, err := strconv.ParseFloat(strings.TrimRight(text, "."), 64)
	if err != nil {
		return 0
	}
	return v
}
