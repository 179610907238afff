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

func (e *Evaluation) timeToWarn() drill.Reading {
	at, ok, n := e.firstMessage(e.spec.DisturbanceStart(), levelWarn, levelPage)
	return e.notificationDelay("warning", e.spec.DisturbanceStart(), at, ok, n)
}

func (e *Evaluation) timeToPage() drill.Reading {
	at, ok, n := e.firstMessage(e.spec.DisturbanceStart(), levelPage)
	return e.notificationDelay("page", e.spec.DisturbanceStart(), at, ok, n)
}

func (e *Evaluation) timeToResolve() drill.Reading {
	at, ok, n := e.lastResolved()
	return e.notificationDelay("resolved message", e.spec.DisturbanceEnd(), at, ok, n)
}

// notificationDelay is the time from since until the notification was accepted; ok: it was, at that time.
func (e *Evaluation) notificationDelay(what string, since, at time.Duration, ok bool, n int) drill.Reading {
	if ok {
		return drill.Reading{Measured: true, Value: max(0, at-since).Seconds(), Samples: n, Source: sourceSlack,
			Reason: "when the " + what + " was accepted"}
	}
	all := len(e.Evidence.Messages)
	waited := max(0, e.Evidence.At-since).Seconds()
	r := drill.Reading{Measured: e.Complete, NotObserved: true, Value: waited, Samples: all, Source: sourceSlack}
	switch {
	case all > 0:
		r.Reason = fmt.Sprintf("no %s arrived within %.0f s", what, waited)
	case e.Evidence.SlackCalls > 0:
		r.Reason = fmt.Sprintf("no message was accepted by Slack, of %d tries", e.Evidence.SlackCalls)
	default:
		r.Reason = "no message was accepted by Slack: no attempt was made"
	}
	return r
}

// firstMessage is when the first message of a level was accepted, of those made since.
func (e *Evaluation) firstMessage(since time.Duration, levels ...string) (at time.Duration, ok bool, n int) {
	for _, m := range e.Evidence.Messages {
		if m.Kind == kindEdit || !slices.Contains(levels, m.Level) {
			continue
		}
		n++
		if t := e.acceptedAt(m); t >= since && (!ok || t < at) {
			at, ok = t, true
		}
	}
	return at, ok, n
}

// Kinds of messages.
const (
	kindEdit  = "edit" // of an earlier message
	kindReply = "reply"
)

// lastResolved is when the last incident was reported resolved, if all were.
func (e *Evaluation) lastResolved() (at time.Duration, ok bool, n int) {
	over := map[string]time.Duration{}
	for _, m := range e.Evidence.Messages {
		if m.Level == levelResolved {
			over[m.Incident] = max(over[m.Incident], e.acceptedAt(m))
			n++
		}
	}
	if n == 0 {
		return 0, false, 0
	}
	for _, m := range e.Evidence.Messages {
		t, done := over[m.Incident]
		if !done || m.Level != levelResolved && e.acceptedAt(m) > t {
			return 0, false, n
		}
		at = max(at, t)
	}
	return at, true, n
}

// pages counts the pages that Slack accepted.
func (e *Evaluation) pages() drill.Reading {
	_, _, n := e.firstMessage(e.spec.DisturbanceStart(), levelPage)
	return countReading(n, len(e.Evidence.Messages), sourceSlack, "pages accepted by Slack")
}

// unnotifiedIncidents counts incidents that no accepted message belongs to.
func (e *Evaluation) unnotifiedIncidents() drill.Reading {
	announced := map[string]bool{}
	for _, m := range e.Evidence.Messages {
		announced[m.Incident] = true
	}
	n, why := 0, "every incident was announced"
	for _, id := range e.Evidence.Incidents {
		if !announced[id] {
			n++
			why = "no message announced incident " + id
		}
	}
	return countReading(n, len(e.Evidence.Incidents), sourceSlack, "%s", why)
}

