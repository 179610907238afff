package ui_test

import (
	"net/http"
	"net/url"
	"slices"
	"testing"
	"time"

	"headgate/runbooks/control"
	"headgate/runbooks/drill"
	"headgate/web/api"
	"headgate/web/api/apitest"
)

func TestPauseAndResume(t *testing.T) {
	p, q := quietPool("a"), quietPool("b")
	q.Paused = &api.PauseStatus{Since: api.Stamp(time.Now()), Until: api.Stamp(time.Now().Add(time.Minute)), By: "ben", Reason: "the endpoint restarts"}
	r := newRig(t, rigOptions{pools: []api.PoolStatus{p, q}})
	b := r.signedIn()
	page := b.get("/").want(http.StatusOK, "Paused until", "by ben", "the endpoint restarts", "Pause a", "Resume b").without("Resume a", "Pause b")
	if !slices.Contains(page.links(), "/pause?pool=a&do=pause") {
		t.Fatalf("links: %q", page.links())
	}
	ask := b.get("/pause?pool=a&do=pause").want(http.StatusOK, "Pause pool a?", "Pool a would hand out no worker.", "ends by itself")
	done := b.send(ask, "/pause", url.Values{"for": {"1m"}, "reason": {" restart "}}).want(http.StatusSeeOther)
	b.get(done.header.Get("Location")).want(http.StatusOK, "Pool a is paused.")
	if got := r.acts.given; len(got) != 1 || got[0].Name != "pause" || got[0].Pool != "a" || got[0].For != time.Minute || got[0].Reason != "restart" ||
		got[0].Actor != "ana" || got[0].Via != control.ViaPage {
		t.Errorf("given: %+v", got)
	}
	b.get("/pause?pool=b&do=resume").want(http.StatusConflict, "Nothing was changed")
	b.get("/pause?do=stop").want(http.StatusBadRequest, "There is no such order")
	b.send(ask, "/pause", url.Values{"do": {"stop"}}).want(http.StatusBadRequest, "There is no such order")
	b.send(ask, "/pause", url.Values{"for": {"soon"}}).want(http.StatusBadRequest, "for must be a span")
	r.browser().get("/pause?pool=a&do=pause").want(http.StatusSeeOther)
}

func TestTheGuardIsShown(t *testing.T) {
	p := quietPool("a")
	until := api.Stamp(time.Now().Add(time.Hour))
	p.Guard = &api.GuardStatus{State: "cooldown", FlipsToday: 2, LatchedUntil: &until, Why: "it rolled back a moment ago"}
	newRig(t, rigOptions{pools: []api.PoolStatus{p}}).signedIn().get("/").
		want(http.StatusOK, "Automatic rollback: cooldown, 2 in the last day; somebody’s decision stands until", "it rolled back a moment ago")
}

// TestDrillsAreSummedUp: the next one, and how each ended last.
func TestDrillsAreSummedUp(t *testing.T) {
	desk := apitest.NewDesk()
	r := newRig(t, rigOptions{drills: desk.Port()})
	b := r.signedIn()
	page := b.get("/").want(http.StatusOK, "Drills", "Next: Burst", "headgate drill run burst --speed 20 --wait", "Live latency", "Never run", "has never passed")
	nothingInline(page)
	began := time.Now().Add(-50 * time.Hour)
	desk.Add(drill.Run{ID: "01a22990-4f00-7a3e-8d51-6c2b9a4e11aa", Drill: "burst", Name: "Burst", Status: drill.Ended, Verdict: drill.Passed, Started: began, Ended: began.Add(time.Minute)})
	b.get("/").want(http.StatusOK, "Passed Burst", "last passed 2 days ago")
	if _, err := desk.Freeze(t.Context(), drill.Freeze{On: true, By: "ben", Reason: "release week", Since: time.Now()}); err != nil {
		t.Fatal(err)
	}
	b.get("/").want(http.StatusOK, "Frozen by ben", "release week")
	newRig(t, rigOptions{}).signedIn().get("/").want(http.StatusOK, "Overview").without("Never run")
}
