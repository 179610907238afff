package ui_test

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"headgate/runbooks/control"
	"headgate/runbooks/drill"
)

func TestRunADrillAndAbortIt(t *testing.T) {
	r, drills := newDrillFixture(t)
	b := r.signedIn()
	page := b.get("/drills/definitions").want(http.StatusOK, "Burst", "Run now")
	if !slices.Contains(page.links(), "/drills/start?drill=burst") {
		t.Fatalf("links: %q", page.links())
	}
	ask := b.get("/drills/start?drill=burst").want(http.StatusOK, "Run Burst?", "a twin of pool a; production is not touched", "5 min at most", "#drills", "Load of 0.8 tasks/s", "p95_turnaround <= 60 s",
		"× 20: 15 s", "recorded with your name, ana")
	if len(drills.StartRequests()) != 0 {
		t.Fatal("looking at the page has begun a run")
	}
	begun := b.submit(ask, "/drills/start", url.Values{"speed": {"20"}, "reason": {" before the release "}}).want(http.StatusSeeOther)
	if got := drills.StartRequests(); len(got) != 1 || got[0] != (drill.StartRequest{Name: "burst", Speed: 20, Reason: "before the release", Actor: "ana"}) {
		t.Fatalf("given: %+v", got)
	}
	here := begun.header.Get("Location")
	live := b.get(here).want(http.StatusOK, "▶ Running", "They are judged in the end", "p95_turnaround <= 60s", "so far", "charts begin with the baseline", "Abort", "Reload")
	if body := live.elements("body")[0]; attr(body, "data-refresh-every") != "2" {
		t.Error("it does not refresh itself")
	}
	b.get("/drills").want(http.StatusOK, "▶ Running")
	b.get("/drills/definitions").want(http.StatusOK, "See it run")
	b.submit(ask, "/drills/start", url.Values{"speed": {"20"}}).want(http.StatusConflict, "Another drill is running", "abort it on its page")
	b.get("/drills/start?drill=burst").want(http.StatusOK, "It would not start now")
	stop := b.get(here+"/abort").want(http.StatusOK, "Abort Burst?", "cleared at once")
	if drills.RunningID() == "" {
		t.Fatal("looking at the page has stopped the run")
	}
	done := b.submit(stop, here+"/abort", url.Values{"reason": {"seen enough"}}).want(http.StatusSeeOther)
	b.get(done.header.Get("Location")).want(http.StatusOK, "The run is stopped", "■ Aborted", "By ana: seen enough", "Run it again").wantWithout("Reload")
	b.submit(stop, here+"/abort", nil).want(http.StatusConflict, "The run has ended already")
	b.get(here+"/abort").want(http.StatusOK, "Nothing is left to stop")
}

func TestDrillsAreFrozen(t *testing.T) {
	r, drills := newDrillFixture(t)
	b := r.signedIn()
	if _, err := drills.Start(t.Context(), drill.StartRequest{Name: "burst", Actor: "ben"}); err != nil {
		t.Fatal(err)
	}
	ask := b.get("/drills/freeze?do=freeze").want(http.StatusOK, "Freeze drills?", "Burst, which runs now, is aborted")
	b.submit(ask, "/drills/freeze", url.Values{"reason": {" "}}).want(http.StatusBadRequest, "reason must say why")
	done := b.submit(ask, "/drills/freeze", url.Values{"reason": {"release week"}}).want(http.StatusSeeOther)
	b.get(done.header.Get("Location")).want(http.StatusOK, "Drills are frozen.", "Frozen by ana", "release week", "Unfreeze drills")
	if drills.RunningID() != "" {
		t.Error("the run continues")
	}
	b.get("/drills/start?drill=burst").want(http.StatusOK, "It would not start now: drills are frozen")
	b.post("/drills/start", url.Values{"drill": {"burst"}}).want(http.StatusForbidden, "This form is out of date")
	ask = b.get("/drills/freeze?do=unfreeze").want(http.StatusOK, "Unfreeze drills?", "They were frozen by ana", "release week")
	done = b.submit(ask, "/drills/freeze", nil).want(http.StatusSeeOther)
	b.get(done.header.Get("Location")).want(http.StatusOK, "Drills may run again.", "Freeze all drills").wantWithout("Frozen by")
	b.get("/drills/freeze?do=unfreeze").want(http.StatusOK, "They are not frozen")
	b.get("/drills/freeze?do=melt").want(http.StatusBadRequest, "frozen and unfrozen")
	b.submit(ask, "/drills/freeze", url.Values{"do": {"melt"}}).want(http.StatusBadRequest, "frozen and unfrozen")
}

