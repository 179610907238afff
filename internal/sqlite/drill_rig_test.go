package sqlite

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"headgate/runbooks/drill"
)

// lease is longer than any test takes, as the tests' clock goes.
const lease = 30 * time.Second

func fullSpec(id string) drill.Spec {
	at := drill.Expectation{Measure: drill.P95, Compare: drill.AtMost, Limit: 60, Unit: "s"}
	return drill.Spec{
		ID: id, Name: "Weekly " + id, Note: "why\nand how", Owner: "@anna <b>", BuiltIn: true,
		Schedule: "0 9 * * 1", Zone: "Europe/London", CatchUp: 2 * time.Hour, Target: drill.Live, Pool: "default", Share: 0.25, Marked: true,
		Scenario: drill.Scenario{
			Duration: 300 * time.Second, Workers: 16, Baseline: 30 * time.Second, Service: "uniform:5s-30s", Seed: 1<<64 - 1,
			Arrivals: drill.Arrivals{Rate: 0.8, Bursts: []drill.Burst{{From: time.Second, To: time.Minute, Multiple: 2}}, LargeShare: 0.1, Stream: true},
			Faults:   []drill.Injection{injection("latency", 0.5, time.Second, 0)},
			Slack:    []drill.Injection{injection("status", 1, 0, 503)},
			Steps:    []drill.Step{{Kind: drill.StepRollback, At: time.Second, For: time.Minute}},
		},
		Expect: []drill.Expectation{at}, AbortIf: []drill.Expectation{{Measure: drill.LateShare, Compare: drill.AtLeast, Limit: 0.5, Unit: "ratio"}},
		Recovery: time.Minute,
	}
}

func injection(kind string, share float64, delay time.Duration, code int) drill.Injection {
	i := drill.Injection{From: time.Second, For: time.Minute}
	text := fmt.Sprintf(`{"kind":%q,"share":%v}`, kind, share)
	if err := json.Unmarshal([]byte(text), &i.Fault); err != nil {
		panic(err)
	}
	i.Delay, i.Jitter, i.Code, i.AfterBytes = delay, delay/1000, code, 7
	return i
}

// newScheduledRun is a run as it is when it is claimed.
func newScheduledRun(id, of string) drill.Run {
	return drill.Run{
		ID: id, Drill: of, Name: "Weekly " + of, Spec: fullSpec(of), Version: "1.2.3", Trigger: drill.BySchedule, Actor: "schedule",
		Speed: 2.5, Scheduled: noon, Started: noon.Add(time.Second), Status: drill.Claimed,
		Phases: []drill.Phase{{Name: drill.PhaseClaim, Started: noon.Add(time.Second)}},
	}
}

// newManualRun is a run of no occurrence.
func newManualRun(id, of string) drill.Run {
	r := newScheduledRun(id, of)
	r.Trigger, r.Scheduled, r.Actor = drill.ByHand, time.Time{}, "anna@host"
	return r
}

// withProgress is a run in which everything is set that can be before its end.
func withProgress(r drill.Run, points int) drill.Run {
	r.Status, r.Injected, r.ClearTook, r.Recovered = drill.Running, 12, 3*time.Millisecond+1, 20*time.Second
	r.Phases = []drill.Phase{
		{Name: drill.PhaseClaim, Started: noon, Ended: noon.Add(time.Second), Note: "fence 1"}, {Name: drill.PhaseInject, Started: noon.Add(time.Second)},
	}
	r.Hypotheses = []drill.Hypothesis{
		{Expectation: r.Spec.Expect[0], Measured: true, Value: 41.25, Margin: 0.3125, Passed: true, Evidence: "generator: 80 tasks"},
		{Expectation: drill.Expectation{Measure: drill.TimeToPage, Compare: drill.AtMost, Limit: 30, Unit: "s"}, Reason: "no page <came> & went"},
		{Expectation: drill.Expectation{Measure: drill.Pages, Compare: drill.Equal, Limit: 1, Unit: "messages"}, Measured: true, Value: 1, Margin: 0.125, Passed: true},
	}
	r.Reverts = []drill.RevertResult{{What: "rollback", At: noon.Add(time.Minute), Took: time.Second, OK: true, Note: "restored"}}
	r.Messages = []drill.Message{{Incident: "i-1", Kind: "post", Level: "page", Channel: "C1", Text: "DRILL \"old\"\nsecond line", FirstAttempt: noon.Add(time.Second), Accepted: noon.Add(time.Minute)}}
	r.Series = series(points)
	return r
}

func series(n int) (points []drill.Point) {
	for i := range n {
		p := drill.Point{At: float64(i-30) + 0.125, Turnaround: float64(i%70) + 0.25, QueueAge: float64(i%25) / 2, Depth: i % 9, InFlight: 4, Arrived: i, Served: 2, Refused: i % 3, Errors: i % 2}
		if i%5 == 0 {
			p.Turnaround = -1
		}
		points = append(points, p)
	}
	return points
}

func withVerdict(r drill.Run, v drill.Verdict) drill.Run {
	r.Status, r.Verdict, r.Reason, r.Ended = drill.Ended, v, "because; 'really'", r.Started.Add(5*time.Minute)
	return r
}

func mustClaim(t testing.TB, s *Store, now time.Time, r drill.Run) drill.Run {
	t.Helper()
	fence, err := s.Drills().Claim(t.Context(), now, r, lease)
	if err != nil {
		t.Fatal(err)
	}
	r.Fence = fence
	return r
}

func mustSaveRun(t testing.TB, s *Store, now time.Time, r drill.Run) drill.Run {
	t.Helper()
	if err := s.Drills().Save(t.Context(), now, r); err != nil {
		t.Fatal(err)
	}
	return r
}

// recordEndedRun claims a run by hand and ends it.
func recordEndedRun(t testing.TB, s *Store, id, of string, at time.Time, v drill.Verdict) drill.Run {
	t.Helper()
	r := newManualRun(id, of)
	r.Started = at
	return mustSaveRun(t, s, at, withVerdict(mustClaim(t, s, at, r), v))
}

func mustLoadRun(t testing.TB, s *Store, id string) drill.Run {
	t.Helper()
	r, err := s.Drills().Run(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// listRunIDs returns the IDs of all pages.
func listRunIDs(t testing.TB, s *Store, q drill.Query) (ids []string) {
	t.Helper()
	for range 1000 {
		runs, next, err := s.Drills().Runs(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range runs {
			ids = append(ids, r.ID)
		}
		if next == "" {
			return ids
		}
		q.After = next
	}
	t.Fatal("the pages do not end")
	return nil
}

func runID(n int) string { return fmt.Sprintf("r-%04d", n) }
