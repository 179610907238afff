package slack

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Action is what can be asked for from Slack.
type Action string

// The actions. The first five need a user who is allowed to; the others change
// nothing, and are for everybody of the workspace.
const (
	Rollback Action = "rollback" // take a pool's gate out
	Restore  Action = "restore"  // put it back
	Drill    Action = "drill"    // run a drill
	Ack      Action = "ack"      // take an incident on
	Silence  Action = "silence"  // hear nothing of a rule for a while
	Runbook  Action = "runbook"  // what to do about an incident
	Status   Action = "status"   // how the pools stand
	Help     Action = "help"     // what can be typed
)

// Actions returns all of them, in a fixed order.
func Actions() []Action {
	return []Action{Rollback, Restore, Drill, Ack, Silence, Runbook, Status, Help}
}

// NeedsPermission says whether a user has to be allowed to do it.
func (a Action) NeedsPermission() bool {
	return slices.Contains([]Action{Rollback, Restore, Drill, Ack, Silence}, a)
}

// Command is what somebody in Slack asks for.
type Command struct {
	Action   Action
	Incident string // ID; always there if a button was pressed
	Pool     string // empty: all; for an incident its pool
	Rule     string // for Silence
	Drill    string // for Drill
	Duration time.Duration
	Reason   string
	Actor    string // as Actor returns it
	At       time.Time
	// ObservedState is what the message said whose button was pressed. Nil: it was typed, and
	// counts whatever has happened before.
	Observed *ObservedState
}

// ObservedState is how things stood in a message.
type ObservedState struct {
	Seq       int       // of the incident
	Mode      string    // of the pool; empty: not known
	ModeSince time.Time // when that mode began, to the millisecond
}

// shellCommand is the command that does the same at a machine.
func (w Command) shellCommand() string {
	switch w.Action {
	case Rollback, Restore:
		if w.Pool == "" {
			return "headgate " + string(w.Action)
		}
		return shellCommand(string(w.Action)+" --pool", w.Pool)
	case Ack:
		return shellCommand("incident ack", w.Incident)
	case Silence:
		return shellCommand("incident silence", w.Rule) + " --for " + shortDuration(w.Duration) + " --reason …"
	case Drill:
		return shellCommand("drill run", w.Drill)
	case Runbook:
		return shellCommand("incident show", w.Incident)
	default:
		return "headgate status"
	}
}

// shortDuration writes a length of time as commands take it: 1h, not 1h0m0s.
func shortDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// AllowList says who may do what: the IDs of users for each action. Who is not in a
// list may not, and nobody may what has no list.
type AllowList map[Action][]string

// Validate refuses what is no list of IDs.
func (a AllowList) Validate() error {
	for action, users := range a {
		if !action.NeedsPermission() {
			return fmt.Errorf("%s needs nobody's permission", action)
		}
		for _, id := range users {
			if !userIDPattern.MatchString(id) {
				return fmt.Errorf("%s: %.40q is no ID of a user, such as U0123456789", action, id)
			}
		}
	}
	return nil
}

// denialReason says why a user may not, or nothing.
func (a AllowList) denialReason(user string, w Command) string {
	users := a[w.Action]
	switch {
	case !w.Action.NeedsPermission() || slices.Contains(users, user):
		return ""
	case len(users) == 0:
		return fmt.Sprintf("nobody may do that from Slack: slack.allow.%s in the settings names no user", w.Action)
	default:
		return fmt.Sprintf("you may not do that from Slack: slack.allow.%s in the settings does not name you (%s)", w.Action, user)
	}
}
