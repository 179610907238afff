package slack

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/slack-go/slack"

	"headgate/alerts"
)

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
