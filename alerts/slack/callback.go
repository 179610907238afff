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
	dedupKey    string // no two callbacks share it; empty: Slack gave none
	team        string
	userTeam    string // empty: not said
	app         string // empty: not said
	channel     string
	user        string
	responseURL string // response_url
	retry       string // number and reason, if Slack says that it is one

	actionID    string // action_id; empty: a command
	buttonValue string // of the button
	commandText string // of the command
}

const (
	maxCommandText = 2000 // bytes of a command
	maxShortValue  = 300  // bytes of everything else that is short
	maxURL         = 1000
)

var (
	teamIDPattern = regexp.MustCompile(`^[TE][A-Z0-9]{2,20}$`)
	appIDPattern  = regexp.MustCompile(`^A[A-Z0-9]{2,20}$`)

	errNotBlockActions = errors.New("it is no press of a button")
	errNotSlashCommand = errors.New("it is no command")
)

// blockActions is block_actions, as far as it matters.
type blockActions struct {
	Type string `json:"type"`
	Team struct {
		ID string `json:"id"`
	} `json:"team"`
	User struct {
		ID     string `json:"id"`
		TeamID string `json:"team_id"`
	} `json:"user"`
	AppID       string `json:"api_app_id"`
	TriggerID   string `json:"trigger_id"`
	ResponseURL string `json:"response_url"`
	Container   struct {
		Channel string `json:"channel_id"`
	} `json:"container"`
	Actions []struct {
		ID    string `json:"action_id"`
		Value string `json:"value"`
	} `json:"actions"`
}

// parseBlockActions reads the payload of a press.
func parseBlockActions(raw []byte) (callback, error) {
	var p blockActions
	if err := json.Unmarshal(raw, &p); err != nil || p.Type != "block_actions" || len(p.Actions) != 1 {
		return callback{}, errNotBlockActions
	}
	c := callback{
		dedupKey: p.TriggerID, team: p.Team.ID, userTeam: p.User.TeamID, app: p.AppID, channel: p.Container.Channel,
		user: p.User.ID, responseURL: p.ResponseURL, actionID: p.Actions[0].ID, buttonValue: p.Actions[0].Value,
	}
	if c.actionID == "" {
		return callback{}, errNotBlockActions
	}
	return c, c.validate()
}

// parseSlashJSON reads the payload of a command as the socket has it.
func parseSlashJSON(raw []byte) (callback, error) {
	var p map[string]any
	if err := json.Unmarshal(raw, &p); err != nil {
		return callback{}, errNotSlashCommand
	}
	return slashCallback(func(key string) string {
		s, _ := p[key].(string)
		return s
	})
}

// parseSlashForm reads the body of a command as request URLs get it.
func parseSlashForm(form url.Values) (callback, error) { return slashCallback(form.Get) }

func slashCallback(get func(string) string) (callback, error) {
	if get("command") == "" {
		return callback{}, errNotSlashCommand
	}
	c := callback{
		dedupKey: get("trigger_id"), team: get("team_id"), app: get("api_app_id"), channel: get("channel_id"),
		user: get("user_id"), responseURL: get("response_url"), commandText: get("text"),
	}
	return c, c.validate()
}

// validate refuses what Slack would not send.
func (c callback) validate() error {
	switch {
	case !userIDPattern.MatchString(c.user):
		return errors.New("it does not say who it is from")
	case !teamIDPattern.MatchString(c.team) || c.userTeam != "" && !teamIDPattern.MatchString(c.userTeam):
		return errors.New("it does not say which workspace it is from")
	case c.channel != "" && !channelIDPattern.MatchString(c.channel), c.app != "" && !appIDPattern.MatchString(c.app):
		return errors.New("its channel or app is none")
	case len(c.dedupKey) > maxShortValue || len(c.actionID) > maxShortValue || len(c.buttonValue) > maxButtonValue || len(c.commandText) > maxCommandText || len(c.responseURL) > maxURL:
		return errors.New("it is too long")
	case !utf8.ValidString(c.commandText + c.buttonValue + c.dedupKey):
		return errors.New("it is not UTF-8")
	}
	return nil
}

// command is what a callback asks for.
func (c callback) command() (Command, error) {
	if c.actionID == "" {
		return parseCommandText(c.commandText)
	}
	name, ours := strings.CutPrefix(c.actionID, actionPrefix)
	a := Action(name)
	if !ours || !a.hasButton() {
		return Command{Action: Help}, fmt.Errorf("%w: %.40q", errButtonValue, c.actionID)
	}
	v, err := parseButtonValue(c.buttonValue)
	if err != nil {
		return Command{Action: a}, err
	}
	return v.command(a), nil
}

// hasButton says whether there is a button for it.
func (a Action) hasButton() bool {
	switch a {
	case Rollback, Restore, Ack, Silence, Runbook:
		return true
	default:
		return false
	}
}
