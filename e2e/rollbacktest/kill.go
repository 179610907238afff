package rollbacktest

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"testing"
	"time"

	"headgate/e2e/harness"
)

// KillTest kills the gate (SIGKILL) at random points of rollbacks and restores, and starts
// it again.
type KillTest struct {
	Rounds int
	Seed   uint64
	// ViaDatabase gives the commands an admin address where nothing listens, so that they
	// leave a request in the database.
	ViaDatabase bool
}

// KillSummary counts the results of the rounds.
type KillSummary struct {
	Done, Queued, Unknown int // commands that reported the change as done or as requested, or failed
	New, Old              int // the mode after the restart
}

var queuedRequest = regexp.MustCompile(`queued request (\d+) in the database`)

// Run checks that what a command has reported holds after the restart.
func (c KillTest) Run(t testing.TB) KillSummary {
	t.Helper()
	random := rand.New(rand.NewPCG(c.Seed, 0))
	upstream := harness.StartHeldUpstream(t)
	dir := t.TempDir()
	harness.WriteSettings(t, dir, "", harness.PoolSettings("main", upstream.URL, 1))
	r := harness.StartIn(t, dir)
	span := c.measureCommand(t, r)
	var summary KillSummary
	for n := range c.Rounds {
		clients := NewClients(r.URL)
		clients.Start(1) // something runs while the mode changes
		r = c.round(t, r, time.Duration(random.Int64N(int64(span))), &summary)
		if _, err := clients.Wait(harness.Timeout); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Fatalf("round %d of seed %d, via database: %v", n, c.Seed, c.ViaDatabase)
		}
	}
	checkRequestsOnce(t, r)
	return summary
}

// measureCommand returns somewhat more than the time that a command takes.
func (c KillTest) measureCommand(t testing.TB, r *harness.Gate) time.Duration {
	t.Helper()
	span := time.Minute
	for range 3 { // the first one may be slow
		d := harness.RunCommand(t, r.Dir(), c.adminURL(t, r), "observe")
		if d.ExitCode != 0 {
			t.Fatalf("observe: exit code %d, %s", d.ExitCode, d.Stderr)
		}
		span = min(span, d.Duration*5/4)
	}
	return span
}

func (c KillTest) adminURL(t testing.TB, r *harness.Gate) string {
	t.Helper()
	if c.ViaDatabase {
		return harness.UnusedURL(t)
	}
	return r.Admin
}

// round runs one command, kills the gate meanwhile, starts it again and compares.
func (c KillTest) round(t testing.TB, r *harness.Gate, after time.Duration, summary *KillSummary) *harness.Gate {
	t.Helper()
	old := r.Status(t)["main"].Mode
	command, goal := "rollback", "passthrough"
	if old == "passthrough" {
		// restore returns to the mode before the rollback: observe, since measureCommand.
		command, goal = "restore", "observe"
	}
	before := len(r.Audit(t))
	end := harness.StartCommand(t, r.Dir(), c.adminURL(t, r), command, "--json")
	time.Sleep(after) // the random point
	r.Kill(t)
	d := end()
	r = harness.StartIn(t, r.Dir())
	r.AwaitRecorded(t)
	now, audit := r.Status(t)["main"].Mode, r.Audit(t)
	if now != old && now != goal {
		t.Errorf("%s: from %s the mode came to %s", command, old, now)
	}
	if audit[0].To != now {
		t.Errorf("the mode is %s, the audit ends with %+v", now, audit[0])
	}
	if (now != old) != (len(audit) > before) {
		t.Errorf("from %s to %s, and the audit went from %d to %d changes", old, now, before, len(audit))
	}
	CheckChain(t, audit)
	promised := c.acknowledged(t, d, summary)
	if promised && now != goal {
		t.Errorf("%s was reported as done or requested (exit code %d, stdout %s, stderr %s), but the mode is %s", command, d.ExitCode, d.Stdout, d.Stderr, now)
	}
	if now == goal {
		summary.New++
	} else {
		summary.Old++
	}
	return r
}

// acknowledged reports whether the command promised that the change takes effect.
func (c KillTest) acknowledged(t testing.TB, d harness.CommandResult, summary *KillSummary) bool {
	t.Helper()
	switch {
	case d.ExitCode == 0 && (d.Result(t).Recorded || d.Result(t).Deferred):
		summary.Done++
		return true
	case queuedRequest.MatchString(d.Stderr):
		summary.Queued++
		return true
	default:
		summary.Unknown++
		return false
	}
}

// checkRequestsOnce checks that every request was applied once.
func checkRequestsOnce(t testing.TB, r *harness.Gate) {
	t.Helper()
	times := map[int64]int{}
	for _, c := range r.Audit(t) {
		if c.Request != 0 {
			times[c.Request]++
		}
	}
	for n, k := range times {
		if k != 1 {
			t.Errorf("request %d was applied %d times", n, k)
		}
	}
	var most int64
	db := OpenDatabase(t, r.Dir())
	if err := db.QueryRowContext(t.Context(), "SELECT coalesce(max(number), 0) FROM mode_requests").Scan(&most); err != nil {
		t.Fatal(err)
	}
	if most != int64(len(times)) {
		t.Errorf("%d requests were made, %d were applied", most, len(times))
	}
}

// String returns the counts as one line.
func (s KillSummary) String() string {
	return fmt.Sprintf("commands: %d done, %d requested, %d failed; after the restart: the new mode %d times, the old one %d times",
		s.Done, s.Queued, s.Unknown, s.New, s.Old)
}
