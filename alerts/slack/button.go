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
	actionPrefix = "headgate_"
	silenceFor   = time.Hour // of the button
	maxValue     = 2000
	maxConfirm   = 300
	valueVersion = 1
	passThrough  = "passthrough"
)

// value is what a button carries: what it is about, and how things stood.
type value struct {
	Version  int    `json:"v"`
	Incident string `json:"incident"`
	Seq      int    `json:"seq"`
	Pool     string `json:"pool"`
	Rule     string `json:"rule"`
	Mode     string `json:"mode"`
	Since    int64  `json:"since"` // milliseconds; 0: not known
}

func valueOf(n alerts.Note) value {
	v := value{
		Version: valueVersion, Incident: n.Incident.ID, Seq: n.Event.Seq, Pool: n.Incident.Key.Pool,
		Rule: n.Incident.Key.Rule, Mode: n.Mode,
	}
	if !n.ModeSince.IsZero() {
		v.Since = n.ModeSince.UnixMilli()
	}
	return v
}

// encode returns nothing if it would not fit: such a button is left out.
func (v value) encode() string {
	text, err := json.Marshal(v)
	if err != nil || len(text) > maxValue {
		return ""
	}
	return string(text)
}

var errValue = errors.New("the button is not one of this version's")

// parseValue reads what encode has written.
func parseValue(s string) (value, error) {
	var v value
	if len(s) > maxValue {
		return v, errValue
	}
	dec := json.NewDecoder(strings.NewReader(s))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&v); err != nil || dec.More() {
		return value{}, errValue
	}
	if v.Version != valueVersion || v.Incident == "" || v.Seq < 0 || v.Since < 0 {
		return value{}, errValue
	}
	return v, nil
}

// wish is what a press asks for.
func (v value) wish(a Action) Wish {
	w := Wish{
		Action: a, Incident: v.Incident, Pool: v.Pool, Rule: v.Rule,
		Seen: &Seen{Seq: v.Seq, Mode: v.Mode},
	}
	if v.Since > 0 {
		w.Seen.Since = time.UnixMilli(v.Since).UTC()
	}
	if a == Silence {
		w.For = silenceFor
	}
	return w
}

// buttons are the last row of an incident's message; nil: there are none.
func (r renderer) buttons(n alerts.Note) *slack.ActionBlock {
	text := valueOf(n).encode()
	if !r.pressable || text == "" {
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
		all = append(all, r.runbook(n, text))
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

// runbook is a link, or asks for the command that shows what to do.
func (r renderer) runbook(n alerts.Note, text string) *slack.ButtonBlockElement {
	b := slack.NewButtonBlockElement(actionPrefix+string(Runbook), text, plainObject("Runbook"))
	if r.base != "" && n.Incident.Runbook != "" {
		b.URL = r.base + "/runbooks/" + url.PathEscape(cutMarkup(n.Incident.Runbook, 100))
	}
	return b
}

func confirmRollback(n alerts.Note) *slack.ConfirmationBlockObject {
	return confirmation("Roll back?", fmt.Sprintf("The gate of pool %s is taken out: nothing is refused any more, so waits grow if there is too much work. "+
		"Nothing that runs or waits is lost.%s", plainText(n.Incident.Key.Pool, 63), counts(n)), "Roll back", slack.StyleDanger)
}

func confirmRestore(n alerts.Note) *slack.ConfirmationBlockObject {
	return confirmation("Restore?", fmt.Sprintf("The gate of pool %s is put back as it was before: work that comes too late is refused again. "+
		"Nothing that runs or waits is lost.%s", plainText(n.Incident.Key.Pool, 63), counts(n)), "Restore", slack.StylePrimary)
}

// counts say what was running and queued as of the message.
func counts(n alerts.Note) string {
	if !n.Counted {
		return ""
	}
	return fmt.Sprintf(" At %s UTC %d ran and %d waited.", n.Event.At.UTC().Format("15:04:05"), n.Running, n.Queued)
}

func confirmation(title, text, yes string, style slack.Style) *slack.ConfirmationBlockObject {
	return slack.NewConfirmationBlockObject(
		plainObject(title), plainObject(plainText(text, maxConfirm)), plainObject(yes), plainObject("Cancel"),
	).WithStyle(style)
}

func plainObject(s string) *slack.TextBlockObject {
	return slack.NewTextBlockObject(slack.PlainTextType, s, false, false)
}
