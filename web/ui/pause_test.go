package ui_test

import (
	"net/http"
	"net/url"
	"slices"
	"testing"
	"time"

	"headgate/runbooks/control"
	"headgate/runbooks/drill"
	"headgate/web/api/apitest"
)

func TestPauseAndResume(t *testing.T) {
	p, q := healthyPool("a"), healthyPool("b")
	q.Paused = &control.Pause{Since: time.Now(), Until: time.Now().Add(time.Minute), Actor: "ben", Reason: "the endpoint restarts"}
	r := newFixture(t, fixtureOptions{pools: []control.PoolStatus{p, q}})
	b := r.signedIn()
	page := b.get("/").want(http.StatusOK, "Paused until", "by ben", "the endpoint restarts", "Pause a", "Resume b").wantWithout("Resume a", "Pause b")
	if !slices.Contains(page.links(), "/pause?pool=a&do=pause") {
		t.Fatalf("links: %q", page.links())
	}
	ask := b.get("/pause?pool=a&do=pause").want(http.StatusOK, "Pause pool a?", "Pool a would grant no permits until", "ends by itself")
	done := b.submit(ask, "/pause", url.Values{"for": {"1m"}, "reason": {" restart "}}).want(http.StatusSeeOther)
	b.get(done.header.Get("Location")).want(http.StatusOK, "Pool a is paused.")
	if left := time.Until(r.Gates["a"].Snapshot(time.Now()).PausedUntil); left <= 0 || left > time.Minute || !r.Gates["b"].Snapshot(time.Now()).PausedUntil.IsZero() {
		t.Errorf("a is paused for %s", left)
	}
	if e := r.Record.Entries(); len(e) != 1 || e[0].Action != control.ActionPause || e[0].Reason != "restart" || e[0].Actor != "ana" || e[0].Via != control.ViaPage {
		t.Errorf("audited: %+v", e)
	}
	b.get("/pause?pool=b&do=resume").want(http.StatusConflict, "Nothing was changed")
	b.get("/pause?do=stop").want(http.StatusBadRequest, "There is no such action")
	b.submit(ask, "/pause", url.Values{"do": {"stop"}}).want(http.StatusBadRequest, "There is no such action")
	b.submit(ask, "/pause", url.Values{"for": {"soon"}}).want(http.StatusBadRequest, "for must be a span")
	r.browser().get("/pause?pool=a&do=pause").want(http.StatusSeeOther)
}

func TestAutoRollbackIsShown(t *testing.T) {
	p := healthyPool("a")
	p.AutoRollback = &control.AutoRollbackStatus{State: control.Cooldown, RollbacksToday: 2, HoldUntil: time.Now().Add(time.Hour), Reason: "it rolled back a moment ago"}
	newFixture(t, fixtureOptions{pools: []control.PoolStatus{p}}).signedIn().get("/").
		want(http.StatusOK, "Automatic rollback: cooldown, 2 in the last day; a manual decision holds until", "it rolled back a moment ago")
}

// TestDrillsAreSummedUp: the next one, and how each ended last.
func TestDrillsAreSummedUp(t *testing.T) {
	drills := apitest.NewDrills()
	r := newFixture(t, fixtureOptions{drills: drills.Ports()})
	b := r.signedIn()
	page := b.get("/").want(http.StatusOK, "Drills", "Next: Burst", "headgate drill run burst --speed 20 --wait", "Live latency", "Never run", "has never passed")
	assertNothingInline(page)
	began := time.Now().Add(-50 * time.Hour)
	drills.AddRuns(drill.Run{ID: "01a22990-4f00-7a3e-8d51-6c2b9a4e11aa", Drill: "burst", Name: "Burst", Status: drill.Ended, Verdict: drill.Passed, Started: began, Ended: began.Add(time.Minute)})
	b.get("/").want(http.StatusOK, "Passed Burst", "last passed 2 days ago")
	if _, err := drills.Freeze(t.Context(), drill.Freeze{On: true, Actor: "ben", Reason: "release week", Since: time.Now()}); err != nil {
		t.Fatal(err)
	}
	b.get("/").want(http.StatusOK, "Frozen by ben", "release week")
	newFixture(t, fixtureOptions{}).signedIn().get("/").want(http.StatusOK, "Overview").wantWithout("Never run")
}
