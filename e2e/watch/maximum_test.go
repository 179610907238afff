package watch

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"headgate/e2e/watch/desk"
)

// With one rollback a day there is no second one, whatever fires and however often
// the process is started: on-call is told why, once, and what to type.
func TestNoRollbackBeyondTheDailyMaximum(t *testing.T) {
	t.Parallel()
	slack := desk.StartSlack(t, 1)
	knob := desk.Knob("knob", 0, 3)
	knob.Acts = true
	d := desk.Setup{
		Rules: []desk.Rule{knob}, Workers: 4, Top: "rollback: {max_per_day: 1, cooldown: 1s, human_latch: 0s}\n",
	}.Open(t, slack)
	desk.Until(t, "it is rolled back", func() bool { return d.Status(t)["main"].Mode == "passthrough" })
	firing := d.AwaitFiring(t, "knob", "page")
	restore := d.Command(t, "restore", "--reason", "it is mended")
	if restore.Code != 0 {
		t.Fatalf("restore: %s", restore.Err)
	}
	why := func() (n int) {
		_, thread := slack.OnlyPost(t, desk.Page, firing.ID)
		for _, p := range thread {
			if strings.Contains(p.Words(), "1 of 1 automatic rollbacks") && strings.Contains(p.Words(), "headgate rollback --pool main") {
				n++
			}
		}
		return n
	}
	desk.Until(t, "on-call is told that there is none left", func() bool { return why() == 1 })
	for _, how := range []os.Signal{os.Kill, syscall.SIGTERM} {
		d = again(t, d, how)
		d.Evaluated(t, enough)
		if n := why(); n != 1 {
			t.Errorf("after %v it is told %d times", how, n)
		}
		if m := d.Status(t)["main"].Mode; m != "enforce" {
			t.Errorf("after %v the pool is in %s", how, m)
		}
	}
	if n := len(d.Audit(t)); n != 3 { // the first mode, the rollback, the restore
		t.Errorf("%d changes: %+v", n, d.Audit(t))
	}
	d.Turn(t, 4, 1)
	d.AwaitOver(t, "knob")
	d.Turn(t, 1, 4)
	d.AwaitFiring(t, "knob", "page")
	d.Evaluated(t, enough)
	if m := d.Status(t)["main"].Mode; m != "enforce" {
		t.Errorf("with the next incident the pool is in %s", m)
	}
}
