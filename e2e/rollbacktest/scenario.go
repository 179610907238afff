package rollbacktest

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"headgate/e2e/harness"
)

// Scenario is rollbacks and restores over and over, while nothing may be lost.
type Scenario struct {
	Clients    int           // tasks that run or wait from the beginning
	Workers    int           // so many of them run
	Retrying   int           // clients that are refused in each round
	RetryPause time.Duration // of theirs after a refusal; 0 saturates the data plane
	Rounds     int
	// Roll orders the rollback, by the API if nil. It returns nil once the order
	// is known to be carried out.
	Rollback func(t testing.TB, r *Instance) error
	// Around gets in the way of the record, and returns what stops that.
	Fault func(t testing.TB, dir string) (stop func())
	Setup func(t testing.TB, dir string) bool // before the start; false: it cannot be
}

const answerTimeout = 60 * time.Second // for thousands of clients to be told

// Run returns the moments of all rollbacks. Everybody's task ends whole.
func (s Scenario) Run(t testing.TB) []time.Duration {
	t.Helper()
	dir := t.TempDir()
	if s.Setup != nil && !s.Setup(t, dir) {
		return nil
	}
	upstream := harness.StartHeldUpstream(t)
	WriteSettings(t, dir, "", PoolSettings("main", upstream.URL, s.Workers))
	r := Start(t, dir)
	crowd := r.fillGate(t, s)
	stop := func() {}
	if s.Fault != nil {
		stop = s.Fault(t, dir)
	}
	var moments []time.Duration
	for range s.Rounds {
		moments = append(moments, s.round(t, r, crowd))
	}
	stop()
	if s.Fault != nil {
		r.checkUnrecordedReported(t)
	}
	r.AwaitRecorded(t)
	r.checkAudit(t, s.Rounds)
	r.checkNoTaskLost(t, upstream, crowd, s)
	return moments
}

// fillGate fills the gate: who comes while nothing is refused stays when it is.
func (r *Instance) fillGate(t testing.TB, s Scenario) *Clients {
	t.Helper()
	crowd := NewClients(r.URL)
	r.mustSetMode(t, "passthrough")
	crowd.Start(s.Clients)
	harness.Eventually(t, "the crowd is in", func() bool {
		p := r.Status(t)["main"]
		return p.InFlight == s.Workers && p.InFlight+p.QueueDepth == s.Clients
	})
	r.mustSetMode(t, "restore")
	return crowd
}

func (r *Instance) mustSetMode(t testing.TB, mode string) {
	t.Helper()
	if _, err := r.SetMode(mode); err != nil {
		t.Fatal(err)
	}
}

// round is one rollback under load, and the way back.
func (s Scenario) round(t testing.TB, r *Instance, crowd *Clients) time.Duration {
	t.Helper()
	before := r.Status(t)["main"]
	press := crowd.StartRetrying(s.Retrying, s.RetryPause)
	harness.Eventually(t, "all of the press are refused", func() bool { return press.MinRefusals() >= 3 })
	ordered := time.Now()
	roll := s.Rollback
	if roll == nil {
		roll = func(_ testing.TB, r *Instance) error {
			_, err := r.SetMode("passthrough")
			return err
		}
	}
	if err := roll(t, r); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, "all of the press are in", func() bool {
		return r.Status(t)["main"].QueueDepth == before.QueueDepth+s.Retrying
	})
	r.mustSetMode(t, "restore")
	after := r.Status(t)["main"]
	if after.InFlight != before.InFlight || after.QueueDepth != before.QueueDepth+s.Retrying || after.Mode != "enforce" {
		t.Fatalf("before: %+v, after rollback and restore: %+v", before, after)
	}
	return press.timeToEffect(ordered)
}

// checkAudit holds the audit against what was done: gather's rollback and
// restore, and those of all rounds, in order.
func (r *Instance) checkAudit(t testing.TB, rounds int) {
	t.Helper()
	audit := r.Audit(t)
	if want := 1 + 2*(rounds+1); len(audit) != want {
		t.Errorf("%d changes in the audit, want %d", len(audit), want)
	}
	CheckChain(t, audit)
}

// checkUnrecordedReported sees to it that orders which could not be recorded were told of.
func (r *Instance) checkUnrecordedReported(t testing.TB) {
	t.Helper()
	if n := r.Metric(t, "headgate_journal_errors_total", "op", "record_mode"); n == 0 {
		t.Error("no metric tells of what could not be recorded")
	}
	if said := r.Stderr(); !strings.Contains(said, "applied but not recorded") || !strings.Contains(said, `"level":"ERROR"`) {
		t.Error("no error in the log tells of what could not be recorded")
	}
}

// checkNoTaskLost lets the upstream answer and holds what the clients, the
// upstream and the gate say against each other.
func (r *Instance) checkNoTaskLost(t testing.TB, upstream *harness.HeldUpstream, crowd *Clients, s Scenario) {
	t.Helper()
	total := s.Clients + s.Rounds*s.Retrying
	upstream.Release()
	answers, err := crowd.Wait(answerTimeout)
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
	harness.Eventually(t, "the gate has counted", func() bool { return r.Metric(t, "headgate_tasks_total", "outcome", "completed") == total })
	if got, want := r.Metric(t, "headgate_tasks_total", "outcome", "refused"), crowd.Refusals(); got != want {
		t.Errorf("the gate counted %d refusals, the clients %d", got, want)
	}
	if got, want := r.Metric(t, "headgate_tasks_total"), total+crowd.Refusals(); got != want {
		t.Errorf("the gate counted %d tasks, want %d", got, want)
	}
}

// CheckChain sees to it that each change in an audit, newest first, begins where
// the one before it in the same pool ended.
func CheckChain(t testing.TB, audit []ModeChange) {
	t.Helper()
	at := map[string]string{}
	seen := map[string]bool{}
	for _, c := range slices.Backward(audit) {
		if was, known := at[c.Pool]; known && was != c.From {
			t.Errorf("the audit goes from %s to %+v", was, c)
		}
		if seen[c.ID] {
			t.Errorf("%s is in the audit twice", c.ID)
		}
		at[c.Pool], seen[c.ID] = c.To, true
	}
}

// FormatQuantiles tells the middle and the end of durations.
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
