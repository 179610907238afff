package slack

import (
	"context"
	"errors"
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

// Result is what became of a wish.
type Result string

// The endings.
const (
	Done    Result = "done"
	Refused Result = "refused" // not allowed, too late, or no such thing: nothing was done
	Failed  Result = "failed"
)

// Response is what somebody is told who asked for something.
type Response struct {
	Result Result
	// Text is plain, of one line or several; a name as Actor returns it is shown as
	// Slack shows people.
	Text string
}

// AuditEntry is what is kept of a press or a command: done, refused, failed or forged.
type AuditEntry struct {
	Forged   bool   // it did not come from Slack, or not for the first time
	Action   Action // empty: none that was understood
	Result   Result
	Incident string
	Pool     string
	Actor    string // as Actor returns it; empty: not known
	Reason   string
	Inputs   map[string]string // no secret is among them
}

// Executor is who carries wishes out and keeps what became of them. Its methods are
// called from several goroutines at once.
type Executor interface {
	// Do carries a wish out, if it still fits how things stand. That may take
	// longer than Slack waits.
	Execute(context.Context, Command) Response
	// Note keeps an entry. It does not block: Slack waits for an answer.
	AppendAudit(context.Context, AuditEntry)
}

// Usage is what /headgate takes.
const Usage = `/headgate status
/headgate rollback [POOL|all [REASON]]
/headgate restore [POOL|all [REASON]]
/headgate ack INCIDENT
/headgate silence RULE 1h [REASON]
/headgate drill run NAME`

// AllPools is what stands for every pool where a pool is named.
const AllPools = "all"

// parseCommandText reads what follows /headgate. An error says what would be right; the
// wish beside it says as much as was understood.
func parseCommandText(text string) (Command, error) {
	words := strings.Fields(strings.NewReplacer("&lt;", "<", "&gt;", ">", "&amp;", "&").Replace(text)) // as Slack sends them
	if len(words) == 0 {
		return Command{Action: Help}, nil
	}
	rest := words[1:]
	switch verb := strings.ToLower(words[0]); verb {
	case "help":
		return Command{Action: Help}, nil
	case "status":
		return Command{Action: Status}, rejectExtra(rest, 0)
	case "rollback", "restore":
		return poolCommand(Action(verb), rest), nil
	case "ack":
		w := Command{Action: Ack}
		if len(rest) == 0 {
			return w, errors.New("which incident? Its ID stands at the end of its message")
		}
		w.Incident = rest[0]
		return w, rejectExtra(rest, 1)
	case "silence":
		return silenceCommand(rest)
	case "drill":
		if len(rest) < 2 || !strings.EqualFold(rest[0], "run") {
			return Command{Action: Drill}, errors.New("from here drills can be run: /headgate drill run NAME")
		}
		return Command{Action: Drill, Drill: rest[1]}, rejectExtra(rest, 2)
	default:
		return Command{Action: Help}, fmt.Errorf("%.40q is not known", verb)
	}
}

func rejectExtra(words []string, n int) error {
	if len(words) > n {
		return fmt.Errorf("%.40q is too much", words[n])
	}
	return nil
}

// poolCommand takes a pool, or all of them, and a reason. A reason alone is not taken:
// a pool with a typing error would be one, and mean them all.
func poolCommand(a Action, rest []string) Command {
	w := Command{Action: a}
	if len(rest) == 0 {
		return w
	}
	if !strings.EqualFold(rest[0], AllPools) {
		w.Pool = rest[0]
	}
	w.Reason = strings.Join(rest[1:], " ")
	return w
}

func silenceCommand(rest []string) (Command, error) {
	w := Command{Action: Silence}
	if len(rest) == 0 {
		return w, errors.New("which rule? Its name stands at the end of an incident's message")
	}
	w.Rule = rest[0]
	if len(rest) == 1 {
		return w, errors.New("for how long? For example 1h")
	}
	length, err := time.ParseDuration(rest[1])
	if err != nil || length <= 0 {
		return w, fmt.Errorf("%.40q is no length of time such as 30m or 1h", rest[1])
	}
	w.Duration, w.Reason = length, strings.Join(rest[2:], " ")
	return w, nil
}