// messageFaults counts what messages got wrong or left out.
func (e *Evaluation) messageFaults() drill.Reading {
	if len(e.Evidence.Messages) == 0 {
		return drill.Reading{Measured: e.Complete, NotObserved: true, Source: sourceSlack,
			Reason: "no message was accepted by Slack"}
	}
	n, why := e.incidentsWithoutBreach()
	if e.Evidence.DuplicateMessages > 0 {
		n, why = n+e.Evidence.DuplicateMessages, fmt.Sprintf("%d messages were sent twice", e.Evidence.DuplicateMessages)
	}
	if left, what := e.staleMessages(); left > 0 {
		n, why = n+left, what
	}
	for _, m := range e.Evidence.Messages {
		if what := e.messageFault(m); what != "" {
			n++
			why = what
		}
	}
	return countReading(n, len(e.Evidence.Messages), sourceSlack, "%s", why)
}

var (
	poolPattern  = regexp.MustCompile(`\(pool ([^)\s]+)\)`)
	limitPattern = regexp.MustCompile(`(-?[0-9][0-9.]*) ?([^\s,]*), limit (-?[0-9][0-9.]*) ?([^\s,.]*)`)
	rulePattern  = regexp.MustCompile("rule `?([a-z][a-z0-9_]*)")
)

// messageFault says what a message got wrong; empty: nothing.
func (e *Evaluation) messageFault(m drill.Message) string {
	switch pool := poolPattern.FindStringSubmatch(m.Text); {
	case !strings.Contains(m.Text, "DRILL"):
		return "a message does not say DRILL"
	case pool != nil && pool[1] != e.Evidence.Pool:
		return fmt.Sprintf("a message names pool %s, not %s", strictyaml.Quote(pool[1]), e.Evidence.Pool)
	case pool == nil && !e.aboutHeadgate(m):
		return fmt.Sprintf("a message does not name the pool, %s", e.Evidence.Pool)
	}
	// These announce a breach, and so must name it.
	announces := m.Kind != kindEdit && m.Level != levelResolved &&
		(m.Kind == "post" || strings.Contains(m.Text, "Now a page"))
	return reasonIf(announces && !limitPattern.MatchString(m.Text),
		"a message about a breach does not say the value and the limit")
}

// incidentsWithoutBreach counts incidents of which no message says a value that breaches its limit. A single message
// may not: it states the value at the time it is sent.
func (e *Evaluation) incidentsWithoutBreach() (n int, why string) {
	const several = 3
	all, breaches := map[string]int{}, map[string]int{}
	for _, m := range e.Evidence.Messages {
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

// maxEditLag is how long the message of an incident may lag behind its thread, on the wall clock.
const maxEditLag = 10 * time.Second

// staleMessages counts incidents whose thread says that they are over while their message still says otherwise.
func (e *Evaluation) staleMessages() (n int, why string) {
	said, over := map[string]string{}, map[string]time.Time{}
	for _, m := range e.Evidence.Messages {
		switch {
		case m.Kind != kindReply:
			said[m.Incident] = m.Level
		case m.Level == levelResolved:
			over[m.Incident] = m.Accepted
		default:
			delete(over, m.Incident)
		}
	}
	now := e.ScenarioStart.Add(time.Duration(float64(e.Evidence.At) / e.speed))
	for id, at := range over {
		if said[id] != levelResolved && now.Sub(at) > maxEditLag {
			n++
			why = fmt.Sprintf("incident %s has ended, and its message still says %s", id, said[id])
		}
	}
	return n, why
}

// ownRules are the rules about headgate itself.
var ownRules = []string{"delivery_stuck", "delivery_dead", "evaluation_late", "journal_failing", "drill_overdue"}

// aboutHeadgate says whether a message, or the one whose thread it is in, is about headgate itself and not about a
// pool.
func (e *Evaluation) aboutHeadgate(m drill.Message) bool {
	for _, o := range e.Evidence.Messages {
		if o.Incident != m.Incident && o.Text != m.Text {
			continue
		}
		if rule := rulePattern.FindStringSubmatch(o.Text); rule != nil {
			return slices.Contains(ownRules, rule[1])
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
