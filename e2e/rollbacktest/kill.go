package rollbacktest

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"testing"
	"time"

	"headgate/e2e/harness"
)

// KillTest is rollbacks and restores during which the gate is killed, as kill -9
// does, at a random point, and started again.
type KillTest struct {
	Rounds int
	Seed   uint64
	// Silent gives the orders to an address where nobody listens, so that they go
	// through the database.
	ViaDatabase bool
}

// KillSummary is what the rounds came to.
type KillSummary struct {
	Done, Queued, Unknown int // orders reported as done, left as a request, not known
	New, Old              int // the mode after the restart
}

var queuedRequest = regexp.MustCompile(`queued request (\d+) in the database`)

// Run kills and looks. Whatever the command was told counts after the restart.
func (c KillTest) Run(t testing.TB) KillSummary {
	t.Helper()
	random := rand.New(rand.NewPCG(c.Seed, 0))
	upstream := harness.StartHeldUpstream(t)
	dir := t.TempDir()
	WriteSettings(t, dir, "", PoolSettings("main", upstream.URL, 1))
	r := Start(t, dir)
	span := c.measureCommand(t, r)
	var tally KillSummary
	for n := range c.Rounds {
		crowd := NewClients(r.URL)
		crowd.Start(1) // something runs while the mode changes
		r = c.round(t, r, time.Duration(random.Int64N(int64(span))), &tally)
		if _, err := crowd.Wait(harness.Timeout); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Fatalf("round %d of seed %d, silent %v", n, c.Seed, c.ViaDatabase)
		}
	}
	r.checkRequestsOnce(t)
	return tally
}

// measureCommand is somewhat longer than an order takes here and now.
func (c KillTest) measureCommand(t testing.TB, r *Instance) time.Duration {
	t.Helper()
	span := time.Minute
	for range 3 { // the first one may be slow
		d := RunAt(t, r.Dir, c.adminURL(t, r), "observe")
		if d.ExitCode != 0 {
			t.Fatalf("observe: exit code %d, %s", d.ExitCode, d.Stderr)
		}
		span = min(span, d.Duration*5/4)
	}
	return span
}

func (c KillTest) adminURL(t testing.TB, r *Instance) string {
	t.Helper()
	if c.ViaDatabase {
		return UnusedURL(t)
	}
	return r.Admin
}

// round gives one order, kills after a while, starts again and compares.
func (c KillTest) round(t testing.TB, r *Instance, after time.Duration, tally *KillSummary) *Instance {
	t.Helper()
	old := r.Status(t)["main"].Mode
	command, goal := "rollback", "passthrough"
	if old == "passthrough" {
		// What restore returns to is what was before: observe, from timed on.
		command, goal = "restore", "observe"
	}
	before := len(r.Audit(t))
	end := StartAt(t, r.Dir, c.adminURL(t, r), command, "--json")
	time.Sleep(after) // the random point
	r.Kill(t)
	d := end()
	r = Start(t, r.Dir)
	r.AwaitRecorded(t)
	now, audit := r.Status(t)["main"].Mode, r.Audit(t)
	if now != old && now != goal {
		t.Errorf("%s: from %s it came to %s", command, old, now)
	}
	if audit[0].To != now {
		t.Errorf("the mode is %s, the audit ends with %+v", now, audit[0])
	}
	if (now != old) != (len(audit) > before) {
		t.Errorf("from %s to %s, and the audit went from %d to %d changes", old, now, before, len(audit))
	}
	CheckChain(t, audit)
	promised := c.acknowledged(t, d, tally)
	if promised && now != goal {
		t.Errorf("%s was told as done or as left (exit code %d, stdout %s, stderr %s), and is undone: the mode is %s", command, d.ExitCode, d.Stdout, d.Stderr, now)
	}
	if now == goal {
		tally.New++
	} else {
		tally.Old++
	}
	return r
}

// acknowledged says whether the command told a person that the order counts.
func (c KillTest) acknowledged(t testing.TB, d CommandResult, tally *KillSummary) bool {
	t.Helper()
	switch {
	case d.ExitCode == 0 && (d.Result(t).Recorded || d.Result(t).Deferred):
		tally.Done++
		return true
	case queuedRequest.MatchString(d.Stderr):
		tally.Queued++
		return true
	default:
		tally.Unknown++
		return false
	}
}

// checkRequestsOnce sees to it that every request was carried out once.
func (r *Instance) checkRequestsOnce(t testing.TB) {
	t.Helper()
	times := map[int64]int{}
	for _, c := range r.Audit(t) {
		if c.Request != 0 {
			times[c.Request]++
		}
	}
	for n, k := range times {
		if k != 1 {
			t.Errorf("request %d was carried out %d times", n, k)
		}
	}
	var most int64
	db := OpenDatabase(t, r.Dir)
	if err := db.QueryRowContext(t.Context(), "SELECT coalesce(max(number), 0) FROM mode_requests").Scan(&most); err != nil {
		t.Fatal(err)
	}
	if most != int64(len(times)) {
		t.Errorf("%d requests were left, %d carried out", most, len(times))
	}
}

// String tells a tally in one line.
func (y KillSummary) String() string {
	return fmt.Sprintf("orders told as done %d, left as a request %d, not known %d; afterwards the new mode %d times, the old one %d",
		y.Done, y.Queued, y.Unknown, y.New, y.Old)
}
