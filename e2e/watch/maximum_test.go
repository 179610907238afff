package watch

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"headgate/e2e/alerttest"
)

// With a maximum of one automatic rollback a day there is no second one, whatever fires and
// however often the process starts. One message says why, and the command to type.
func TestDailyMaximumOfRollbacks(t *testing.T) {
	t.Parallel()
	slack := alerttest.StartSlack(t, 1)
	rule := alerttest.WorkersRule("workers", 0, 3)
	rule.Rollback = true
	d := alerttest.Options{
		Rules: []alerttest.Rule{rule}, Workers: 4, Top: "rollback: {max_per_day: 1, cooldown: 1s, human_latch: 0s}\n",
	}.Start(t, slack)
	alerttest.Eventually(t, "it is rolled back", func() bool { return d.Status(t)["main"].Mode == "passthrough" })
	firing := d.AwaitFiring(t, "workers", "page")
	restore := d.Command(t, "restore", "--reason", "endpoint is fixed")
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
	alerttest.Eventually(t, "a message says that the maximum is reached", func() bool { return why() == 1 })
	for _, how := range []os.Signal{os.Kill, syscall.SIGTERM} {
		d = restart(t, d, how)
		d.AwaitEvaluations(t, extraEvaluations)
		if n := why(); n != 1 {
			t.Errorf("after %v there are %d messages", how, n)
		}
		if m := d.Status(t)["main"].Mode; m != "enforce" {
			t.Errorf("after %v the pool is in %s", how, m)
		}
	}
	if n := len(d.Audit(t)); n != 3 { // the first mode, the rollback, the restore
		t.Errorf("%d changes: %+v", n, d.Audit(t))
	}
	d.SetWorkers(t, 4, 1)
	d.AwaitEnded(t, "workers")
	d.SetWorkers(t, 1, 4)
	d.AwaitFiring(t, "workers", "page")
	d.AwaitEvaluations(t, extraEvaluations)
	if m := d.Status(t)["main"].Mode; m != "enforce" {
		t.Errorf("with the next incident the pool is in %s", m)
	}
}
