package ui_test

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"headgate/internal/testkit"
	"headgate/proxy/admission"
	"headgate/runbooks/control"
	"headgate/web/api"
)

func TestRollBackAndRestore(t *testing.T) {
	r := newFixture(t, fixtureOptions{})
	r.Fill("default", 3, time.Hour)
	b := r.signedIn()
	overview := b.get("/").want(http.StatusOK, "Enforce", "Roll back default").wantWithout("Restore default")
	if !slices.Contains(overview.links(), "/mode?pool=default&to=passthrough") {
		t.Fatalf("links: %q", overview.links())
	}
	ask := b.get("/mode?pool=default&to=passthrough").want(http.StatusOK, "Roll back pool default?", "2 running: they continue", "1 waiting: they keep their positions",
		"Restoring returns to Enforce", "recorded with your name, ana")
	if len(r.Record.ModeChanges()) != 0 {
		t.Fatal("looking at the page has changed a mode")
	}
	done := b.submit(ask, "/mode", url.Values{"reason": {" p95 climbs "}})
	if done.status != http.StatusSeeOther {
		t.Fatalf("status %d\n%s", done.status, done.text())
	}
	o := r.Record.ModeChanges()[0]
	if o.Action != control.Rollback || o.Pool != "default" || o.Actor != "ana" || o.Reason != "p95 climbs" || o.Via != control.ViaPage {
		t.Errorf("the order was %+v", o)
	}
	b.get(done.header.Get("Location")).want(http.StatusOK, "Pool default is now in Pass-through", "Not protecting", "Restore default", "p95 climbs").wantWithout("Roll back default")
	if done := b.submit(b.get("/mode?pool=default&to=restore"), "/mode", nil); done.status != http.StatusSeeOther {
		t.Fatalf("restore: %d\n%s", done.status, done.text())
	}
	b.get("/").want(http.StatusOK, "Holding", "Enforce")
}

// TestModeChangeExpectsShownMode: a decision on an old page fails and shows the present state.
func TestModeChangeExpectsShownMode(t *testing.T) {
	r := newFixture(t, fixtureOptions{})
	b := r.signedIn()
	ask := b.get("/mode?pool=default&to=passthrough")
	r.setMode("default", "observe", "ben")
	b.submit(ask, "/mode", nil).want(http.StatusConflict, "The mode has changed meanwhile", "by ben", "decide again")
	if len(r.Record.ModeChanges()) != 1 {
		t.Error("the order was carried out")
	}
}

func TestOrdersOfAllPools(t *testing.T) {
	r := newFixture(t, fixtureOptions{pools: []control.PoolStatus{healthyPool("a"), healthyPool("b")}})
	b := r.signedIn()
	b.get("/").want(http.StatusOK, "Roll back all pools")
	ask := b.get("/mode?to=passthrough").want(http.StatusOK, "Roll back all pools?", "Pool a", "Pool b")
	b.submit(ask, "/mode", nil).want(http.StatusSeeOther)
	r.setMode("a", "observe", "ben")
	ask = b.get("/mode?to=restore").want(http.StatusOK, "Restore all pools?")
	b.submit(ask, "/mode", nil).want(http.StatusSeeOther)
	if a, b := r.Mode("a"), r.Mode("b"); a != admission.Enforce || b != admission.Enforce {
		t.Errorf("a is in %s, b in %s", a, b)
	}
	b.get("/mode?to=enforce").want(http.StatusOK, "It is in", "already: nothing will change")
}

func TestUnknownModeIsRefused(t *testing.T) {
	b := newFixture(t, fixtureOptions{}).signedIn()
	b.get("/mode?to=off").want(http.StatusBadRequest, "There is no such action")
	b.get("/mode").want(http.StatusBadRequest, "There is no such action")
	for _, pool := range []string{"other", "..", "a/b", "%2e%2e"} {
		b.get("/mode?to=observe&pool="+pool).want(http.StatusNotFound, "There is no such pool")
	}
}

// TestDroppingTheOverdue is offered where it is possible, and says how many.
func TestDroppingTheOverdue(t *testing.T) {
	p := healthyPool("default")
	p.Mode = "passthrough"
	r := newFixture(t, fixtureOptions{pools: []control.PoolStatus{p}})
	r.Fill("default", 9, 15*time.Second) // two run, and the seven that wait need longer
	b := r.signedIn()
	ask := b.get("/mode?to=restore&pool=default").want(http.StatusOK, "of them can no longer finish in time", "Reject the", "All have begun in about")
	b.submit(ask, "/mode", url.Values{"drop_overdue": {"yes"}}).want(http.StatusSeeOther)
	if c := r.Record.ModeChanges()[1]; c.Dropped == 0 || c.Action != control.Restore {
		t.Errorf("the change is %+v", c)
	}
	b.get("/mode?to=passthrough&pool=default").wantWithout("Reject the")
}

