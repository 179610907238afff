package drill

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"headgate/internal/strictyaml"
)

// Levels of messages.
const (
	levelWarn     = "warn"
	levelPage     = "page"
	levelResolved = "resolved"
)

// timeTo measures how long it took until people were told.
func (l *look) timeTo(m Measure) Reading {
	since, what := l.spec.onset(), "warning"
	at, ok, n := time.Duration(0), false, 0
	switch m {
	case TimeToWarn:
		at, ok, n = l.first(since, levelWarn, levelPage)
	case TimeToPage:
		what = "page"
		at, ok, n = l.first(since, levelPage)
	default:
		since, what = l.spec.end(), "message that all is over"
		at, ok, n = l.resolved()
	}
	waited := max(0, l.Evidence.At-since).Seconds()
	switch {
	case ok:
		return Reading{Known: true, Value: max(0, at-since).Seconds(), Samples: n, Seen: seenSlack, Why: "when the " + what + " was accepted"}
	case len(l.Evidence.Messages) == 0 && l.Evidence.Tried > 0:
		return Reading{Known: l.Over, Never: true, Value: waited, Seen: seenSlack,
			Why: fmt.Sprintf("no message was accepted by Slack, of %d tries", l.Evidence.Tried)}
	case len(l.Evidence.Messages) == 0:
		return Reading{Known: l.Over, Never: true, Value: waited, Seen: seenSlack, Why: "no message was accepted by Slack: nobody tried to send one"}
	}
	return Reading{Known: l.Over, Never: true, Value: waited, Samples: len(l.Evidence.Messages), Seen: seenSlack,
		Why: fmt.Sprintf("a %s never came, within %.0f s", what, waited)}
}

// first is when the first message of a level was accepted, of those made since.
func (l *look) first(since time.Duration, levels ...string) (at time.Duration, ok bool, n int) {
	for _, m := range l.Evidence.Messages {
		if m.Kind == kindEdit || !slices.Contains(levels, m.Level) {
			continue
		}
		n++
		if t := l.told(m); t >= since && (!ok || t < at) {
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

// resolved is when the last incident was said to be over, if all were.
func (l *look) resolved() (at time.Duration, ok bool, n int) {
	over := map[string]time.Duration{}
	for _, m := range l.Evidence.Messages {
		if m.Level == levelResolved {
			over[m.Incident] = max(over[m.Incident], l.told(m))
			n++
		}
	}
	if n == 0 {
		return 0, false, 0
	}
	for _, m := range l.Evidence.Messages {
		t, done := over[m.Incident]
		if !done || m.Level != levelResolved && l.told(m) > t {
			return 0, false, n
		}
		at = max(at, t)
	}
	return at, true, n
}

func (l *look) messages(m Measure) Reading {
	switch m {
	case Pages:
		_, _, n := l.first(l.spec.onset(), levelPage)
		return saw(n, len(l.Evidence.Messages), seenSlack, "pages accepted by Slack")
	case MessageSays:
		return l.messageFaults()
	}
	return l.untold()
}

// untold counts incidents that no accepted message belongs to.
func (l *look) untold() Reading {
	told := map[string]bool{}
	for _, m := range l.Evidence.Messages {
		told[m.Incident] = true
	}
	n, why := 0, "every incident was told"
	for _, id := range l.Evidence.Incidents {
		if !told[id] {
			n++
			why = "nobody was told of incident " + id
		}
	}
	return saw(n, len(l.Evidence.Incidents), seenSlack, "%s", why)
}

// messageFaults counts what messages got wrong or left out.
func (l *look) messageFaults() Reading {
	if len(l.Evidence.Messages) == 0 {
		return Reading{Known: l.Over, Never: true, Seen: seenSlack, Why: "no message was accepted by Slack"}
	}
	n, why := l.harmless()
	if l.Evidence.Repeated > 0 {
		n, why = n+l.Evidence.Repeated, fmt.Sprintf("%d messages were said twice", l.Evidence.Repeated)
	}
	if left, what := l.leftAsTheyWere(); left > 0 {
		n, why = n+left, what
	}
	for _, m := range l.Evidence.Messages {
		if what := l.messageFault(m); what != "" {
			n++
			why = what
		}
	}
	return saw(n, len(l.Evidence.Messages), seenSlack, "%s", why)
}

var (
	poolNamed  = regexp.MustCompile(`\(pool ([^)\s]+)\)`)
	limitNamed = regexp.MustCompile(`(-?[0-9][0-9.]*) ?([^\s,]*), limit (-?[0-9][0-9.]*) ?([^\s,.]*)`)
	ruleNamed  = regexp.MustCompile("rule `?([a-z][a-z0-9_]*)")
)

// messageFault says what a message got wrong; empty: nothing.
func (l *look) messageFault(m Message) string {
	switch pool := poolNamed.FindStringSubmatch(m.Text); {
	case !strings.Contains(m.Text, "DRILL"):
		return "a message does not say DRILL"
	case pool != nil && pool[1] != l.Evidence.Pool:
		return fmt.Sprintf("a message names pool %s, not %s", strictyaml.Quote(pool[1]), l.Evidence.Pool)
	case pool == nil && !l.ofProcess(m):
		return fmt.Sprintf("a message does not name the pool, %s", l.Evidence.Pool)
	}
	if m.Kind == kindEdit || m.Level == levelResolved || !opens(m) {
		return ""
	}
	if !limitNamed.MatchString(m.Text) {
		return "a message about a breach does not say the value and the limit"
	}
	return ""
}

// harmless counts incidents of which no message ever says a value that breaches its
// limit. One message may: it tells how it stands when it is sent.
func (l *look) harmless() (n int, why string) {
	const several = 3
	all, breaches := map[string]int{}, map[string]int{}
	for _, m := range l.Evidence.Messages {
		a := limitNamed.FindStringSubmatch(m.Text)
		if m.Level == levelResolved || a == nil || a[2] != a[4] {
			continue
		}
		all[m.Incident]++
		breaches[m.Incident] += one(number(a[1]) >= number(a[3]))
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

// editTime is how long the message of an incident may lag behind its thread, on the
// wall clock.
const editTime = 10 * time.Second

// leftAsTheyWere counts incidents whose thread has said that they are over while
// their message still says otherwise.
func (l *look) leftAsTheyWere() (n int, why string) {
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
	now := l.Zero.Add(time.Duration(float64(l.Evidence.At) / l.speed))
	for id, at := range over {
		if said[id] != levelResolved && now.Sub(at) > editTime {
			n++
			why = fmt.Sprintf("incident %s is over, and its message still says %s", id, said[id])
		}
	}
	return n, why
}

// opens says whether a message tells of a breach, and so has to say which.
func opens(m Message) bool {
	return m.Kind == "post" || strings.Contains(m.Text, "Now a page")
}

// ofProcess says whether a message, or the one in whose thread it stands, is about
// headgate itself and not about a pool.
func (l *look) ofProcess(m Message) bool {
	for _, o := range l.Evidence.Messages {
		if o.Incident != m.Incident && o.Text != m.Text {
			continue
		}
		if rule := ruleNamed.FindStringSubmatch(o.Text); rule != nil {
			switch rule[1] {
			case "delivery_stuck", "delivery_dead", "evaluation_late", "journal_failing", "drill_overdue":
				return true
			}
			return false
		}
	}
	return false
}

func number(text string) float64 {
	v, err := strconv.ParseFloat(strings.TrimRight(text, "."), 64)
	if err != nil {
		return 0
	}
	return v
}
