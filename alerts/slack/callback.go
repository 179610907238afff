package slack

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/slack-go/slack"
	"github.com/tidwall/gjson"

	"headgate/alerts"
)

const (
	actionPrefix   = "headgate_" // of the action_id of our buttons
	buttonSilence  = time.Hour   // silence of a button press
	buttonVersion  = 1
	maxButtonValue = 2000 // bytes
	maxCommandText = 2000 // bytes
	maxShortValue  = 300  // bytes of everything else that is short
	maxURL         = 1000 // bytes
	maxConfirmText = 300  // characters
	passThrough    = "passthrough"
)

var (
	teamIDPattern = regexp.MustCompile(`^[TE][A-Z0-9]{2,20}$`)
	appIDPattern  = regexp.MustCompile(`^A[A-Z0-9]{2,20}$`)

	errNotBlockActions = errors.New("not a button press")
	errNotSlashCommand = errors.New("not a slash command")
	errButtonValue     = errors.New("the button is not one of this version's")
)

// callback is a button press or a slash command from Slack, before its origin and the user's permission are checked.
type callback struct {
	dedupKey    string // unique; empty: Slack gave none
	team        string
	userTeam    string // empty: not given
	app         string // empty: not given
	channel     string
	user        string
	responseURL string
	retry       string // number and reason, if Slack says that it is a retry

	actionID    string // empty: a slash command
	buttonValue string
	commandText string
}

func parseBlockActions(raw []byte) (callback, error) {
	get := func(path string) string { return gjson.GetBytes(raw, path).Str }
	single := gjson.GetBytes(raw, "actions.#").Int() == 1
	if !gjson.ValidBytes(raw) || get("type") != "block_actions" || !single || get("actions.0.action_id") == "" {
		return callback{}, errNotBlockActions
	}
	c := callback{
		dedupKey: get("trigger_id"), team: get("team.id"), userTeam: get("user.team_id"), app: get("api_app_id"),
		channel: get("container.channel_id"), user: get("user.id"), responseURL: get("response_url"),
		actionID: get("actions.0.action_id"), buttonValue: get("actions.0.value"),
	}
	return c, c.validate()
}

// parseSlashJSON reads a slash command as Socket Mode sends it.
func parseSlashJSON(raw []byte) (callback, error) {
	if !gjson.ValidBytes(raw) {
		return callback{}, errNotSlashCommand
	}
	return slashCallback(func(key string) string { return gjson.GetBytes(raw, key).Str })
}

// parseSlashForm reads a slash command as request URLs receive it.
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

// validate rejects what Slack would not send.
func (c callback) validate() error {
	short := max(len(c.dedupKey), len(c.actionID))
	switch {
	case !userIDPattern.MatchString(c.user):
		return errors.New("it names no user")
	case !teamIDPattern.MatchString(c.team) || c.userTeam != "" && !teamIDPattern.MatchString(c.userTeam):
		return errors.New("it names no workspace")
	case c.channel != "" && !channelIDPattern.MatchString(c.channel), c.app != "" && !appIDPattern.MatchString(c.app):
		return errors.New("its channel or app is invalid")
	case short > maxShortValue, len(c.buttonValue) > maxButtonValue, len(c.commandText) > maxCommandText,
		len(c.responseURL) > maxURL:
		return errors.New("it is too long")
	case !utf8.ValidString(c.commandText + c.buttonValue + c.dedupKey):
		return errors.New("it is not UTF-8")
	}
	return nil
}

// command returns the command that a callback requests.
func (c callback) command() (Command, error) {
	if c.actionID == "" {
		return parseCommandText(c.commandText)
	}
	name, ours := strings.CutPrefix(c.actionID, actionPrefix)
	a := Action(name)
	if !ours || !hasButton(a) {
		return Command{Action: Help}, fmt.Errorf("%w: %.40q", errButtonValue, c.actionID)
	}
	v, err := parseButtonValue(c.buttonValue)
	if err != nil {
		return Command{Action: a}, err
	}
	return v.command(a), nil
}

func hasButton(a Action) bool {
	return slices.Contains([]Action{Rollback, Restore, Ack, Silence, Runbook}, a)
}

// buttonValue is what a button carries: its subject, and the state that the message showed.
type buttonValue struct {
	Version   int    `json:"v"`
	Incident  string `json:"incident"`
	Seq       int    `json:"seq"`
	Pool      string `json:"pool"`
	Rule      string `json:"rule"`
	Mode      string `json:"mode"`
	ModeSince int64  `json:"since"` // Unix milliseconds; 0: not known
}

