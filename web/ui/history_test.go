package ui_test

import (
	"encoding/csv"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"headgate/runbooks/drill"
	"headgate/web/api/apitest"
)

// firstRunAt is when the runs of these tests began, hours apart.
var firstRunAt = time.Date(2026, 3, 2, 9, 30, 0, 0, time.UTC)

// runID is the ID of the run with a number.
func runID(n int) string { return fmt.Sprintf("01a22990-4f00-7a3e-8d51-%012d", n) }

// endedRun is a run of burst that passed, all of it filled in.
func endedRun(n int) drill.Run {
	at := firstRunAt.Add(time.Duration(n) * time.Hour)
	spec := apitest.NewDrills().Specs()[0]
	spec.Scenario = drill.Scenario{Duration: 5 * time.Minute, Workers: 16, Baseline: time.Minute, Service: "uniform:5s-30s",
		Arrivals: drill.Arrivals{Rate: 0.8, Bursts: []drill.Burst{{From: 2 * time.Minute, To: 4 * time.Minute, Multiple: 2}}}}
	return drill.Run{
		ID: runID(n), Drill: "burst", Name: "Burst", Spec: spec, Version: "v1", Trigger: drill.BySchedule, Actor: "schedule", Speed: 10,
		Scheduled: at, Started: at.Add(2 * time.Second), Ended: at.Add(43 * time.Second), Status: drill.Ended, Verdict: drill.Passed,
		ClearTook: 40 * time.Millisecond, Recovered: 72 * time.Second, Injected: 31,
		Hypotheses: []drill.Hypothesis{
			{Expectation: spec.Expect[0], Measured: true, Value: 41, Margin: (60. - 41) / 60, Passed: true, Evidence: "load generator: 240 tasks"},
			{Expectation: drill.Expectation{Measure: drill.ServedShare, Compare: drill.AtLeast, Limit: 0.55, Unit: "ratio"}, Measured: true, Value: 0.8, Margin: 0.45, Passed: true},
		},
		Phases: []drill.Phase{{Name: drill.PhaseBaseline, Started: at, Ended: at.Add(6 * time.Second)}, {Name: drill.PhaseInject, Started: at.Add(6 * time.Second), Ended: at.Add(40 * time.Second), Note: "as planned"}},
	}
}

// failedRun makes a run one that did not pass.
func failedRun(r drill.Run, why string) drill.Run {
	r.Verdict, r.Reason = drill.Failed, why
	r.Hypotheses = slices.Clone(r.Hypotheses)
	r.Hypotheses[0].Value, r.Hypotheses[0].Margin, r.Hypotheses[0].Passed = 72, -0.2, false
	return r
}

func newDrills(runs ...drill.Run) *apitest.Drills {
	drills := apitest.NewDrills()
	drills.AddRuns(runs...)
	return drills
}

func newDrillFixture(t *testing.T, runs ...drill.Run) (*fixture, *apitest.Drills) {
	t.Helper()
	drills := newDrills(runs...)
	return newFixture(t, fixtureOptions{drills: drills.Ports()}), drills
}

func TestHistoryListsRuns(t *testing.T) {
	skipped := drill.Run{ID: runID(2), Drill: "live", Name: "Live latency", Trigger: drill.ByCatchUp, Scheduled: firstRunAt.Add(2 * time.Hour), Started: firstRunAt.Add(2 * time.Hour),
		Status: drill.Ended, Verdict: drill.Skipped, Reason: "production has an open page"}
	passed := endedRun(0)
	passed.Reason = "all 2 hypotheses held"
	r, _ := newDrillFixture(t, passed, failedRun(endedRun(1), "p95_turnaround was 72 s, must be at most 60 s"), skipped)
	r.signedIn().get("/drills/runs/"+passed.ID).want(http.StatusOK, "All 2 hypotheses held.")
	page := r.signedIn().get("/drills").want(http.StatusOK,
		"✓ Passed", "p95 41 s of 60 s", "32 % to spare", "clear in 40 ms", "recovered after 72 s", "schedule", "due 09:30:00 UTC", "2 Mar 2026 09:30:02 UTC", "41 s", "at × 10",
		"✗ Failed", "p95 72 s of 60 s", "missed by 20 %", "p95_turnaround was 72 s, must be at most 60 s",
		"Skipped", "Live latency", "catch-up", "production has an open page").wantWithout("hypotheses held")
	for _, want := range []string{"/drills/runs/" + runID(0), "/api/v1/runs.json", "/api/v1/runs.csv"} {
		if !slices.Contains(page.links(), want) {
			t.Errorf("no link to %s: %q", want, page.links())
		}
	}
	if at := strings.Index(page.text(), "✗ Failed p95"); at > strings.Index(page.text(), "✓ Passed") {
		t.Error("the newest run is not the first")
	}
}

