package slack

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

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
