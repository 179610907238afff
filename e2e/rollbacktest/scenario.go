package rollbacktest

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"headgate/e2e/harness"
	"headgate/internal/testkit"
)

// Scenario is a sequence of rollbacks and restores during which no task may be lost.
type Scenario struct {
	Clients    int           // tasks that run or wait from the start
	Workers    int           // tasks that run
	Retrying   int           // clients that are refused in each round
	RetryPause time.Duration // after a refusal; 0 saturates the data plane
	Rounds     int
	// Rollback rolls back, by the API if nil. It returns nil when the rollback is known
	// to be in effect.
	Rollback func(t testing.TB, r *harness.Gate) error
	// Fault keeps the gate from writing to its database until stop is called.
	Fault func(t testing.TB, dir string) (stop func())
	Setup func(t testing.TB, dir string) bool // runs before the start; false: skip the scenario
}

var answerTimeout = testkit.Timeout(time.Minute) // for thousands of clients

// Run returns the time to effect of each rollback, and checks that every task completes.
func (s Scenario) Run(t testing.TB) []time.Duration {
	t.Helper()
	dir := t.TempDir()
	if s.Setup != nil && !s.Setup(t, dir) {
		return nil
	}
	upstream := harness.StartHeldUpstream(t)
	harness.WriteSettings(t, dir, "", harness.PoolSettings("main", upstream.URL, s.Workers))
	r := harness.StartIn(t, dir)
	clients := fillGate(t, r, s)
	stop := func() {}
	if s.Fault != nil {
		stop = s.Fault(t, dir)
	}
	var times []time.Duration
	for range s.Rounds {
		times = append(times, s.round(t, r, clients))
	}
	stop()
	if s.Fault != nil {
		checkUnrecordedReported(t, r)
	}
	r.AwaitRecorded(t)
	checkAudit(t, r, s.Rounds)
	checkNoTaskLost(t, r, upstream, clients, s)
	return times
}

// fillGate starts the clients in pass-through, where none is refused. They stay after the
// restore.
func fillGate(t testing.TB, r *harness.Gate, s Scenario) *Clients {
	t.Helper()
	clients := NewClients(r.URL)
	mustSetMode(t, r, "passthrough")
	clients.Start(s.Clients)
	harness.Eventually(t, "all clients run or wait", func() bool {
		p := r.Status(t)["main"]
		return p.InFlight == s.Workers && p.InFlight+p.QueueDepth == s.Clients
	})
	mustSetMode(t, r, "restore")
	return clients
}

func mustSetMode(t testing.TB, r *harness.Gate, mode string) {
	t.Helper()
	if _, err := r.SetMode(mode); err != nil {
		t.Fatal(err)
	}
}

// round is one rollback under load and the restore.
func (s Scenario) round(t testing.TB, r *harness.Gate, clients *Clients) time.Duration {
	t.Helper()
	before := r.Status(t)["main"]
	retrying := clients.StartRetrying(s.Retrying, s.RetryPause)
	harness.Eventually(t, "every client that retries is refused", func() bool { return retrying.MinRefusals() >= 3 })
	ordered := time.Now()
	rollback := s.Rollback
	if rollback == nil {
		rollback = func(_ testing.TB, r *harness.Gate) error {
			_, err := r.SetMode("passthrough")
			return err
		}
	}
	if err := rollback(t, r); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, "every client that retries is admitted", func() bool {
		return r.Status(t)["main"].QueueDepth == before.QueueDepth+s.Retrying
	})
	mustSetMode(t, r, "restore")
	after := r.Status(t)["main"]
	if after.InFlight != before.InFlight || after.QueueDepth != before.QueueDepth+s.Retrying || after.Mode != "enforce" {
		t.Fatalf("before: %+v, after rollback and restore: %+v", before, after)
	}
	return retrying.timeToEffect(ordered)
}

// checkAudit checks that the audit has the first mode, and the rollback and restore of
// fillGate and of each round, in order.
func checkAudit(t testing.TB, r *harness.Gate, rounds int) {
	t.Helper()
	audit := r.Audit(t)
	if want := 1 + 2*(rounds+1); len(audit) != want {
		t.Errorf("%d changes in the audit, want %d", len(audit), want)
	}
	CheckChain(t, audit)
}

// checkUnrecordedReported checks that a metric and the log report changes which could not
// be recorded.
func checkUnrecordedReported(t testing.TB, r *harness.Gate) {
	t.Helper()
	if n := r.Metric(t, "headgate_journal_errors_total", "op", "record_mode"); n == 0 {
		t.Error("no metric reports the unrecorded changes")
	}
	if said := r.Stderr(); !strings.Contains(said, "applied but not recorded") || !strings.Contains(said, `"level":"ERROR"`) {
		t.Error("no error in the log reports the unrecorded changes")
	}
}

