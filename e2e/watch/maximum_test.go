package watch

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"headgate/e2e/alerttest"
)

// With one rollback a day there is no second one, whatever fires and however often
// the process is started: on-call is told why, once, and what to type.
func TestNoRollbackBeyondTheDailyMaximum(t *testing.T) {
	t.Parallel()
	slack := alerttest.StartSlack(t, 1)
	knob := alerttest.WorkersRule("knob", 0, 3)
	knob.Rollback = true
	d := alerttest.Options{
		Rules: []alerttest.Rule{knob}, Workers: 4, Top: "rollback: {max_per_day: 1, cooldown: 1s, human_latch: 0s}\n",
	}.Start(t, slack)
	alerttest.Eventually(t, "it is rolled back", func() bool { return d.Status(t)["main"].Mode == "passthrough" })
	firing := d.AwaitFiring(t, "knob", "page")
	restore := d.Command(t, "restore", "--reason", "it is mended")
	if restore.ExitCode != 0 {
		t.Fatalf("restore: %s", restore.Stderr)
	}
	why := func() (n int) {
		_, thread := slack.OnlyPost(t, alerttest.PageChannel, firing.ID)
		for _, p := range thread {
			if strings.Contains(p.AllText(), "1 of 1 automatic rollbacks") && strings.Contains(p.AllText(), "headgate rollback --pool main") {
				n++
			}
		}
		return n
	}
	alerttest.Eventually(t, "on-call is told that there is none left", func() bool { return why() == 1 })
	for _, how := range []os.Signal{os.Kill, syscall.SIGTERM} {
		d = restart(t, d, how)
		d.AwaitEvaluations(t, extraEvaluations)
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
	d.SetWorkers(t, 4, 1)
	d.AwaitEnded(t, "knob")
	d.SetWorkers(t, 1, 4)
	d.AwaitFiring(t, "knob", "page")
	d.AwaitEvaluations(t, extraEvaluations)
	if m := d.Status(t)["main"].Mode; m != "enforce" {
		t.Errorf("with the next incident the pool is in %s", m)
	}
}