func TestOrdersOfDrillsAreRefused(t *testing.T) {
	r, drills := newDrillFixture(t)
	b := r.signedIn()
	b.get("/drills/start?drill=live").want(http.StatusOK, "It works on production", "It would not start now: allow_live is not set")
	for _, name := range []string{"gone", "..", "", "%2e%2e"} {
		b.get("/drills/start?drill="+name).want(http.StatusNotFound, "There is no such drill")
	}
	for _, speed := range []string{"fast", "0.5", "1000", "-1", "NaN"} {
		b.get("/drills/start?drill=burst&speed="+speed).want(http.StatusBadRequest, "speed must be")
	}
	ask := b.get("/drills/start?drill=burst&speed=3").want(http.StatusOK, "× 3: 1 min 40 s")
	b.submit(ask, "/drills/start", url.Values{"speed": {"fast"}}).want(http.StatusBadRequest, "speed must be")
	b.submit(ask, "/drills/start", url.Values{"drill": {"live"}, "speed": {""}}).want(http.StatusConflict, "The drill cannot run now", "allow_live is not set")
	b.submit(ask, "/drills/start", url.Values{"drill": {"../freeze"}}).want(http.StatusNotFound, "There is no such drill")
	for _, path := range []string{"/drills/start?drill=burst", "/drills/freeze?do=freeze", "/drills/runs/" + runID(0) + "/abort"} {
		r.browser().get(path).want(http.StatusSeeOther)
	}
	if len(drills.StartRequests()) != 0 {
		t.Errorf("given: %+v", drills.StartRequests())
	}
}

// TestReadersCannotChangeDrills: who may only read is shown no buttons.
func TestReadersCannotChangeDrills(t *testing.T) {
	drills := newDrills(endedRun(0))
	r := newFixture(t, fixtureOptions{drills: drills.Ports(), anonymous: true})
	b := r.browser()
	b.get("/drills/definitions").want(http.StatusOK, "Burst", "last passed").wantWithout("Run now", "Freeze")
	b.get("/drills/runs/"+runID(0)).want(http.StatusOK, "Passed").wantWithout("Run it again")
	if _, err := drills.Start(t.Context(), drill.StartRequest{Name: "burst"}); err != nil {
		t.Fatal(err)
	}
	b.get("/drills/runs/"+drills.RunningID()).want(http.StatusOK, "Running").wantWithout("Abort")
}

func TestDefinitionsShowWhenTheyRun(t *testing.T) {
	passed := endedRun(0)
	passed.Started = time.Now().Add(-9*24*time.Hour - time.Hour)
	r, _ := newDrillFixture(t, passed, failedRun(endedRun(1), ""))
	r.signedIn().get("/drills/definitions").want(http.StatusOK, "✗ Failed", "last passed 9 days ago", "30 9 * * 1", "Europe/Berlin",
		"Sun 29 Mar 2026 09:30 +02:00", "29 Mar 2026 07:30:00 UTC", "clocks go forward that night",
		"It cannot run: allow_live is not set.", "by hand only", "has never passed", "built in")
	newFixture(t, fixtureOptions{}).signedIn().get("/drills/definitions").want(http.StatusOK, "There are no drills")
}

// TestDrillsAreNotOrderedFromElsewhere: a page of another site starts, stops and
// freezes nothing, and the audit knows that it tried.
func TestDrillsAreNotOrderedFromElsewhere(t *testing.T) {
	r, drills := newDrillFixture(t)
	b := r.signedIn()
	if _, err := drills.Start(t.Context(), drill.StartRequest{Name: "burst", Actor: "ben"}); err != nil {
		t.Fatal(err)
	}
	own := b.get("/drills/freeze?do=freeze")
	form := own.findNode(func(n *html.Node) bool { return attr(n, "name") == "form" && attr(n, "value") != "" })
	for _, path := range []string{"/drills/start", "/drills/freeze", "/drills/runs/" + drills.RunningID() + "/abort"} {
		values := url.Values{"form": {attr(form, "value")}, "drill": {"odd"}, "do": {"freeze"}, "reason": {"x"}}
		req := b.request(http.MethodPost, path, strings.NewReader(values.Encode()))
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("Origin", "https://evil.example")
		req.Header.Set("Sec-Fetch-Site", "cross-site")
		b.do(req).want(http.StatusForbidden, "This came from another site")
		if e := r.auditLog.last(); e.Result != control.Refused || e.Inputs["path"] != path {
			t.Errorf("%s is recorded as %+v", path, e)
		}
		r.browser().post(path, values).want(http.StatusUnauthorized, "You are not signed in")
	}
	if len(drills.StartRequests()) != 1 || drills.RunningID() == "" {
		t.Errorf("given: %+v, running: %q", drills.StartRequests(), drills.RunningID())
	}
}
