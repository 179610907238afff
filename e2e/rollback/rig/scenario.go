package rig

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
	Crowd   int           // tasks that run or wait from the beginning
	Workers int           // so many of them run
	Press   int           // clients that are refused in each round
	Pause   time.Duration // of theirs after a refusal; 0 saturates the data plane
	Rounds  int
	// Roll orders the rollback, by the API if nil. It returns nil once the order
	// is known to be carried out.
	Roll func(t testing.TB, r *Rig) error
	// Around gets in the way of the record, and returns what stops that.
	Around func(t testing.TB, dir string) (stop func())
	Prep   func(t testing.TB, dir string) bool // before the start; false: it cannot be
}

const atEase = 60 * time.Second // for thousands of clients to be told

// Run returns the moments of all rollbacks. Everybody's task ends whole.
func (s Scenario) Run(t testing.TB) []time.Duration {
	t.Helper()
	dir := t.TempDir()
	if s.Prep != nil && !s.Prep(t, dir) {
		return nil
	}
	upstream := harness.StartHeld(t)
	Write(t, dir, "", Pool("main", upstream.URL, s.Workers))
	r := Start(t, dir)
	crowd := r.gather(t, s)
	stop := func() {}
	if s.Around != nil {
		stop = s.Around(t, dir)
	}
	var moments []time.Duration
	for range s.Rounds {
		moments = append(moments, s.round(t, r, crowd))
	}
	stop()
	if s.Around != nil {
		r.checkTold(t)
	}
	r.AwaitRecord(t)
	r.checkRecord(t, s.Rounds)
	r.checkNobodyLost(t, upstream, crowd, s)
	return moments
}

// gather fills the gate: who comes while nothing is refused stays when it is.
func (r *Rig) gather(t testing.TB, s Scenario) *Crowd {
	t.Helper()
	crowd := NewCrowd(r.URL)
	r.mustOrder(t, "passthrough")
	crowd.Join(s.Crowd)
	harness.Until(t, "the crowd is in", func() bool {
		p := r.Status(t)["main"]
		return p.InFlight == s.Workers && p.InFlight+p.QueueDepth == s.Crowd
	})
	r.mustOrder(t, "restore")
	return crowd
}

func (r *Rig) mustOrder(t testing.TB, mode string) {
	t.Helper()
	if _, err := r.Order(mode); err != nil {
		t.Fatal(err)
	}
}

// round is one rollback under load, and the way back.
func (s Scenario) round(t testing.TB, r *Rig, crowd *Crowd) time.Duration {
	t.Helper()
	before := r.Status(t)["main"]
	press := crowd.Press(s.Press, s.Pause)
	harness.Until(t, "all of the press are refused", func() bool { return press.Refused() >= 3 })
	ordered := time.Now()
	roll := s.Roll
	if roll == nil {
		roll = func(_ testing.TB, r *Rig) error {
			_, err := r.Order("passthrough")
			return err
		}
	}
	if err := roll(t, r); err != nil {
		t.Fatal(err)
	}
	harness.Until(t, "all of the press are in", func() bool {
		return r.Status(t)["main"].QueueDepth == before.QueueDepth+s.Press
	})
	r.mustOrder(t, "restore")
	after := r.Status(t)["main"]
	if after.InFlight != before.InFlight || after.QueueDepth != before.QueueDepth+s.Press || after.Mode != "enforce" {
		t.Fatalf("before: %+v, after rollback and restore: %+v", before, after)
	}
	return press.moment(ordered)
}

// checkRecord holds the audit against what was done: gather's rollback and
// restore, and those of all rounds, in order.
func (r *Rig) checkRecord(t testing.TB, rounds int) {
	t.Helper()
	audit := r.Audit(t)
	if want := 1 + 2*(rounds+1); len(audit) != want {
		t.Errorf("%d changes in the audit, want %d", len(audit), want)
	}
	CheckChain(t, audit)
}

// checkTold sees to it that orders which could not be recorded were told of.
func (r *Rig) checkTold(t testing.TB) {
	t.Helper()
	if n := r.Count(t, "headgate_journal_errors_total", "op", "record_mode"); n == 0 {
		t.Error("no metric tells of what could not be recorded")
	}
	if said := r.Stderr(); !strings.Contains(said, "applied but not recorded") || !strings.Contains(said, `"level":"ERROR"`) {
		t.Error("no error in the log tells of what could not be recorded")
	}
}

// checkNobodyLost lets the upstream answer and holds what the clients, the
// upstream and the gate say against each other.
func (r *Rig) checkNobodyLost(t testing.TB, upstream *harness.Held, crowd *Crowd, s Scenario) {
	t.Helper()
	total := s.Crowd + s.Rounds*s.Press
	upstream.Finish()
	answers, err := crowd.Ended(atEase)
	if err != nil {
		t.Error(err)
	}
	lost := map[string]int{}
	for _, a := range answers {
		if a.Status != 200 || !a.Whole {
			lost[fmt.Sprintf("status %d, reason %q, error %v", a.Status, a.Reason, a.Err)]++
		}
	}
	if len(answers) != total || len(lost) > 0 {
		t.Errorf("%d tasks ended, want %d; lost: %v", len(answers), total, lost)
	}
	if got := upstream.Calls(); got != total || upstream.Gone() != 0 {
		t.Errorf("the upstream had %d calls and lost %d, want %d and none", got, upstream.Gone(), total)
	}
	harness.Until(t, "the gate has counted", func() bool { return r.Count(t, "headgate_tasks_total", "outcome", "completed") == total })
	if got, want := r.Count(t, "headgate_tasks_total", "outcome", "refused"), crowd.Refused(); got != want {
		t.Errorf("the gate counted %d refusals, the clients %d", got, want)
	}
	if got, want := r.Count(t, "headgate_tasks_total"), total+crowd.Refused(); got != want {
		t.Errorf("the gate counted %d tasks, want %d", got, want)
	}
}

// CheckChain sees to it that each change in an audit, newest first, begins where
// the one before it in the same pool ended.
func CheckChain(t testing.TB, audit []Change) {
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

// Spread tells the middle and the end of durations.
func Spread(d []time.Duration) string {
	if len(d) == 0 {
		return "nothing measured"
	}
	d = slices.Sorted(slices.Values(d))
	at := func(q float64) time.Duration {
		return d[int(math.Ceil(q*float64(len(d))))-1].Round(100 * time.Microsecond)
	}
	return fmt.Sprintf("p50 %v, p99 %v, most %v, of %d", at(0.5), at(0.99), d[len(d)-1].Round(100*time.Microsecond), len(d))
}
