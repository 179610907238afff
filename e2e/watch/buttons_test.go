package watch

import (
	"os"
	"strings"
	"testing"

	"headgate/e2e/alerttest"
	"headgate/e2e/harness"
	"headgate/internal/fakeslack"
)

// newWithButtons starts an instance with a page whose message has buttons.
func newWithButtons(t *testing.T) (*alerttest.Instance, harness.Incident, alerttest.Post) {
	t.Helper()
	slack := alerttest.StartSlack(t, 1)
	t.Cleanup(slack.Close)
	d := alerttest.Options{Rules: []alerttest.Rule{alerttest.WorkersRule("workers", 0, 3)}, Workers: 4, Slack: alerttest.ButtonSettings}.Start(t, slack)
	if err := slack.AwaitSockets(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	firing := d.AwaitFiring(t, "workers", "page")
	d.AwaitSettled(t, firing.ID)
	root, _ := slack.OnlyPost(t, alerttest.PageChannel, firing.ID)
	return d, firing, root
}

// pressButton presses a button of a message.
func pressButton(t *testing.T, d *alerttest.Instance, root alerttest.Post, action, user string) {
	t.Helper()
	if _, err := d.Slack.Press(t.Context(), alerttest.PageChannel, root.TS, "headgate_"+action, user); err != nil {
		t.Fatalf("%s: %v", action, err)
	}
}

func hasButton(d *alerttest.Instance, root alerttest.Post, action string) bool {
	_, err := d.Slack.PressInteraction(alerttest.PageChannel, root.TS, "headgate_"+action, "U0ADA")
	return err == nil
}

// The button Roll back switches the pool to pass-through. The message shows the mode and a button
// to restore; the thread and the audit log name the user.
func TestRollbackButton(t *testing.T) {
	t.Parallel()
	d, firing, root := newWithButtons(t)
	pressButton(t, d, root, "rollback", "U0ADA")
	alerttest.Eventually(t, "the pool is in pass-through", func() bool { return d.Status(t)["main"].Mode == "passthrough" })
	alerttest.Eventually(t, "the message has the button to restore", func() bool {
		return hasButton(d, root, "restore") && !hasButton(d, root, "rollback")
	})
	root, thread := d.Slack.OnlyPost(t, alerttest.PageChannel, firing.ID)
	wantText(t, root, "passthrough: admission control is disabled", "headgate restore --pool main")
	alerttest.Eventually(t, "the thread says who pressed", func() bool {
		_, thread = d.Slack.OnlyPost(t, alerttest.PageChannel, firing.ID)
		return len(thread) > 0
	})
	wantText(t, thread[len(thread)-1], "Mode passthrough, set by <@U0ADA>")
	if change := d.Audit(t)[0]; change.Actor != "slack:U0ADA" || change.To != "passthrough" {
		t.Errorf("the record has %+v", change)
	}

	pressButton(t, d, root, "restore", "U0BEN")
	alerttest.Eventually(t, "ben gets a reply", func() bool {
		return gotEphemeral(d, "U0BEN", "slack.allow.restore in the settings does not list you (U0BEN)")
	})
	pressButton(t, d, root, "restore", "U0ADA")
	alerttest.Eventually(t, "the pool is in enforce", func() bool { return d.Status(t)["main"].Mode == "enforce" })
	alerttest.Eventually(t, "the message has the button to roll back", func() bool {
		return hasButton(d, root, "rollback") && !hasButton(d, root, "restore")
	})
	d.Stop(t)
	for _, secret := range []string{alerttest.Token, alerttest.AppToken} {
		if d.Logged(secret) {
			t.Errorf("the log has %s", secret)
		}
	}
}

func gotEphemeral(d *alerttest.Instance, user, what string) bool {
	for _, m := range d.Slack.Ephemerals(alerttest.PageChannel, user) {
		if strings.Contains(m.Text, what) {
			return true
		}
	}
	return false
}

// A press that was confirmed survives SIGKILL, and its replay changes nothing after the
// restart.
func TestButtonPressSurvivesKill(t *testing.T) {
	t.Parallel()
	d, _, root := newWithButtons(t)
	pressed, err := d.Slack.PressInteraction(alerttest.PageChannel, root.TS, "headgate_rollback", "U0ADA")
	if err != nil {
		t.Fatal(err)
	}
	deliverInteraction(t, d, pressed)
	alerttest.Eventually(t, "ada gets a reply", func() bool { return gotEphemeral(d, "U0ADA", "from enforce to passthrough") })
	d = restart(t, d, os.Kill)
	if mode := d.Status(t)["main"].Mode; mode != "passthrough" {
		t.Fatalf("mode %s after the kill", mode)
	}
	if _, err := d.SetMode("enforce"); err != nil {
		t.Fatal(err)
	}
	if err := d.Slack.AwaitSockets(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	deliverInteraction(t, d, pressed)
	alerttest.Eventually(t, "ada sees the later change", func() bool { return gotEphemeral(d, "U0ADA", "pool main has been in enforce since") })
	if mode := d.Status(t)["main"].Mode; mode != "enforce" {
		t.Errorf("mode %s after the replay", mode)
	}
}

func deliverInteraction(t *testing.T, d *alerttest.Instance, i fakeslack.Interaction) {
	t.Helper()
	if _, err := d.Slack.Deliver(t.Context(), i); err != nil {
		t.Fatal(err)
	}
}
