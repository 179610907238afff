package slack

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"headgate/internal/format"
)

// Action is an action that can be requested from Slack.
type Action string

// The actions. The first five need permission; the others change nothing and are open to the whole workspace.
const (
	Rollback Action = "rollback" // disable admission control of a pool
	Restore  Action = "restore"  // re-enable it
	Drill    Action = "drill"    // run a drill
	Ack      Action = "ack"      // acknowledge an incident
	Silence  Action = "silence"  // silence a rule
	Runbook  Action = "runbook"  // show the runbook of an incident
	Status   Action = "status"   // show pools and open incidents
	Help     Action = "help"     // show Usage
)

// Actions returns all of them, in a fixed order.
func Actions() []Action {
	return []Action{Rollback, Restore, Drill, Ack, Silence, Runbook, Status, Help}
}

// NeedsPermission says whether the user has to be in the action's allow list.
func (a Action) NeedsPermission() bool {
	return slices.Contains([]Action{Rollback, Restore, Drill, Ack, Silence}, a)
}

// Command is a request of a Slack user.
type Command struct {
	Action   Action
	Incident string // ID; always set for a button press
	Pool     string // empty: all; for an incident its pool
	Rule     string // for Silence
	Drill    string // for Drill
	Duration time.Duration
	Reason   string
	Actor    string // as Actor returns it
	At       time.Time
	// Observed is the state that the message of a pressed button showed. Nil: the command was typed, and applies to any
	// state.
	Observed *ObservedState
}

// ObservedState is the state that a message showed.
type ObservedState struct {
	Seq       int       // of the incident
	Mode      string    // of the pool; empty: not known
	ModeSince time.Time // start of that mode, to the millisecond
}

// Result is the result of a Command.
type Result string

// The results.
const (
	Done    Result = "done"
	Refused Result = "refused" // not allowed, outdated or unknown: nothing was changed
	Failed  Result = "failed"
)

// Response is shown to the user only.
type Response struct {
	Result Result
	// Text is plain, of one line or several. A name as Actor returns it is shown as Slack shows people. Empty: nothing
	// is shown.
	Text string
}

// AuditEntry records a button press or a command: done, refused, failed or forged.
type AuditEntry struct {
	Forged   bool   // not from Slack, or not for the first time
	Action   Action // empty: not understood
	Result   Result
	Incident string
	Pool     string
	Actor    string // as Actor returns it; empty: not known
	Reason   string
	Inputs   map[string]string // holds no secret
}

// Executor executes commands and keeps the audit log. Its methods are called from several goroutines at once.
type Executor interface {
	// Execute carries out a command if it still fits the present state. It may take longer than Slack waits.
	Execute(context.Context, Command) Response
	// AppendAudit keeps an entry. It does not block: Slack waits for an answer.
	AppendAudit(context.Context, AuditEntry)
}

// shellCommand is the CLI equivalent.
func (c Command) shellCommand() string {
	switch c.Action {
	case Rollback, Restore:
		if c.Pool == "" {
			return "headgate " + string(c.Action)
		}
		return shellCommand(string(c.Action)+" --pool", c.Pool)
	case Ack:
		return shellCommand("incident ack", c.Incident)
	case Silence:
		return shellCommand("incident silence", c.Rule) + " --for " + format.Duration(c.Duration) + " --reason …"
	case Drill:
		return shellCommand("drill run", c.Drill)
	case Runbook:
		return shellCommand("incident show", c.Incident)
	default:
		return "headgate status"
	}
}

// AllowList holds the IDs of the users who may request each action. An action without a list is denied to everybody.
type AllowList map[Action][]string

// Validate rejects what is not a list of user IDs.
func (a AllowList) Validate() error {
	for action, users := range a {
		if !action.NeedsPermission() {
			return fmt.Errorf("%s needs no permission", action)
		}
		for _, id := range users {
			if !userIDPattern.MatchString(id) {
				return fmt.Errorf("%s: %.40q is not the ID of a user, such as U0123456789", action, id)
			}
		}
	}
	return nil
}

// denialReason returns why a user may not request an action; empty: allowed.
func (a AllowList) denialReason(user string, action Action) string {
	users := a[action]
	switch {
	case !action.NeedsPermission() || slices.Contains(users, user):
		return ""
	case len(users) == 0:
		return fmt.Sprintf("this action is disabled in Slack: slack.allow.%s in the settings is empty", action)
	default:
		return fmt.Sprintf("you are not allowed to do this from Slack: slack.allow.%s in the settings does not list you (%s)",
			action, user)
	}
}

// Usage lists what /headgate accepts.
const Usage = `/headgate status
/headgate rollback [POOL|all [REASON]]
/headgate restore [POOL|all [REASON]]
/headgate ack INCIDENT
/headgate silence RULE 1h [REASON]
/headgate drill run NAME`

// AllPools stands for every pool.
const AllPools = "all"

// parseCommandText reads the text after /headgate. Its error says what is expected; the command beside it holds what
// was understood.
func parseCommandText(text string) (Command, error) {
	words := strings.Fields(unescape.Replace(text)) // Slack escapes it
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
		// A reason alone is not accepted: a mistyped pool would be taken for one, and all pools would be meant.
		c := Command{Action: Action(verb)}
		if len(rest) > 0 {
			c.Pool, c.Reason = rest[0], strings.Join(rest[1:], " ")
		}
		if strings.EqualFold(c.Pool, AllPools) {
			c.Pool = ""
		}
		return c, nil
	case "ack":
		if len(rest) == 0 {
			return Command{Action: Ack}, errors.New("which incident? Its ID is at the end of its message")
		}
		return Command{Action: Ack, Incident: rest[0]}, rejectExtra(rest, 1)
	case "silence":
		return parseSilence(rest)
	case "drill":
		if len(rest) < 2 || !strings.EqualFold(rest[0], "run") {
			return Command{Action: Drill}, errors.New("the drill command is /headgate drill run NAME")
		}
		return Command{Action: Drill, Drill: rest[1]}, rejectExtra(rest, 2)
	default:
		return Command{Action: Help}, fmt.Errorf("unknown command %.40q", verb)
	}
}

func rejectExtra(words []string, n int) error {
	if len(words) > n {
		return fmt.Errorf("unexpected argument %.40q", words[n])
	}
	return nil
}

func parseSilence(rest []string) (Command, error) {
	c := Command{Action: Silence}
	if len(rest) == 0 {
		return c, errors.New("which rule? Its name is at the end of an incident's message")
	}
	c.Rule = rest[0]
	if len(rest) == 1 {
		return c, errors.New("for how long? For example 1h")
	}
	length, err := time.ParseDuration(rest[1])
	if err != nil || length <= 0 {
		return c, fmt.Errorf("%.40q is not a duration such as 30m or 1h", rest[1])
	}
	c.Duration, c.Reason = length, strings.Join(rest[2:], " ")
	return c, nil
}