// encodeButtonValue returns nothing if the value would not fit: such a button is left out.
func encodeButtonValue(n alerts.Notification) string {
	v := buttonValue{
		Version: buttonVersion, Incident: n.Incident.ID, Seq: n.Event.Seq, Pool: n.Incident.Key.Pool,
		Rule: n.Incident.Key.Rule, Mode: n.Mode,
	}
	if !n.ModeSince.IsZero() {
		v.ModeSince = n.ModeSince.UnixMilli()
	}
	text, err := json.Marshal(v)
	if err != nil || len(text) > maxButtonValue {
		return ""
	}
	return string(text)
}

func parseButtonValue(s string) (buttonValue, error) {
	var v buttonValue
	if len(s) > maxButtonValue {
		return v, errButtonValue
	}
	dec := json.NewDecoder(strings.NewReader(s))
	dec.DisallowUnknownFields()
	err := dec.Decode(&v)
	if err != nil || dec.More() || v.Version != buttonVersion || v.Incident == "" || v.Seq < 0 || v.ModeSince < 0 {
		return buttonValue{}, errButtonValue
	}
	return v, nil
}

// command returns the command that the button requests.
func (v buttonValue) command(a Action) Command {
	c := Command{
		Action: a, Incident: v.Incident, Pool: v.Pool, Rule: v.Rule,
		Observed: &ObservedState{Seq: v.Seq, Mode: v.Mode},
	}
	if v.ModeSince > 0 {
		c.Observed.ModeSince = time.UnixMilli(v.ModeSince).UTC()
	}
	if a == Silence {
		c.Duration = buttonSilence
	}
	return c
}

// buttons are the last row of an incident's message; nil: none.
func (r renderer) buttons(n alerts.Notification) *slack.ActionBlock {
	value, inc := encodeButtonValue(n), n.Incident
	if !r.withButtons || value == "" {
		return nil
	}
	var all []slack.BlockElement
	add := func(a Action, label string, style slack.Style, confirm *slack.ConfirmationBlockObject) *slack.ButtonBlockElement {
		b := slack.NewButtonBlockElement(actionPrefix+string(a), value, plainObject(label)).WithStyle(style)
		b.Confirm = confirm
		all = append(all, b)
		return b
	}
	if inc.Open() {
		if inc.AckUntil.IsZero() {
			add(Ack, "Acknowledge", slack.StylePrimary, nil)
		}
		add(Silence, "Silence 1 h", slack.StyleDefault, nil)
		runbook := add(Runbook, "Runbook", slack.StyleDefault, nil)
		if r.baseURL != "" && inc.Runbook != "" {
			runbook.URL = r.runbookURL(inc)
		}
	}
	switch {
	case inc.Key.Pool == "" || n.Drill:
	case n.Mode == passThrough:
		add(Restore, "Restore", slack.StylePrimary, confirmDialog(n, "Restore", slack.StylePrimary,
			"Admission control of pool %s is re-enabled: requests that would wait too long are rejected again."))
	case inc.Open():
		add(Rollback, "Roll back", slack.StyleDanger, confirmDialog(n, "Roll back", slack.StyleDanger,
			"Admission control of pool %s is disabled: nothing is rejected any more, so waits grow under overload."))
	}
	if len(all) == 0 {
		return nil
	}
	return slack.NewActionBlock("", all...)
}

// confirmDialog asks before a mode changes. It shows the load as of the message.
func confirmDialog(n alerts.Notification, action string, style slack.Style, effect string) *slack.ConfirmationBlockObject {
	text := fmt.Sprintf(effect+" Running and waiting tasks are kept.", plainText(n.Incident.Key.Pool, 63))
	if n.LoadKnown {
		text += fmt.Sprintf(" At %s UTC %d were running and %d waiting.", n.Event.At.UTC().Format("15:04:05"), n.Running, n.Queued)
	}
	return slack.NewConfirmationBlockObject(
		plainObject(action+"?"), plainObject(plainText(text, maxConfirmText)), plainObject(action), plainObject("Cancel"),
	).WithStyle(style)
}

func plainObject(s string) *slack.TextBlockObject {
	return slack.NewTextBlockObject(slack.PlainTextType, s, false, false)
}
