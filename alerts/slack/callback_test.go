package slack

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParseCommandText(t *testing.T) {
	tests := []struct {
		text string
		want Command
		err  string
	}{
		{"", Command{Action: Help}, ""},
		{"  help me  ", Command{Action: Help}, ""},
		{"STATUS", Command{Action: Status}, ""},
		{"status now", Command{Action: Status}, `unexpected argument "now"`},
		{"rollback", Command{Action: Rollback}, ""},
		{"rollback all", Command{Action: Rollback}, ""},
		{"rollback ALL it is 3 am", Command{Action: Rollback, Reason: "it is 3 am"}, ""},
		{"rollback main  a   reason", Command{Action: Rollback, Pool: "main", Reason: "a reason"}, ""},
		{"restore main", Command{Action: Restore, Pool: "main"}, ""},
		{"ack", Command{Action: Ack}, "which incident?"},
		{"ack 1", Command{Action: Ack, Incident: "1"}, ""},
		{"ack 1 2", Command{Action: Ack, Incident: "1"}, `unexpected argument "2"`},
		{"silence", Command{Action: Silence}, "which rule?"},
		{"silence queue_age", Command{Action: Silence, Rule: "queue_age"}, "for how long?"},
		{"silence queue_age 1h", Command{Action: Silence, Rule: "queue_age", Duration: time.Hour}, ""},
		{"silence queue_age 90m load test", Command{Action: Silence, Rule: "queue_age", Duration: 90 * time.Minute, Reason: "load test"}, ""},
		{"silence queue_age 0s", Command{Action: Silence, Rule: "queue_age"}, "not a duration"},
		{"silence queue_age -1h", Command{Action: Silence, Rule: "queue_age"}, "not a duration"},
		{"silence queue_age long", Command{Action: Silence, Rule: "queue_age"}, "not a duration"},
		{"drill", Command{Action: Drill}, "/headgate drill run NAME"},
		{"drill abort burst", Command{Action: Drill}, "/headgate drill run NAME"},
		{"drill run burst", Command{Action: Drill, Drill: "burst"}, ""},
		{"drill run burst now", Command{Action: Drill, Drill: "burst"}, `unexpected argument "now"`},
		{"rm -rf", Command{Action: Help}, `unknown command "rm"`},
	}
	for _, tt := range tests {
		t.Run(tt.text, func(t *testing.T) {
			got, err := parseCommandText(tt.text)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
			if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("error %v, want %q", err, tt.err)
			}
		})
	}
}

