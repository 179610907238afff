package slack

import (
	"fmt"
	"regexp"
	"strings"

	"headgate/alerts"
	"headgate/engine"
)

// title says how bad it is, in one or two words.
func title(n alerts.Notification) string {
	t := "WARNING"
	switch {
	case !n.Incident.Open():
		t = "RESOLVED"
	case n.Incident.Level == engine.LevelPage:
		t = "PAGE"
	}
	if n.Incident.Flapping {
		t += " (comes and goes)"
	}
	return drillPrefix(n) + t
}

func drillPrefix(n alerts.Notification) string {
	if n.Drill {
		return "DRILL · "
	}
	return ""
}

// statusEmoji is the colour that stands before the title.
func statusEmoji(n alerts.Notification) string {
	switch {
	case !n.Incident.Open():
		return "🟢"
	case n.Incident.Level == engine.LevelPage:
		return "🔴"
	default:
		return "🟠"
	}
}

func poolSuffix(pool string) string {
	if pool == "" {
		return ""
	}
	return " (pool " + pool + ")"
}

// valueAndLimit sets the value against its threshold.
func valueAndLimit(inc engine.Incident) string {
	return fmt.Sprintf("%s, limit %s", formatValue(inc.Value, inc.Unit), formatValue(inc.Threshold, inc.Unit))
}

// statusSentence tells in a sentence how it stands.
func statusSentence(inc engine.Incident) string {
	if inc.Open() {
		form := "It is at %s; the limit is %s."
		if inc.Value < inc.Threshold {
			form = "It is at %s, below the limit of %s; it is over once it has stayed well below."
		}
		s := fmt.Sprintf(form, formatValue(inc.Value, inc.Unit), formatValue(inc.Threshold, inc.Unit))
		if inc.ReopenCount > 0 {
			s += fmt.Sprintf(" It came back %s.", countText(inc.ReopenCount))
		}
		return s
	}
	return fmt.Sprintf("It fired at %s and was over at %s, after %s: %s.", localTime(inc.Opened), localTime(inc.Ended), formatDuration(incidentDuration(inc)), resolutionText(inc.Resolution))
}

func countText(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

func resolutionText(r engine.Resolution) string {
	switch r {
	case engine.Recovered:
		return "the value went back below the limit"
	case engine.NoTraffic:
		return "no traffic, so nothing can be said"
	case engine.RuleDeleted:
		return "its rule or pool is gone from the settings"
	default:
		return escape(string(r))
	}
}

// reasonSuffix adds what somebody wrote.
func reasonSuffix(reason string) string {
	if reason == "" {
		return ""
	}
	words, _ := escapeTruncate(reason, maxLine-150)
	return ": " + words
}

// Actor names a Slack user where people are named, in incidents and the audit.
func Actor(user string) string { return actorPrefix + user }

const actorPrefix = "slack:"

// displayActor shows a name. Somebody of Slack is shown as Slack shows people.
func displayActor(by string) string {
	if id, ok := strings.CutPrefix(by, actorPrefix); ok && userIDPattern.MatchString(id) {
		return "<@" + id + ">"
	}
	return escape(by)
}

var userIDPattern = regexp.MustCompile(`^[UW][A-Z0-9]{2,20}$`)

// modeName names a mode.
func modeName(mode string) string {
	if mode == "" {
		return "not known"
	}
	return escape(mode)
}

// modeText says what the pool's gate does.
func modeText(n alerts.Notification) string {
	s := modeName(n.Mode)
	switch n.Mode {
	case "enforce":
		s += ": work that comes too late is refused"
	case "observe":
		s += ": refusals are only counted"
	case passThrough:
		s += ": the gate is taken out"
	}
	if !n.ModeSince.IsZero() {
		s += "\nsince " + localTime(n.ModeSince)
	}
	return s
}

// rollbackCommand gives the command that takes the gate out, or puts it back.
func rollbackCommand(n alerts.Notification) string {
	pool := n.Incident.Key.Pool
	if n.Mode == passThrough {
		return "Done. To put the gate back: " + inlineCommand("restore --pool", pool)
	}
	return inlineCommand("rollback --pool", pool)
}

// inlineCommand is one to be copied into a shell; an argument that a shell could take
// for more than a word is quoted.
func inlineCommand(verb, arg string) string { return inlineCode(shellCommand(verb, arg)) }

// shellCommand is a command without markup.
func shellCommand(verb, arg string) string {
	if !shellSafe.MatchString(arg) {
		arg = "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
	}
	return "headgate " + verb + " " + arg
}

var shellSafe = regexp.MustCompile(`^[A-Za-z0-9_.:/@-]+$`)

// stateText says who is on it, and how to say so.
func stateText(n alerts.Notification) string {
	s := ackText(n.Incident)
	if n.Event.Kind == engine.EventSilenced {
		s += "\n" + eventText(n)
	}
	return s
}

func ackText(inc engine.Incident) string {
	switch {
	case !inc.Open():
		return "Resolved at " + localTime(inc.Ended)
	case !inc.AckUntil.IsZero():
		return fmt.Sprintf("Acknowledged by %s until %s", displayActor(inc.AckedBy), localTime(inc.AckUntil))
	default:
		return "Nobody has acknowledged it: " + inlineCommand("incident ack", inc.ID)
	}
}

// eventText tells one event.
func eventText(n alerts.Notification) string {
	inc, e := n.Incident, n.Event
	at := formatValue(e.Value, inc.Unit)
	by := ""
	if e.By != "" {
		by = " by " + displayActor(e.By)
	}
	switch e.Kind {
	case engine.EventOpened:
		return "Opened at " + at
	case engine.EventEscalated:
		return "Now a page: " + valueAndLimit(inc)
	case engine.EventDeescalated:
		return "Down from page to warning: " + at
	case engine.EventRecovering:
		return "Recovering: " + at
	case engine.EventRefired:
		return "Back before it was resolved: " + at
	case engine.EventReopened:
		return "Back again: " + valueAndLimit(inc)
	case engine.EventResolved:
		return fmt.Sprintf("Resolved after %s: %s", formatDuration(e.At.Sub(inc.Opened)), resolutionText(inc.Resolution))
	case engine.EventFlapping:
		return fmt.Sprintf("It comes and goes: %d times of late. Its ups and downs are summed up from now on", e.Count)
	case engine.EventSteady:
		return "It no longer comes and goes: " + at
	case engine.EventAcked:
		return fmt.Sprintf("Acknowledged%s until %s", by, utcTime(inc.AckUntil))
	case engine.EventAckExpired:
		return "The acknowledgement has expired, and it is not over: " + valueAndLimit(inc)
	case engine.EventReminder:
		return fmt.Sprintf("Still not over after %s: %s", formatDuration(e.At.Sub(inc.Opened)), valueAndLimit(inc))
	case engine.EventUnmuted:
		return "The silence has ended" + by + ": " + currentValue(inc)
	case engine.EventMode:
		return "Mode " + modeName(n.Mode) + ", set" + by + reasonSuffix(e.Text)
	case engine.EventSilenced:
		return "Silenced" + by + reasonSuffix(e.Text)
	case engine.EventNote:
		words, _ := escapeTruncate(e.Text, maxLine-50)
		return words + by
	default:
		return escape(string(e.Kind)) + by
	}
}

func currentValue(inc engine.Incident) string {
	if inc.Open() {
		return valueAndLimit(inc)
	}
	return "it was over at " + utcTime(inc.Ended)
}
