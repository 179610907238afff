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

// Guarded says whether a user has to be allowed to do it.
func (a Action) Guarded() bool {
	return slices.Contains([]Action{Rollback, Restore, Drill, Ack, Silence}, a)
}

// Wish is what somebody in Slack asks for.
type Wish struct {
	Action   Action
	Incident string // ID; always there if a button was pressed
	Pool     string // empty: all; for an incident its pool
	Rule     string // for Silence
	Drill    string // for Drill
	For      time.Duration
	Reason   string
	Actor    string // as Actor returns it
	At       time.Time
	// Seen is what the message said whose button was pressed. Nil: it was typed, and
	// counts whatever has happened before.
	Seen *Seen
}

// Seen is how things stood in a message.
type Seen struct {
	Seq   int       // of the incident
	Mode  string    // of the pool; empty: not known
	Since time.Time // when that mode began, to the millisecond
}

// typed is the command that does the same at a machine.
func (w Wish) typed() string {
	switch w.Action {
	case Rollback, Restore:
		if w.Pool == "" {
			return "headgate " + string(w.Action)
		}
		return bare(string(w.Action)+" --pool", w.Pool)
	case Ack:
		return bare("incident ack", w.Incident)
	case Silence:
		return bare("incident silence", w.Rule) + " --for " + short(w.For) + " --reason …"
	case Drill:
		return bare("drill run", w.Drill)
	case Runbook:
		return bare("incident show", w.Incident)
	default:
		return "headgate status"
	}
}

// short writes a length of time as commands take it: 1h, not 1h0m0s.
func short(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// Allow says who may do what: the IDs of users for each action. Who is not in a
// list may not, and nobody may what has no list.
type Allow map[Action][]string

// Check refuses what is no list of IDs.
func (a Allow) Check() error {
	for action, users := range a {
		if !action.Guarded() {
			return fmt.Errorf("%s needs nobody's permission", action)
		}
		for _, id := range users {
			if !userID.MatchString(id) {
				return fmt.Errorf("%s: %.40q is no ID of a user, such as U0123456789", action, id)
			}
		}
	}
	return nil
}

// refuse says why a user may not, or nothing.
func (a Allow) refuse(user string, w Wish) string {
	users := a[w.Action]
	switch {
	case !w.Action.Guarded() || slices.Contains(users, user):
		return ""
	case len(users) == 0:
		return fmt.Sprintf("nobody may do that from Slack: slack.allow.%s in the settings names no user", w.Action)
	default:
		return fmt.Sprintf("you may not do that from Slack: slack.allow.%s in the settings does not name you (%s)", w.Action, user)
	}
}