// TestWritesAreRefused: whatever is wrong with a form, nothing changes, the page
// says what to do, and the audit knows.
func TestWritesAreRefused(t *testing.T) {
	r := newFixture(t, fixtureOptions{})
	b := r.signedIn()
	other := r.signedIn()
	ask := other.get("/mode?pool=default&to=passthrough")
	stale := url.Values{"to": {"passthrough"}, "pool": {"default"}}
	for name, form := range map[string]url.Values{"no form token": stale, "a wrong one": {"to": {"passthrough"}, "form": {"x"}}} {
		b.post("/mode", form).want(http.StatusForbidden, "This form is out of date", "Nothing was changed", "load the page again")
		if e := r.auditLog.last(); e.Kind != control.KindAccess || e.Result != control.Refused || e.Action != "write" || e.Via != control.ViaPage {
			t.Errorf("%s is recorded as %+v", name, e)
		}
	}
	b.submit(ask, "/mode", nil).want(http.StatusForbidden, "This form is out of date") // the form of another session
	foreign := b.request(http.MethodPost, "/mode", strings.NewReader(stale.Encode()))
	foreign.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	foreign.Header.Set("Origin", "https://evil.example")
	foreign.Header.Set("Sec-Fetch-Site", "cross-site")
	b.do(foreign).want(http.StatusForbidden, "This came from another site")
	if e := r.auditLog.last(); e.Reason != "a request from another site" || e.Inputs["path"] != "/mode" {
		t.Errorf("a cross-site write is recorded as %+v", e)
	}
	r.browser().post("/mode", stale).want(http.StatusUnauthorized, "You are not signed in")
	b.post("/mode", url.Values{"reason": {strings.Repeat("x", 100_000)}}).want(http.StatusRequestEntityTooLarge, "The form did not arrive whole")
	if got := r.Record.ModeChanges(); len(got) != 0 {
		t.Errorf("orders: %+v", got)
	}
	b.post("/incidents", nil).want(http.StatusMethodNotAllowed, "That cannot be done here")
}

func TestAReasonMustFit(t *testing.T) {
	r := newFixture(t, fixtureOptions{})
	b := r.signedIn()
	for _, reason := range []string{strings.Repeat("x", api.MaxReason+1), "two\nlines", "bidi \u202e"} {
		b.submit(b.get("/mode?pool=default&to=observe"), "/mode", url.Values{"reason": {reason}}).
			want(http.StatusBadRequest, "That could not be understood", "reason must")
	}
}

func TestAcknowledge(t *testing.T) {
	r := newFixture(t, fixtureOptions{})
	id := r.openIncident("queue_age", "a")
	b := r.signedIn()
	page := b.get("/incidents/"+id).want(http.StatusOK, "Queue age in a", "Warning", "15 s", "nobody", "Opened")
	b.submit(page, "/incidents/"+id+"/ack", url.Values{"for": {"30m"}}).want(http.StatusSeeOther)
	for end := time.Now().Add(testkit.Timeout(10 * time.Second)); !strings.Contains(b.get("/incidents/"+id).text(), "Acknowledged") && time.Now().Before(end); {
		time.Sleep(time.Millisecond) // it is recorded asynchronously
	}
	b.get("/incidents/"+id).want(http.StatusOK, "Acknowledged by ana", "Acknowledged").wantWithout("Acknowledge For")
	b.submit(page, "/incidents/"+id+"/ack", url.Values{"for": {"30m"}}).want(http.StatusConflict, "Already acknowledged", "acknowledged by ana until")
	b.submit(page, "/incidents/"+id+"/ack", url.Values{"for": {"soon"}}).want(http.StatusBadRequest, "for must be a span")
	b.get("/").want(http.StatusOK, "acknowledged by ana")
}

func TestSilenceAndLift(t *testing.T) {
	r := newFixture(t, fixtureOptions{})
	id := r.openIncident("queue_age", "b")
	b := r.signedIn()
	page := b.get("/incidents/" + id)
	b.submit(page, "/silences", url.Values{"reason": {""}, "for": {"1h"}}).want(http.StatusBadRequest, "reason must say why")
	b.submit(page, "/silences", url.Values{"reason": {"we know"}, "for": {"1h"}}).want(http.StatusSeeOther)
	b.get("/incidents/"+id).want(http.StatusOK, "Silenced yes")
	list := b.get("/incidents").want(http.StatusOK, "we know", "queue age in b", "Lift")
	silences := r.engine.Silences()
	if len(silences) != 1 || silences[0].By != "ana" || time.Until(silences[0].Until) > time.Hour {
		t.Fatalf("silences: %+v", silences)
	}
	b.submit(list, "/silences/"+silences[0].ID+"/lift", nil).want(http.StatusSeeOther)
	b.get("/incidents").want(http.StatusOK, "Nothing is silenced")
}
