package ui_test

import (
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"headgate/proxy/fault"
	"headgate/runbooks/drill"
	"headgate/web/api"
	"headgate/web/api/apitest"
)

// runSeriesOf is a point for each scenario second from a minute before to the end.
func runSeriesOf(seconds int) (all []drill.Point) {
	for n := range seconds {
		at := float64(n - 59)
		p := drill.Point{At: at, Turnaround: 20 + 20*math.Sin(at/40), QueueAge: max(0, 25*math.Sin(at/60)), Depth: n % 30, InFlight: 16, Arrived: n % 2, Served: 1, Refused: n % 3 / 2}
		if n < 10 {
			p.Turnaround = -1 // nothing was served yet
		}
		all = append(all, p)
	}
	return all
}

// withMessages fills all that a run can hold with a text.
func withMessages(r drill.Run, text string) drill.Run {
	r.Name, r.Actor, r.Version, r.Reason, r.Trigger = text, text, text, text, drill.Trigger(text)
	r.Spec.Name, r.Spec.Note, r.Spec.Owner, r.Spec.Pool, r.Spec.Schedule, r.Spec.Zone = text, text, text, text, text, text
	r.Spec.Scenario.Faults = []drill.Injection{{Fault: fault.Fault{Kind: fault.Kind(text), Share: 1}, From: time.Minute, For: time.Minute}}
	r.Spec.Scenario.Steps = []drill.Step{{Kind: drill.StepKind(text), At: 30 * time.Second}}
	r.Hypotheses = append(slices.Clone(r.Hypotheses),
		drill.Hypothesis{Expectation: drill.Expectation{Measure: drill.Measure(text), Compare: drill.Compare(text), Limit: 1, Unit: text}, Measured: true, Value: 2, Margin: -1, Evidence: text},
		drill.Hypothesis{Expectation: drill.Expectation{Measure: drill.Pages, Compare: drill.Equal, Limit: 1, Unit: "messages"}, Reason: text})
	r.Phases = append(slices.Clone(r.Phases), drill.Phase{Name: drill.PhaseName(text), Started: r.Ended, Ended: r.Ended, Note: text})
	r.Reverts = []drill.RevertResult{{What: text, At: r.Ended, Took: 3 * time.Millisecond, OK: true, Note: text}, {What: text, At: r.Ended, Note: text}}
	r.Messages = []drill.Message{{Incident: text, Kind: text, Level: text, Channel: text, Text: text, Accepted: r.Ended}, {Text: text}}
	r.Series = runSeriesOf(480)
	return r
}

// drillsWithText are drills with a run whose every text is one that is given.
func drillsWithText(t *testing.T, text string) *api.DrillPorts {
	t.Helper()
	drills := apitest.NewDrills()
	other := endedRun(0)
	other.Spec.Note, other.Spec.Scenario.Service = text, text
	drills.AddRuns(other, withMessages(failedRun(endedRun(1), text), text))
	if _, err := drills.Start(t.Context(), drill.StartRequest{Name: "odd", Actor: text, Reason: text}); err != nil {
		t.Fatal(err)
	}
	drills.UpdateRunning(func(r *drill.Run) {
		live := withMessages(*r, text)
		live.Started, live.Status = r.Started, r.Status
		*r = live
	})
	return drills.Ports()
}

