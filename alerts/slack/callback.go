package slack

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"unicode/utf8"
)

// callback is a press or a command as Slack tells of it: of Slack for sure, but
// not judged yet.
type callback struct {
	once     string // no two callbacks share it; empty: Slack gave none
	team     string
	userTeam string // empty: not said
	app      string // empty: not said
	channel  string
	user     string
	answer   string // response_url
	retry    string // number and reason, if Slack says that it is one

	button string // action_id; empty: a command
	value  string // of the button
	text   string // of the command
}

const (
	maxText  = 2000 // bytes of a command
	maxShort = 300  // bytes of everything else that is short
	maxURL   = 1000
)

var (
	teamID = regexp.MustCompile(`^[TE][A-Z0-9]{2,20}$`)
	appID  = regexp.MustCompile(`^A[A-Z0-9]{2,20}$`)

	errPayload = errors.New("it is no press of a button")
	errCommand = errors.New("it is no command")
)

// press is block_actions, as far as it matters.
type press struct {
	Type string `json:"type"`
	Team struct {
		ID string `json:"id"`
	} `json:"team"`
	User struct {
		ID     string `json:"id"`
		TeamID string `json:"team_id"`
	} `json:"user"`
	App       string `json:"api_app_id"`
	Trigger   string `json:"trigger_id"`
	Answer    string `json:"response_url"`
	Container struct {
		Channel string `json:"channel_id"`
	} `json:"container"`
	Actions []struct {
		ID    string `json:"action_id"`
		Value string `json:"value"`
	} `json:"actions"`
}

// parsePress reads the payload of a press.
func parsePress(raw []byte) (callback, error) {
	var p press
	if err := json.Unmarshal(raw, &p); err != nil || p.Type != "block_actions" || len(p.Actions) != 1 {
		return callback{}, errPayload
	}
	c := callback{
		once: p.Trigger, team: p.Team.ID, userTeam: p.User.TeamID, app: p.App, channel: p.Container.Channel,
		user: p.User.ID, answer: p.Answer, button: p.Actions[0].ID, value: p.Actions[0].Value,
	}
	if c.button == "" {
		return callback{}, errPayload
	}
	return c, c.check()
}

// parseCommand reads the payload of a command as the socket has it.
func parseCommand(raw []byte) (callback, error) {
	var p map[string]any
	if err := json.Unmarshal(raw, &p); err != nil {
		return callback{}, errCommand
	}
	return commandOf(func(key string) string {
		s, _ := p[key].(string)
		return s
	})
}

// parseForm reads the body of a command as request URLs get it.
func parseForm(form url.Values) (callback, error) { return commandOf(form.Get) }

func commandOf(get func(string) string) (callback, error) {
	if get("command") == "" {
		return callback{}, errCommand
	}
	c := callback{
		once: get("trigger_id"), team: get("team_id"), app: get("api_app_id"), channel: get("channel_id"),
		user: get("user_id"), answer: get("response_url"), text: get("text"),
	}
	return c, c.check()
}

// check refuses what Slack would not send.
func (c callback) check() error {
	switch {
	case !userID.MatchString(c.user):
		return errors.New("it does not say who it is from")
	case !teamID.MatchString(c.team) || c.userTeam != "" && !teamID.MatchString(c.userTeam):
		return errors.New("it does not say which workspace it is from")
	case c.channel != "" && !channelID.MatchString(c.channel), c.app != "" && !appID.MatchString(c.app):
		return errors.New("its channel or app is none")
	case len(c.once) > maxShort || len(c.button) > maxShort || len(c.value) > maxValue || len(c.text) > maxText || len(c.answer) > maxURL:
		return errors.New("it is too long")
	case !utf8.ValidString(c.text + c.value + c.once):
		return errors.New("it is not UTF-8")
	}
	return nil
}

// wish is what a callback asks for.
func (c callback) wish() (Wish, error) {
	if c.button == "" {
		return parseLine(c.text)
	}
	name, ours := strings.CutPrefix(c.button, actionPrefix)
	a := Action(name)
	if !ours || !a.pressable() {
		return Wish{Action: Help}, fmt.Errorf("%w: %.40q", errValue, c.button)
	}
	v, err := parseValue(c.value)
	if err != nil {
		return Wish{Action: a}, err
	}
	return v.wish(a), nil
}

// pressable says whether there is a button for it.
func (a Action) pressable() bool {
	switch a {
	case Rollback, Restore, Ack, Silence, Runbook:
		return true
	default:
		return false
	}
}