// checkNoTaskLost lets the upstream answer, and compares the counts of the clients, the
// upstream and the gate.
func checkNoTaskLost(t testing.TB, r *harness.Gate, upstream *harness.HeldUpstream, clients *Clients, s Scenario) {
	t.Helper()
	total := s.Clients + s.Rounds*s.Retrying
	upstream.Release()
	answers, err := clients.Wait(answerTimeout)
	if err != nil {
		t.Error(err)
	}
	lost := map[string]int{}
	for _, a := range answers {
		if a.Status != 200 || !a.Complete {
			lost[fmt.Sprintf("status %d, reason %q, error %v", a.Status, a.Reason, a.Err)]++
		}
	}
	if len(answers) != total || len(lost) > 0 {
		t.Errorf("%d tasks ended, want %d; lost: %v", len(answers), total, lost)
	}
	if got := upstream.Calls(); got != total || upstream.Disconnected() != 0 {
		t.Errorf("the upstream had %d calls and lost %d, want %d and none", got, upstream.Disconnected(), total)
	}
	harness.Eventually(t, "the gate has counted all tasks", func() bool { return r.Metric(t, "headgate_tasks_total", "outcome", "completed") == total })
	if got, want := r.Metric(t, "headgate_tasks_total", "outcome", "refused"), clients.Refusals(); got != want {
		t.Errorf("the gate counted %d refusals, the clients %d", got, want)
	}
	if got, want := r.Metric(t, "headgate_tasks_total"), total+clients.Refusals(); got != want {
		t.Errorf("the gate counted %d tasks, want %d", got, want)
	}
}

// CheckChain checks that each change of an audit, newest first, starts from the mode in
// which the change before it left the same pool.
func CheckChain(t testing.TB, audit []harness.ModeChange) {
	t.Helper()
	at := map[string]string{}
	seen := map[string]bool{}
	for _, c := range slices.Backward(audit) {
		if was, known := at[c.Pool]; known && was != c.From {
			t.Errorf("after mode %s the audit has %+v", was, c)
		}
		if seen[c.ID] {
			t.Errorf("%s is in the audit twice", c.ID)
		}
		at[c.Pool], seen[c.ID] = c.To, true
	}
}

// FormatQuantiles returns the quantiles of durations as text.
func FormatQuantiles(d []time.Duration) string {
	if len(d) == 0 {
		return "nothing measured"
	}
	d = slices.Sorted(slices.Values(d))
	at := func(q float64) time.Duration {
		return d[int(math.Ceil(q*float64(len(d))))-1].Round(100 * time.Microsecond)
	}
	return fmt.Sprintf("p50 %v, p99 %v, most %v, of %d", at(0.5), at(0.99), d[len(d)-1].Round(100*time.Microsecond), len(d))
}

// NamedScenario is a scenario with its name.
type NamedScenario struct {
	Name string
	Scenario
}

// Scenarios returns the ways to roll back under load. In each, 1,000 tasks or more are in
// flight or queued at the end. Scenarios whose database cannot be written have a tenth of
// the rounds: each change waits 2 s for its record.
func Scenarios(rounds int) []NamedScenario {
	quiet := Scenario{Clients: 1000, Workers: 64, Retrying: 4, RetryPause: 5 * time.Millisecond, Rounds: rounds}
	full := quiet
	full.Retrying, full.RetryPause = 16, 0
	with := func(s Scenario, change func(*Scenario)) Scenario {
		change(&s)
		return s
	}
	slow := max(rounds/10, 2)
	return []NamedScenario{
		{"by the API", quiet},
		{"by the command", with(quiet, func(s *Scenario) { s.Rollback = rollbackByCommand })},
		{"by the API, saturated", full},
		{"by the command, saturated", with(full, func(s *Scenario) { s.Rollback = rollbackByCommand })},
		{"by the API, database locked", with(quiet, func(s *Scenario) { s.Fault, s.Rollback, s.Rounds = LockDatabase, rollbackUnrecorded, slow })},
		{"by the API, disk full", with(quiet, func(s *Scenario) {
			s.Setup, s.Fault, s.Rollback, s.Rounds = SmallDisk, fillDataDir, rollbackUnrecorded, slow
		})},
	}
}

func fillDataDir(t testing.TB, dir string) func() {
	t.Helper()
	return FillDisk(t, harness.DataDir(dir))
}

func rollbackByCommand(t testing.TB, r *harness.Gate) error {
	t.Helper()
	d := r.Command(t, "rollback", "--json")
	if reply := d.Result(t); d.ExitCode != 0 || reply.Path != "api" || !reply.Recorded {
		return fmt.Errorf("exit code %d, %s%s", d.ExitCode, d.Stdout, d.Stderr)
	}
	return nil
}

// rollbackUnrecorded rolls back while nothing can be recorded; the reply must say so.
func rollbackUnrecorded(t testing.TB, r *harness.Gate) error {
	t.Helper()
	reply, err := r.SetMode("passthrough")
	if err == nil && reply.Recorded {
		err = fmt.Errorf("recorded, although that cannot be: %+v", reply)
	}
	return err
}
