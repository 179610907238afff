package slack

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/slack-go/slack"

	"headgate/alerts"
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

const (
	actionPrefix   = "headgate_"
	buttonSilence  = time.Hour // of the button
	maxButtonValue = 2000
	maxConfirmText = 300
	buttonVersion  = 1
	passThrough    = "passthrough"
)

// buttonValue is what a button carries: what it is about, and how things stood.
type buttonValue struct {
	Version   int    `json:"v"`
	Incident  string `json:"incident"`
	Seq       int    `json:"seq"`
	Pool      string `json:"pool"`
	Rule      string `json:"rule"`
	Mode      string `json:"mode"`
	ModeSince int64  `json:"since"` // milliseconds; 0: not known
}

func newButtonValue(n alerts.Notification) buttonValue {
	v := buttonValue{
		Version: buttonVersion, Incident: n.Incident.ID, Seq: n.Event.Seq, Pool: n.Incident.Key.Pool,
		Rule: n.Incident.Key.Rule, Mode: n.Mode,
	}
	if !n.ModeSince.IsZero() {
		v.ModeSince = n.ModeSince.UnixMilli()
	}
	return v
}

// encode returns nothing if it would not fit: such a button is left out.
func (v buttonValue) encode() string {
	text, err := json.Marshal(v)
	if err != nil || len(text) > maxButtonValue {
		return ""
	}
	return string(text)
}

var errButtonValue = errors.New("the button is not one of this version's")

// parseButtonValue reads what encode has written.
func parseButtonValue(s string) (buttonValue, error) {
	var v buttonValue
	if len(s) > maxButtonValue {
		return v, errButtonValue
	}
	dec := json.NewDecoder(strings.NewReader(s))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&v); err != nil || dec.More() {
		return buttonValue{}, errButtonValue
	}
	if v.Version != buttonVersion || v.Incident == "" || v.Seq < 0 || v.ModeSince < 0 {
		return buttonValue{}, errButtonValue
	}
	return v, nil
}

// command is what a press asks for.
func (v buttonValue) command(a Action) Command {
	w := Command{
		Action: a, Incident: v.Incident, Pool: v.Pool, Rule: v.Rule,
		Observed: &ObservedState{Seq: v.Seq, Mode: v.Mode},
	}
	if v.ModeSince > 0 {
		w.Observed.ModeSince = time.UnixMilli(v.ModeSince).UTC()
	}
	if a == Silence {
		w.Duration = buttonSilence
	}
	return w
}

// buttons are the last row of an incident's message; nil: there are none.
func (r renderer) buttons(n alerts.Notification) *slack.ActionBlock {
	text := newButtonValue(n).encode()
	if !r.withButtons || text == "" {
		return nil
	}
	var all []slack.BlockElement
	add := func(a Action, label string, style slack.Style, confirm *slack.ConfirmationBlockObject) {
		b := slack.NewButtonBlockElement(actionPrefix+string(a), text, plainObject(label)).WithStyle(style)
		b.Confirm = confirm
		all = append(all, b)
	}
	if n.Incident.Open() {
		if n.Incident.AckUntil.IsZero() {
			add(Ack, "Acknowledge", slack.StylePrimary, nil)
		}
		add(Silence, "Silence 1 h", slack.StyleDefault, nil)
		all = append(all, r.runbookButton(n, text))
	}
	switch {
	case n.Incident.Key.Pool == "" || n.Drill:
	case n.Mode == passThrough:
		add(Restore, "Restore", slack.StylePrimary, confirmRestore(n))
	case n.Incident.Open():
		add(Rollback, "Roll back", slack.StyleDanger, confirmRollback(n))
	}
	if len(all) == 0 {
		return nil
	}
	return slack.NewActionBlock("", all...)
}

// runbookButton is a link, or asks for the command that shows what to do.
func (r renderer) runbookButton(n alerts.Notification, text string) *slack.ButtonBlockElement {
	b := slack.NewButtonBlockElement(actionPrefix+string(Runbook), text, plainObject("Runbook"))
	if r.baseURL != "" && n.Incident.Runbook != "" {
		b.URL = r.baseURL + "/runbooks/" + url.PathEscape(truncateMarkup(n.Incident.Runbook, 100))
	}
	return b
}

func confirmRollback(n alerts.Notification) *slack.ConfirmationBlockObject {
	return confirmDialog("Roll back?", fmt.Sprintf("The gate of pool %s is taken out: nothing is refused any more, so waits grow if there is too much work. "+
		"Nothing that runs or waits is lost.%s", plainText(n.Incident.Key.Pool, 63), loadText(n)), "Roll back", slack.StyleDanger)
}

func confirmRestore(n alerts.Notification) *slack.ConfirmationBlockObject {
	return confirmDialog("Restore?", fmt.Sprintf("The gate of pool %s is put back as it was before: work that comes too late is refused again. "+
		"Nothing that runs or waits is lost.%s", plainText(n.Incident.Key.Pool, 63), loadText(n)), "Restore", slack.StylePrimary)
}

// loadText say what was running and queued as of the message.
func loadText(n alerts.Notification) string {
	if !n.LoadKnown {
		return ""
	}
	return fmt.Sprintf(" At %s UTC %d ran and %d waited.", n.Event.At.UTC().Format("15:04:05"), n.Running, n.Queued)
}

func confirmDialog(title, text, yes string, style slack.Style) *slack.ConfirmationBlockObject {
	return slack.NewConfirmationBlockObject(
		plainObject(title), plainObject(plainText(text, maxConfirmText)), plainObject(yes), plainObject("Cancel"),
	).WithStyle(style)
}

func plainObject(s string) *slack.TextBlockObject {
	return slack.NewTextBlockObject(slack.PlainTextType, s, false, false)
}