// What is to be typed at the machine does the same as the button.
func TestShellCommands(t *testing.T) {
	for want, w := range map[string]Command{
		"headgate rollback":                                  {Action: Rollback},
		"headgate rollback --pool main":                      {Action: Rollback, Pool: "main"},
		"headgate restore --pool 'a b'":                      {Action: Restore, Pool: "a b"},
		"headgate incident ack 1":                            {Action: Ack, Incident: "1"},
		"headgate drill run burst":                           {Action: Drill, Drill: "burst"},
		"headgate incident show 1":                           {Action: Runbook, Incident: "1"},
		"headgate status":                                    {Action: Status},
		"headgate incident ack '$(reboot)'":                  {Action: Ack, Incident: "$(reboot)"},
		"headgate incident silence r --for 1h --reason …":    {Action: Silence, Rule: "r", Duration: time.Hour},
		"headgate incident silence r --for 1h30m --reason …": {Action: Silence, Rule: "r", Duration: 90 * time.Minute},
		"headgate incident silence r --for 45s --reason …":   {Action: Silence, Rule: "r", Duration: 45 * time.Second},
	} {
		if got := w.shellCommand(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestAllowList(t *testing.T) {
	for name, a := range map[string]AllowList{
		"a name": {Rollback: {"alice"}}, "a channel": {Ack: {"C012345"}}, "a mention": {Ack: {"<@U012345>"}}, "what needs none": {Status: {"U012345"}},
	} {
		if a.Validate() == nil {
			t.Errorf("%s is taken", name)
		}
	}
	if err := testAllowList().Validate(); err != nil {
		t.Error(err)
	}
	for _, a := range Actions() {
		if why := (AllowList{}).denialReason("U0ADA", a); (why == "") == a.NeedsPermission() {
			t.Errorf("%s with no list: %q", a, why)
		}
	}
}

func TestDeduper(t *testing.T) {
	now := noon
	o := newDeduper()
	for n := range maxDedupKeys {
		if o.add(now, fmt.Sprint(n)) != dedupNew {
			t.Fatal(n)
		}
	}
	if o.add(now, "0") != dedupDuplicate || o.add(now.Add(dedupWindow-1), "0") != dedupDuplicate {
		t.Error("it is forgotten too early")
	}
	if o.add(now, "one more") != dedupFull {
		t.Error("there is no end")
	}
	o.forget("0")
	if o.add(now, "0") != dedupNew {
		t.Error("it is not forgotten")
	}
	if o.add(now.Add(dedupWindow), "one more") != dedupNew || len(o.expires) != 1 {
		t.Errorf("it is remembered for ever: %d", len(o.expires))
	}
}

const pressed = `{"type":"block_actions","team":{"id":"T0FAKE"},"user":{"id":"U0ADA","team_id":"T0FAKE"},"api_app_id":"A0FAKE",
"trigger_id":"1.2","response_url":"https://hooks.slack.com/actions/x","container":{"channel_id":"C1"},
"actions":[{"action_id":"headgate_rollback","value":"{\"v\":1,\"incident\":\"i\",\"seq\":2,\"pool\":\"p\",\"rule\":\"r\",\"mode\":\"enforce\",\"since\":1000}"}]}`

func TestParseBlockActions(t *testing.T) {
	c, err := parseBlockActions([]byte(pressed))
	if err != nil {
		t.Fatal(err)
	}
	w, err := c.command()
	want := Command{Action: Rollback, Incident: "i", Pool: "p", Rule: "r", Observed: &ObservedState{Seq: 2, Mode: "enforce", ModeSince: time.Unix(1, 0).UTC()}}
	if diff := cmp.Diff(want, w); diff != "" || err != nil {
		t.Error(err, diff)
	}
	for name, change := range map[string][2]string{
		"another type":     {"block_actions", "view_submission"},
		"no user":          {"U0ADA", ""},
		"a bot's ID":       {"U0ADA", "B0ADA"},
		"no team":          {`"team":{"id":"T0FAKE"}`, `"team":{"id":""}`},
		"a strange team":   {`"team_id":"T0FAKE"`, `"team_id":"x"`},
		"a strange app":    {"A0FAKE", "x"},
		"a channel's name": {"C1", "#ops"},
		"no action":        {`"headgate_rollback"`, `""`},
		"two actions":      {`"actions":[`, `"actions":[{"action_id":"x"},`},
		"too long":         {"1.2", strings.Repeat("1", maxShortValue+1)},
	} {
		raw := strings.Replace(pressed, change[0], change[1], 1)
		if c, err := parseBlockActions([]byte(raw)); err == nil || raw == pressed {
			t.Errorf("%s: %+v", name, c)
		}
	}
}

func TestInvalidButtonValues(t *testing.T) {
	good := `{"v":1,"incident":"i","seq":2,"pool":"p","rule":"r","mode":"enforce","since":1000}`
	if _, err := parseButtonValue(good); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{
		"", "null", "1", "[]", "{", good + good, strings.Replace(good, `"v":1`, `"v":2`, 1), strings.Replace(good, `"seq":2`, `"seq":-2`, 1),
		strings.Replace(good, "1000", "-1", 1), strings.Replace(good, `"i"`, `""`, 1), strings.Replace(good, "}", `,"more":1}`, 1),
		strings.Replace(good, `"p"`, `"`+strings.Repeat("p", maxButtonValue)+`"`, 1),
	} {
		if v, err := parseButtonValue(bad); err == nil {
			t.Errorf("%.100s: %+v", bad, v)
		}
	}
}

// FuzzCallbacks: an accepted callback is bounded, names its user, and can be
// parsed as a command.
func FuzzCallbacks(f *testing.F) {
	f.Add(pressed, true)
	f.Add(`{"command":"/headgate","text":"silence queue_age 1h","user_id":"U0ADA","team_id":"T0FAKE","trigger_id":"1"}`, false)
	f.Add("command=%2Fheadgate&text=rollback+all&user_id=U0ADA&team_id=T0FAKE&trigger_id=1", false)
	f.Fuzz(func(t *testing.T, raw string, press bool) {
		var c callback
		var err error
		form, formErr := url.ParseQuery(raw)
		switch {
		case press:
			c, err = parseBlockActions([]byte(raw))
		case formErr == nil && form.Has("command"):
			c, err = parseSlashForm(form)
		default:
			c, err = parseSlashJSON([]byte(raw))
		}
		if err != nil {
			return
		}
		if !userIDPattern.MatchString(c.user) || !teamIDPattern.MatchString(c.team) || len(c.commandText) > maxCommandText || len(c.buttonValue) > maxButtonValue || len(c.dedupKey) > maxShortValue {
			t.Fatalf("taken: %+v", c)
		}
		w, err := c.command()
		if w.Action == "" || w.Duration < 0 || err == nil && c.actionID != "" && w.Observed == nil {
			t.Errorf("command %+v", w)
		}
		for _, s := range []string{w.shellCommand(), AllowList{}.denialReason(c.user, w.Action), formatResponse(w.shellCommand() + "\n" + c.commandText)} {
			if strings.Contains(formatResponse(s), "<!") {
				t.Errorf("markup from outside: %q", formatResponse(s))
			}
		}
	})
}