func TestHistoryIsFiltered(t *testing.T) {
	other := endedRun(30)
	other.Drill, other.Name, other.Trigger, other.Actor = "live", "Live latency", drill.ByHand, "ben"
	r, _ := newDrillFixture(t, endedRun(0), failedRun(endedRun(1), "it was late"), other)
	b := r.signedIn()
	for path, want := range map[string][]int{
		"?drill=live": {30}, "?verdict=failed": {1}, "?trigger=manual": {30}, "?since=2026-03-03": {30}, "?until=2026-03-02": {1, 0},
		"?day=2026-03-03": {30}, "?day=2026-03-04": nil, "?drill=&verdict=&since=2026-03-02&until=2026-03-03&trigger=schedule": {1, 0}, "?drill=Live+latency": {30},
		"?drill=gone": nil,
	} {
		page := b.get("/drills" + path).want(http.StatusOK)
		for n := range 31 {
			if there := slices.Contains(page.links(), "/drills/runs/"+runID(n)); there != slices.Contains(want, n) {
				t.Errorf("%s: run %d is there: %v", path, n, there)
			}
		}
		if len(want) == 0 {
			page.want(http.StatusOK, "Nothing fits")
		}
	}
	page := b.get("/drills?drill=burst&verdict=failed&since=2026-03-01&until=2026-03-02")
	if want := "/api/v1/runs.csv?drill=burst&since=2026-03-01T00%3A00%3A00Z&until=2026-03-03T00%3A00%3A00Z&verdict=failed"; !slices.Contains(page.links(), want) {
		t.Errorf("no link to %s: %q", want, page.links())
	} else if rows, err := csv.NewReader(strings.NewReader(b.get(want).body)).ReadAll(); err != nil || len(rows) != 2 {
		t.Errorf("the export has %q, %v", rows, err)
	}
	for path, what := range map[string]string{"verdict=good": "verdict must be of", "since=soon": "since must be", "until=2026-13-01": "until must be", "trigger=magic": "trigger must be of", "after=x": "after"} {
		b.get("/drills?"+path).want(http.StatusBadRequest, "That could not be understood", what)
	}
}

func TestHistoryIsPaged(t *testing.T) {
	var runs []drill.Run
	for n := range 60 {
		runs = append(runs, endedRun(n))
	}
	r, _ := newDrillFixture(t, runs...)
	b := r.signedIn()
	seen, path, pages := 0, "/drills?drill=burst", 0
	for path != "" && pages < 10 {
		page := b.get(path).want(http.StatusOK)
		next := ""
		for _, l := range page.links() {
			if strings.HasPrefix(l, "/drills/runs/") {
				seen++
			}
			if strings.Contains(l, "after=") {
				next = l
			}
		}
		if pages > 0 {
			page.want(http.StatusOK, "← Newest")
		}
		path, pages = next, pages+1
	}
	if seen != 60 || pages != 3 {
		t.Errorf("%d runs on %d pages", seen, pages)
	}
}

func TestHistoryWithoutRuns(t *testing.T) {
	r, drills := newDrillFixture(t)
	r.signedIn().get("/drills").want(http.StatusOK, "No drill has run yet", "headgate drill run burst --speed 20 --wait").wantWithout("Begun by", "The last year")
	drills.SetError(errBroken)
	r.signedIn().get("/drills").want(http.StatusServiceUnavailable, "The record cannot be read").wantWithout("/some/where")
	none := newFixture(t, fixtureOptions{})
	none.signedIn().get("/drills").want(http.StatusOK, "There are no drills")
	none.browser().get("/drills").want(http.StatusSeeOther)
}