func TestRunShowsAll(t *testing.T) {
	before := endedRun(0)
	before.Series = nil
	run := failedRun(endedRun(24), "p95_turnaround was 72 s, must be at most 60 s")
	run.Spec.Scenario.Workers = 12
	run.Spec.Note, run.Spec.Owner = "Twice the load.", "@oncall"
	run.Spec.Scenario.Faults = []drill.Injection{{Fault: fault.Fault{Kind: fault.Latency, Share: 1, Delay: 15 * time.Second}, From: time.Minute, For: 2 * time.Minute}}
	run.Hypotheses = append(run.Hypotheses, drill.Hypothesis{Expectation: drill.Expectation{Measure: drill.TimeToPage, Compare: drill.AtMost, Limit: 60, Unit: "s"}, Reason: "no page came"})
	run.Series = runSeriesOf(480)
	run.Messages = []drill.Message{{Incident: "01abc", Kind: "post", Level: "page", Channel: "#drills", Text: "DRILL: the queue is old", Accepted: run.Ended}}
	run.Reverts = []drill.RevertResult{{What: "step rollback at 30s", At: run.Ended, Took: 4 * time.Millisecond, OK: true}, {What: "fault latency", At: run.Ended, Note: "it did not answer"}}
	stopped := endedRun(12)
	stopped.Verdict = drill.Aborted
	r, _ := newDrillFixture(t, before, stopped, run)
	page := r.signedIn().get("/drills/runs/"+run.ID).want(http.StatusOK,
		"✗ Failed", "must be at most 60 s.", "Twice the load.", "@oncall", "due 3 Mar 2026 09:30:00 UTC", "at 10 scenario seconds a second", "31 cleared in 40 ms",
		"Evidence ✗ Did not hold p95 72 s at most 60 s missed by 20 % load generator: 240 tasks", "✓ Held served share 80 % at least 55 %", "? Not known time to page not known at most 60 s – no page came",
		"Inject", "as planned", "DRILL: the queue is old", "Page post to #drills", "✓ step rollback at 30s", "✗ Not fault latency",
		"the definition has changed", "p95 41 s of 60 s 72 s of 60 s ▾ no longer holds", "served share 80 % of at least 55 % 80 % of at least 55 % the same", "time to page – not known of 60 s was not required",
		"workers: 12", "+ workers: 12", "− workers: 16", "latency", "load × 2", "limit for the whole run 60 s", "12 workers")
	if !slices.Contains(page.links(), "/drills/runs/"+before.ID) {
		t.Errorf("no link to the run before: %q", page.links())
	}
	if n := len(page.elements("svg")); n < 6 {
		t.Errorf("%d pictures", n)
	}
	page.wantWithout("Abort", "data-refresh-every")
	if len(page.body) > 100<<10 {
		t.Errorf("%d bytes", len(page.body))
	}
}

// TestChartsOfARun: peaks stay, what was not measured is a gap, times are those of
// the scenario, and the limits of the pool are there where they hold.
func TestChartsOfARun(t *testing.T) {
	run := endedRun(0)
	run.Spec.Scenario.Workers = 0
	run.Series = runSeriesOf(480)
	run.Series[299].Depth = 77
	r, _ := newDrillFixture(t, run)
	page := r.signedIn().get("/drills/runs/"+run.ID).want(http.StatusOK,
		"Waiting tasks of Burst", "waiting: at most 77 tasks, at 4 min", "From −1 min to 7 min.", "Load × 2 from 2 min to 4 min.", "the pool refuses above 25 s", "the pool refuses above 8", "0 2 min 4 min 6 min")
	if got := strings.Count(page.body, "M"); got < 10 {
		t.Errorf("%d lines", got)
	}
	whole := page.findNode(func(n *html.Node) bool {
		return n.Data == "path" && strings.Contains(attr(n, "class"), "line l1") && attr(n, "d") != "M0 4h18"
	})
	if whole == nil || strings.Count(attr(whole, "d"), "M") != 1 {
		t.Errorf("the line of p95 is %v", whole)
	}
}

// TestLongRunsFit: as many points as there can be, and texts without end.
func TestLongRunsFit(t *testing.T) {
	run := withMessages(endedRun(0), strings.Repeat("long text ", 300))
	run.Name, run.Series = "Burst", runSeriesOf(drill.MaxPoints)
	for range 300 {
		run.Messages = append(run.Messages, run.Messages[0])
		run.Reverts = append(run.Reverts, run.Reverts[0])
	}
	r, _ := newDrillFixture(t, run)
	page := r.signedIn().get("/drills/runs/"+run.ID).want(http.StatusOK, "272 more", "272 more")
	if len(page.body) > 150<<10 {
		t.Errorf("%d bytes", len(page.body))
	}
}

// TestARunThatNeverBegan has nothing to draw, and says why.
func TestARunThatNeverBegan(t *testing.T) {
	run := drill.Run{ID: runID(0), Drill: "burst", Name: "Burst", Trigger: drill.BySchedule, Scheduled: firstRunAt, Status: drill.Ended, Verdict: drill.Missed,
		Reason: "headgate was not running", Count: 3}
	r, _ := newDrillFixture(t, run)
	r.signedIn().get("/drills/runs/"+run.ID).want(http.StatusOK, "○ Missed", "Headgate was not running (3 due times).", "not at all", "None was judged").
		wantWithout("What was seen", "Phases", "Compared with the previous run", "As YAML")
}

func TestThereIsNoSuchRun(t *testing.T) {
	r, drills := newDrillFixture(t, endedRun(0))
	b := r.signedIn()
	for _, id := range []string{runID(7), "none"} {
		b.get("/drills/runs/"+id).want(http.StatusNotFound, "There is no such run")
		b.get("/drills/runs/"+id+"/abort").want(http.StatusNotFound, "There is no such run")
	}
	drills.SetError(errBroken)
	b.get("/drills/runs/"+runID(0)).want(http.StatusServiceUnavailable, "The record cannot be read")
	r.browser().get("/drills/runs/" + runID(0)).want(http.StatusSeeOther)
}
