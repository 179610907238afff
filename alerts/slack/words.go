package slack

import (
	"fmt"
	"regexp"
	"strings"

	"headgate/alerts"
	"headgate/engine"
)

// title says how bad it is, in one or two words.
func title(n alerts.Note) string {
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
	return prefix(n) + t
}

func prefix(n alerts.Note) string {
	if n.Drill {
		return "DRILL · "
	}
	return ""
}

// mark is the colour that stands before the title.
func mark(n alerts.Note) string {
	switch {
	case !n.Incident.Open():
		return "🟢"
	case n.Incident.Level == engine.LevelPage:
		return "🔴"
	default:
		return "🟠"
	}
}

func ofPool(pool string) string {
	if pool == "" {
		return ""
	}
	return " (pool " + pool + ")"
}

// against sets the value against its threshold.
func against(inc engine.Incident) string {
	return fmt.Sprintf("%s, limit %s", amount(inc.Value, inc.Unit), amount(inc.Threshold, inc.Unit))
}

// story tells in a sentence how it stands.
func story(inc engine.Incident) string {
	if inc.Open() {
		form := "It is at %s; the limit is %s."
		if inc.Value < inc.Threshold {
			form = "It is at %s, below the limit of %s; it is over once it has stayed well below."
		}
		s := fmt.Sprintf(form, amount(inc.Value, inc.Unit), amount(inc.Threshold, inc.Unit))
		if inc.Reopened > 0 {
			s += fmt.Sprintf(" It came back %s.", times(inc.Reopened))
		}
		return s
	}
	return fmt.Sprintf("It fired at %s and was over at %s, after %s: %s.", when(inc.Opened), when(inc.Ended), span(lasted(inc)), why(inc.Why))
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

func why(r engine.Resolution) string {
	switch r {
	case engine.Recovered:
		return "the value went back below the limit"
	case engine.NoTraffic:
		return "no traffic, so nothing can be said"
	case engine.RuleDeleted:
		return "its rule or pool is gone from the settings"
	default:
		return esc(string(r))
	}
}

// because adds what somebody wrote.
func because(reason string) string {
	if reason == "" {
		return ""
	}
	words, _ := clip(reason, maxLine-150)
	return ": " + words
}

// Actor names a Slack user where people are named, in incidents and the audit.
func Actor(user string) string { return actorPrefix + user }

const actorPrefix = "slack:"

// who shows a name. Somebody of Slack is shown as Slack shows people.
func who(by string) string {
	if id, ok := strings.CutPrefix(by, actorPrefix); ok && userID.MatchString(id) {
		return "<@" + id + ">"
	}
	return esc(by)
}

var userID = regexp.MustCompile(`^[UW][A-Z0-9]{2,20}$`)

// modeName names a mode.
func modeName(mode string) string {
	if mode == "" {
		return "not known"
	}
	return esc(mode)
}

// mode says what the pool's gate does.
func mode(n alerts.Note) string {
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
		s += "\nsince " + when(n.ModeSince)
	}
	return s
}

// rollback gives the command that takes the gate out, or puts it back.
func rollback(n alerts.Note) string {
	pool := n.Incident.Key.Pool
	if n.Mode == passThrough {
		return "Done. To put the gate back: " + command("restore --pool", pool)
	}
	return command("rollback --pool", pool)
}

// command is one to be copied into a shell; an argument that a shell could take
// for more than a word is quoted.
func command(verb, arg string) string { return code(bare(verb, arg)) }

// bare is a command without markup.
func bare(verb, arg string) string {
	if !word.MatchString(arg) {
		arg = "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
	}
	return "headgate " + verb + " " + arg
}

var word = regexp.MustCompile(`^[A-Za-z0-9_.:/@-]+$`)

// state says who is on it, and how to say so.
func state(n alerts.Note) string {
	s := attention(n.Incident)
	if n.Event.Kind == engine.EventSilenced {
		s += "\n" + step(n)
	}
	return s
}

func attention(inc engine.Incident) string {
	switch {
	case !inc.Open():
		return "Resolved at " + when(inc.Ended)
	case !inc.AckUntil.IsZero():
		return fmt.Sprintf("Acknowledged by %s until %s", who(inc.AckedBy), when(inc.AckUntil))
	default:
		return "Nobody has acknowledged it: " + command("incident ack", inc.ID)
	}
}

// step tells one event.
func step(n alerts.Note) string {
	inc, e := n.Incident, n.Event
	at := amount(e.Value, inc.Unit)
	by := ""
	if e.By != "" {
		by = " by " + who(e.By)
	}
	switch e.Kind {
	case engine.EventOpened:
		return "Opened at " + at
	case engine.EventEscalated:
		return "Now a page: " + against(inc)
	case engine.EventDeescalated:
		return "Down from page to warning: " + at
	case engine.EventRecovering:
		return "Recovering: " + at
	case engine.EventRefired:
		return "Back before it was resolved: " + at
	case engine.EventReopened:
		return "Back again: " + against(inc)
	case engine.EventResolved:
		return fmt.Sprintf("Resolved after %s: %s", span(e.At.Sub(inc.Opened)), why(inc.Why))
	case engine.EventFlapping:
		return fmt.Sprintf("It comes and goes: %d times of late. Its ups and downs are summed up from now on", e.Count)
	case engine.EventSteady:
		return "It no longer comes and goes: " + at
	case engine.EventAcked:
		return fmt.Sprintf("Acknowledged%s until %s", by, clock(inc.AckUntil))
	case engine.EventAckExpired:
		return "The acknowledgement has expired, and it is not over: " + against(inc)
	case engine.EventReminder:
		return fmt.Sprintf("Still not over after %s: %s", span(e.At.Sub(inc.Opened)), against(inc))
	case engine.EventUnmuted:
		return "The silence has ended" + by + ": " + now(inc)
	case engine.EventMode:
		return "Mode " + modeName(n.Mode) + ", set" + by + because(e.Words)
	case engine.EventSilenced:
		return "Silenced" + by + because(e.Words)
	case engine.EventNoted:
		words, _ := clip(e.Words, maxLine-50)
		return words + by
	default:
		return esc(string(e.Kind)) + by
	}
}

func now(inc engine.Incident) string {
	if inc.Open() {
		return against(inc)
	}
	return "it was over at " + clock(inc.Ended)
}
