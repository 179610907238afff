package watch

import (
	"os"
	"strings"
	"testing"

	"headgate/e2e/watch/desk"
	"headgate/internal/fakeslack"
)

// pressable is a gate whose knob pages, and whose message has buttons.
func pressable(t *testing.T) (*desk.Desk, desk.Incident, desk.Post) {
	t.Helper()
	slack := desk.StartSlack(t, 1)
	t.Cleanup(slack.Close)
	d := desk.Setup{Rules: []desk.Rule{desk.Knob("knob", 0, 3)}, Workers: 4, Slack: desk.Pressable}.Open(t, slack)
	if err := slack.AwaitSockets(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	firing := d.AwaitFiring(t, "knob", "page")
	d.AwaitSettled(t, firing.ID)
	root, _ := slack.OnlyPost(t, desk.Page, firing.ID)
	return d, firing, root
}

// press presses a button as the message has it now.
func press(t *testing.T, d *desk.Desk, root desk.Post, action, user string) {
	t.Helper()
	if _, err := d.Slack.Press(t.Context(), desk.Page, root.TS, "headgate_"+action, user); err != nil {
		t.Fatalf("%s: %v", action, err)
	}
}

func hasButton(d *desk.Desk, root desk.Post, action string) bool {
	_, err := d.Slack.Interaction(desk.Page, root.TS, "headgate_"+action, "U0ADA")
	return err == nil
}

// On-call presses Roll back, and the pool is in pass-through: the message says so
// and offers the way back, its thread says who it was, and so does the record.
func TestRollBackIsPressed(t *testing.T) {
	t.Parallel()
	d, firing, root := pressable(t)
	press(t, d, root, "rollback", "U0ADA")
	desk.Until(t, "the pool is in pass-through", func() bool { return d.Status(t)["main"].Mode == "passthrough" })
	desk.Until(t, "the message offers the way back", func() bool {
		return hasButton(d, root, "restore") && !hasButton(d, root, "rollback")
	})
	root, thread := d.Slack.OnlyPost(t, desk.Page, firing.ID)
	wantWords(t, root, "passthrough: the gate is taken out", "headgate restore --pool main")
	desk.Until(t, "the thread says who it was", func() bool {
		_, thread = d.Slack.OnlyPost(t, desk.Page, firing.ID)
		return len(thread) > 0
	})
	wantWords(t, thread[len(thread)-1], "Mode passthrough, set by <@U0ADA>")
	if change := d.Audit(t)[0]; change.Actor != "slack:U0ADA" || change.To != "passthrough" {
		t.Errorf("the record has %+v", change)
	}

	press(t, d, root, "restore", "U0BEN")
	desk.Until(t, "ben is told", func() bool { return told(d, "U0BEN", "slack.allow.restore in the settings does not name you (U0BEN)") })
	press(t, d, root, "restore", "U0ADA")
	desk.Until(t, "the gate is back", func() bool { return d.Status(t)["main"].Mode == "enforce" })
	desk.Until(t, "the message offers the rollback again", func() bool {
		return hasButton(d, root, "rollback") && !hasButton(d, root, "restore")
	})
	d.Stop(t)
	for _, secret := range []string{desk.Token, desk.AppToken} {
		if d.Logged(secret) {
			t.Errorf("the log shows %s", secret)
		}
	}
}

func told(d *desk.Desk, user, what string) bool {
	for _, m := range d.Slack.Whispers(desk.Page, user) {
		if strings.Contains(m.Text, what) {
			return true
		}
	}
	return false
}

// A press that was answered is kept when the process is killed; and the same one
// again, as a replay, does nothing to the process after it.
func TestAPressOutlivesTheProcess(t *testing.T) {
	t.Parallel()
	d, _, root := pressable(t)
	pressed, err := d.Slack.Interaction(desk.Page, root.TS, "headgate_rollback", "U0ADA")
	if err != nil {
		t.Fatal(err)
	}
	deliver(t, d, pressed)
	desk.Until(t, "ada is told", func() bool { return told(d, "U0ADA", "from enforce to passthrough") })
	d = again(t, d, os.Kill)
	if mode := d.Status(t)["main"].Mode; mode != "passthrough" {
		t.Fatalf("mode %s after the kill", mode)
	}
	if _, err := d.Order("enforce"); err != nil {
		t.Fatal(err)
	}
	if err := d.Slack.AwaitSockets(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	deliver(t, d, pressed)
	desk.Until(t, "ada is told who was later", func() bool { return told(d, "U0ADA", "pool main is in enforce since") })
	if mode := d.Status(t)["main"].Mode; mode != "enforce" {
		t.Errorf("mode %s after the replay", mode)
	}
}

func deliver(t *testing.T, d *desk.Desk, i fakeslack.Interaction) {
	t.Helper()
	if _, err := d.Slack.Deliver(t.Context(), i); err != nil {
		t.Fatal(err)
	}
}
