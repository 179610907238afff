package ui_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"headgate/runbooks/drill"
	"headgate/web/api/apitest"
)

// daysAgo puts a run to noon of a day.
func daysAgo(r drill.Run, n int) drill.Run {
	at := time.Now().UTC().Truncate(24 * time.Hour).Add(-time.Duration(n) * 24 * time.Hour)
	if n > 0 {
		at = at.Add(12 * time.Hour)
	}
	r.Scheduled, r.Started, r.Ended = at, at, at.Add(40*time.Second)
	return r
}

// yearOfRuns is a run of two drills in turn on most days of a year, oldest first.
func yearOfRuns() (all []drill.Run) {
	for n := 370; n >= 0; n-- {
		r := daysAgo(endedRun(n), n)
		if n%2 == 1 {
			r.Drill, r.Name = "live", "Live latency"
		}
		switch {
		case n%31 == 3:
			r = failedRun(r, "it was late")
		case n%29 == 5:
			r.Verdict = drill.Inconclusive
		case n%23 == 7:
			r.Verdict, r.Hypotheses = drill.Missed, nil
		}
		all = append(all, r)
	}
	return all
}

// TestAYearAtAGlance: every day is there with its result, and leads to its
// runs; the page stays small.
func TestAYearAtAGlance(t *testing.T) {
	r, _ := newDrillFixture(t, yearOfRuns()...)
	b := r.signedIn()
	page := b.get("/drills").want(http.StatusOK, "The last year", "How each drill stands", "last passed", "Passed, % by month", "Margins by week", "Month Rate Passed Failed Neither Not begun")
	if len(page.body) > 100<<10 {
		t.Errorf("%d bytes", len(page.body))
	}
	for _, sound := range []func(response){assertNothingInline, assertStructure, assertDistinctLandmarks, assertLabelledFields} {
		sound(page)
	}
	cal := page.findNode(func(n *html.Node) bool { return n.Data == "table" && attr(n, "class") == "cal" })
	if cal == nil {
		t.Fatal("there is no calendar")
	}
	marks := map[string]int{}
	walk(cal, func(n *html.Node) {
		if n.Data == "a" {
			marks[n.FirstChild.FirstChild.Data]++
		}
	})
	if n := marks["✓"] + marks["✗"] + marks["?"] + marks["○"]; n < 53*7-13 || marks["✗"] < 11 || marks["?"] < 11 || marks["○"] < 11 {
		t.Errorf("%d days: %v", n, marks)
	}
	again := b.request(http.MethodGet, "/drills", nil)
	again.Header.Set("Headgate-Refresh", "1")
	b.do(again).want(http.StatusOK, "Runs", "it was late").wantWithout("The last year") // only the list is refreshed
	day := time.Now().UTC().AddDate(0, 0, -3)
	link := page.findNode(func(n *html.Node) bool { return attr(n, "href") == "?day="+day.Format("2006-01-02")+"#filter" })
	if link == nil || attr(link, "title") != day.Format("2 Jan")+": 1 failed" {
		t.Fatalf("the day with a failure is %v", link)
	}
	b.get("/drills"+attr(link, "href")).want(http.StatusOK, "it was late")
	one := b.get("/drills?drill=live").want(http.StatusOK, "The last year of Live latency", "How it stands").wantWithout("How each drill stands")
	if !slices.ContainsFunc(one.links(), func(l string) bool {
		return strings.HasPrefix(l, "?day=") && strings.HasSuffix(l, "&drill=live#filter")
	}) {
		t.Error("the calendar forgets the filter")
	}
}

// TestADayIsAsBadAsItsWorst: and says all that there was.
func TestADayIsAsBadAsItsWorst(t *testing.T) {
	for name, tt := range map[string]struct {
		verdicts []drill.Verdict
		class    string
		says     string
	}{
		"passed":          {[]drill.Verdict{drill.Passed, drill.Passed}, "", "2 passed"},
		"one failed":      {[]drill.Verdict{drill.Passed, drill.Failed, drill.Passed}, "h-bad", "2 passed, 1 failed"},
		"one aborted":     {[]drill.Verdict{drill.Passed, drill.Aborted}, "h-warn", "1 passed, 1 aborted"},
		"one skipped":     {[]drill.Verdict{drill.Skipped, drill.Passed}, "", "1 passed, 1 skipped"},
		"of all kinds":    {[]drill.Verdict{drill.Skipped, drill.Aborted, drill.Failed, drill.Passed, drill.Missed}, "h-bad", "1 passed, 1 failed, 3 else"},
		"nothing but one": {[]drill.Verdict{drill.Missed}, "h-idle", "1 missed"},
	} {
		var runs []drill.Run
		for n, v := range tt.verdicts {
			r := daysAgo(endedRun(n), 9)
			r.Verdict = v
			runs = append(runs, r)
		}
		r, _ := newDrillFixture(t, runs...)
		page := r.signedIn().get("/drills").want(http.StatusOK)
		link := page.findNode(func(n *html.Node) bool { return n.Data == "a" && strings.HasPrefix(attr(n, "href"), "?day=") })
		if link == nil || attr(link, "class") != tt.class || !strings.HasSuffix(attr(link, "title"), ": "+tt.says) {
			t.Errorf("%s: %v", name, link)
		}
	}
}

// TestTrends: rates are of runs that were begun, and margins as they were.
func TestTrends(t *testing.T) {
	skipped := daysAgo(endedRun(3), 1)
	skipped.Verdict, skipped.Hypotheses = drill.Skipped, nil
	r, _ := newDrillFixture(t, daysAgo(endedRun(0), 0), daysAgo(failedRun(endedRun(1), ""), 0), daysAgo(endedRun(2), 0), skipped)
	page := r.signedIn().get("/drills").want(http.StatusOK, "Burst", "passed 2 of 3 runs", "last passed")
	month := time.Now().UTC().Format("January 2006")
	page.want(http.StatusOK, month+" 67 % 2 1 0", month+": 2 of 3 passed", "−20 %", "The tightest was −20 %")
	none := newDrills(drill.Run{ID: runID(0), Drill: "burst", Name: "Burst", Status: drill.Ended, Verdict: drill.Missed, Scheduled: time.Now(), Started: time.Now()})
	newFixture(t, fixtureOptions{drills: none.Ports()}).signedIn().get("/drills").want(http.StatusOK, "○ Missed", "has never passed").wantWithout("Margins by week")
}

// busyYearDrills has many drills, which all ran on every day, with all verdicts there are.
func busyYearDrills() *apitest.Drills {
	const count, days = 15, 371
	drills := apitest.NewDrills()
	for n := range count * days {
		r := daysAgo(endedRun(n), days-1-n/count)
		r.Drill, r.Name = fmt.Sprintf("drill-%d", n%count), fmt.Sprintf("Number %d of many", n%count)
		r.Verdict = drill.Verdicts()[n%7]
		drills.AddRuns(r)
	}
	return drills
}

// TestTheFirstPageOfVeryManyIsSmall: it has no more rows than the first page of few.
func TestTheFirstPageOfVeryManyIsSmall(t *testing.T) {
	page := newFixture(t, fixtureOptions{drills: busyYearDrills().Ports()}).signedIn().get("/drills").want(http.StatusOK)
	rows := 0
	for _, l := range page.links() {
		if strings.HasPrefix(l, "/drills/runs/") {
			rows++
		}
	}
	if rows != 20 || len(page.body) > 100<<10 {
		t.Errorf("%d rows in %d bytes", rows, len(page.body))
	}
}
