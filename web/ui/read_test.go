package ui_test

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"headgate/runbooks"

	"headgate/engine/tsdb"
	"headgate/proxy/admission"
	"headgate/runbooks/control"
	"headgate/web/api"
)

// TestOverviewSaysWhetherTheGateHolds.
func TestOverviewSaysWhetherTheGateHolds(t *testing.T) {
	late, well := 140.1, 41.0
	unrecorded := false
	for name, c := range map[string]struct {
		change func(*control.PoolStatus)
		want   []string
	}{
		"holds":         {func(*control.PoolStatus) {}, []string{"Holding", "Nothing was refused", "41 s", "promise 60 s"}},
		"refuses":       {func(p *control.PoolStatus) { p.Refused1m = 5 }, []string{"Holding by refusing work", "5 of 17 requests"}},
		"late":          {func(p *control.PoolStatus) { p.P95TurnaroundS = &late }, []string{"Not holding", "2 min 20 s or more; the promise is 60 s", "at or over the limit"}},
		"rolled back":   {func(p *control.PoolStatus) { p.Mode, p.P95TurnaroundS = "passthrough", &well }, []string{"Not protecting", "Pass-through"}},
		"observes":      {func(p *control.PoolStatus) { p.Mode = "observe" }, []string{"Observing only", "Observe"}},
		"idle":          {func(p *control.PoolStatus) { p.InFlight, p.Admitted1m = 0, 0 }, []string{"Idle", "Nothing has arrived"}},
		"goes down":     {func(p *control.PoolStatus) { p.Draining = true }, []string{"Shutting down"}},
		"not measured":  {func(p *control.PoolStatus) { p.P95TurnaroundS, p.EnvelopeUse = nil, nil }, []string{"not known: nothing was served yet"}},
		"not recorded":  {func(p *control.PoolStatus) { p.ModeRecorded = &unrecorded }, []string{"Not recorded yet: a restart would forget this mode"}},
		"near a limit":  {func(p *control.PoolStatus) { p.QueueOldestAgeS = 20 }, []string{"20 s", "refuses above 25 s", "near the limit"}},
		"hopeless ones": {func(p *control.PoolStatus) { p.Overdue = 3 }, []string{"3 of those who wait can no longer finish in time"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := healthyPool("default")
			c.change(&p)
			newFixture(t, fixtureOptions{pools: []control.PoolStatus{p}}).signedIn().get("/").want(http.StatusOK, c.want...)
		})
	}
}

func TestOverviewShowsTheBudget(t *testing.T) {
	newFixture(t, fixtureOptions{}).signedIn().get("/").want(http.StatusOK, "Error budget left", "80 %", "of 30 d, objective 95 %")
}

func TestOverviewShowsIncidents(t *testing.T) {
	r := newFixture(t, fixtureOptions{})
	b := r.signedIn()
	b.get("/").want(http.StatusOK, "No rule fires")
	id := r.openIncident("queue_age", "a")
	page := b.get("/").want(http.StatusOK, "queue age in a", "The queue is old", "Warning")
	if !slices.Contains(page.links(), "/incidents/"+id) {
		t.Errorf("no link to it: %q", page.links())
	}
}

// TestChartsAreDrawn: with limit, changes of mode and a table, for the time that
// was asked for.
func TestChartsAreDrawn(t *testing.T) {
	r := newFixture(t, fixtureOptions{})
	r.series.lines = func(_ string, from, to time.Time, step time.Duration) []tsdb.Series {
		var l tsdb.Series
		for at := from; !at.After(to); at = at.Add(step) {
			l.Points = append(l.Points, tsdb.Point{At: at, V: 33})
		}
		l.Labels = map[string]string{"reason": "queue_age"}
		return []tsdb.Series{l}
	}
	r.record.page = control.NewAuditPage([]control.ModeChange{{ID: "1", At: time.Now().Add(-5 * time.Minute), Pool: "default", Action: control.Rollback, From: admission.Enforce, To: admission.PassThrough}}, nil, "")
	b := r.signedIn()
	page := b.get("/?last=15m").want(http.StatusOK, "Turnaround p95", "promise 60 s", "○ Pass-through", "As a table", "Refused in the last 15 minutes: queue age 33")
	if n := len(page.elements("desc")); n != 6 {
		t.Errorf("%d charts", n)
	}
	if !strings.Contains(page.body, "max_over_time") && !slices.ContainsFunc(r.series.asked, func(s string) bool { return strings.Contains(s, "[7500ms]") }) {
		t.Errorf("asked: %q", r.series.asked)
	}
	asked := len(r.series.asked)
	b.get("/?last=15m")
	if len(r.series.asked) != asked {
		t.Error("what was drawn a moment ago is read again")
	}
	for _, last := range []string{"1h", "6h", "24h", "999d", ""} {
		b.get("/?last="+last).want(http.StatusOK, "Turnaround p95")
	}
}

func TestOverviewIsThereWithoutCharts(t *testing.T) {
	r := newFixture(t, fixtureOptions{})
	r.series.broken = errBroken
	r.record.err = errBroken
	r.signedIn().get("/").want(http.StatusOK, "Holding", "Nothing was measured in this time").wantWithout("/some/where")
	newFixture(t, fixtureOptions{withoutEngine: true}).signedIn().get("/").want(http.StatusOK, "Holding", "this headgate takes no samples")
	var many []control.PoolStatus
	for _, name := range []string{"a", "b", "c", "d"} {
		many = append(many, healthyPool(name))
	}
	b := newFixture(t, fixtureOptions{pools: many}).signedIn()
	b.get("/").want(http.StatusOK, "Charts of d")
	b.get("/pools/d").want(http.StatusOK, "Pool d", "Turnaround p95")
	b.get("/pools/e").want(http.StatusNotFound, "There is no such pool")
	newFixture(t, fixtureOptions{pools: []control.PoolStatus{}}).signedIn().get("/").want(http.StatusOK, "There are no pools", "SIGHUP")
}

func TestIncidentsAreListedPageByPage(t *testing.T) {
	r := newFixture(t, fixtureOptions{})
	b := r.signedIn()
	b.get("/incidents").want(http.StatusOK, "There has been no incident yet", "headgate demo --slack")
	id := r.openIncident("queue_age", "a")
	i := r.engine.Incidents()[0]
	for n := range 60 {
		old := i
		old.ID = "00" + string(rune('a'+n/26)) + string(rune('a'+n%26))
		old.Ended, old.Resolution = time.Now(), "recovered"
		r.incidents.Add(old)
	}
	first := b.get("/incidents").want(http.StatusOK, "Older →", "Over", "recovered").wantWithout("← Newest")
	if n := len(first.elements("tr")); n != 51 || !slices.Contains(first.links(), "/incidents/"+id) {
		t.Errorf("%d rows", n)
	}
	var next string
	for _, l := range first.links() {
		if strings.Contains(l, "after=") {
			next = l
		}
	}
	second := b.get(next).want(http.StatusOK, "← Newest").wantWithout("Older →")
	if n := len(second.elements("tr")); n != 12 {
		t.Errorf("%d rows on the second page", n)
	}
	b.get("/incidents?open=true").want(http.StatusOK, "queue age in a").wantWithout("Older →")
	b.get("/incidents?pool=nowhere").want(http.StatusOK, "Nothing fits", "Show all incidents")
	b.get("/incidents?since=yesterday").want(http.StatusBadRequest, "since must be a span")
	b.get("/incidents?open=maybe").want(http.StatusOK)
	b.get("/incidents?open=true&after=..").want(http.StatusBadRequest, "after must be")
}

func TestOneIncident(t *testing.T) {
	r := newFixture(t, fixtureOptions{})
	id := r.openIncident("queue_age", "a")
	b := r.signedIn()
	page := b.get("/incidents/"+id).want(http.StatusOK, "Queue age in a", "What users notice", "Open for", "Opened", "Acknowledge", "Silence", "Nothing was sent")
	if !slices.Contains(page.links(), "/runbooks/queue_age") {
		t.Errorf("no link to the runbook: %q", page.links())
	}
	r.incidents.SetError(errBroken)
	b.get("/incidents/"+id).want(http.StatusOK, "Queue age in a", "what is below may not be whole")
	b.get("/incidents/01").want(http.StatusServiceUnavailable, "The record cannot be read").wantWithout("/some/where")
	b.get("/incidents").want(http.StatusServiceUnavailable, "The record cannot be read", "Modes can still be changed").wantWithout("/some/where")
	r.incidents.SetError(nil)
	for _, none := range []string{"01", "a%2fmode", "a b", strings.Repeat("a", 200)} {
		b.get("/incidents/"+strings.ReplaceAll(none, " ", "%20")).want(http.StatusNotFound, "There is no such")
	}
}

func TestMonitoringDisabled(t *testing.T) {
	b := newFixture(t, fixtureOptions{withoutEngine: true}).signedIn()
	b.get("/incidents").want(http.StatusOK, "Monitoring is disabled")
	b.get("/incidents/01").want(http.StatusNotFound, "Monitoring is disabled")
}

func TestAuditShowsAll(t *testing.T) {
	r := newFixture(t, fixtureOptions{})
	b := r.signedIn()
	b.get("/audit").want(http.StatusOK, "Nothing has been done yet")
	now := time.Now()
	r.record.page = control.NewAuditPage([]control.ModeChange{{ID: "1", At: now.Add(-time.Minute), Pool: "default", Action: control.Rollback, From: admission.Enforce, To: admission.PassThrough,
		Actor: "ana@ops1", Via: control.ViaAPI, Reason: "p95 climbs", Running: 4, Queued: 20, Dropped: 3},
		{ID: "0", At: now.Add(-time.Hour), Pool: "default", Action: control.InitialMode, From: admission.Observe, To: admission.Observe, Actor: "settings", Via: control.ViaSettings, Reason: "first start"}}, []control.AuditEntry{{ID: "2", At: now, Kind: control.KindDecision, Action: "rollback", Result: control.Withheld, Pool: "default", Subject: "01abc",
		Actor: "engine", Via: control.ViaEngine, Reason: "too many today", Inputs: map[string]string{"today": "3"}}}, "k1")
	page := b.get("/audit?kind=decision&pool=default&since=7d").want(http.StatusOK, "rollback", "Enforce", "Pass-through", "ana@ops1", "p95 climbs", "running then 4", "rejected 3", "begins in Observe",
		"withheld", "too many today", "today 3", "Older →")
	for _, want := range []string{"/incidents/01abc", "/audit?after=k1&kind=decision&pool=default&since=7d"} {
		if !slices.Contains(page.links(), want) {
			t.Errorf("no link to %s: %q", want, page.links())
		}
	}
	if q := r.record.asked; q.Kind != "decision" || q.Pool != "default" || now.Sub(q.Since) < 6*24*time.Hour || q.Limit != 50 {
		t.Errorf("asked for %+v", q)
	}
	b.get("/audit?after=k1").want(http.StatusOK, "← Newest")
	b.get("/audit?kind=gossip").want(http.StatusBadRequest, "kind must be one of")
	b.get("/audit?since=soon").want(http.StatusBadRequest, "since must be")
	r.record.err = errBroken
	b.get("/audit").want(http.StatusServiceUnavailable, "The record cannot be read").wantWithout("/some/where")
}

// TestRunbooksAreForEverybody: as text for programs, as a page for people.
func TestRunbooksAreForEverybody(t *testing.T) {
	r := newFixture(t, fixtureOptions{})
	b := r.browser()
	page := b.get("/runbooks/queue_age").want(http.StatusOK, "What to do", "headgate status", "Sign in to use the buttons").wantWithout("```", "## ")
	if !contains(page.doc, "article") || page.header.Get("Vary") != "Accept" {
		t.Error("it is no page")
	}
	list := b.get("/runbooks").want(http.StatusOK, "Runbooks", "turnaround_p95")
	for _, name := range runbooks.PageNames() {
		if !slices.Contains(list.links(), "/runbooks/"+name) {
			t.Errorf("%s is not in the list", name)
		}
		b.get("/runbooks/" + name).want(http.StatusOK)
	}
	b.get("/runbooks/none").want(http.StatusNotFound, "There is no such runbook")
	reply, err := b.client.Get(r.url + "/runbooks/queue_age")
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body)
	if want, _ := runbooks.Page("queue_age"); err != nil || string(text) != want || reply.Header.Get("Content-Type") != "text/plain; charset=utf-8" {
		t.Errorf("as text: %v %s\n%s", err, reply.Header.Get("Content-Type"), text)
	}
	r.openIncident("queue_age", "a")
	in := r.signedIn()
	own := in.get("/runbooks/queue_age").want(http.StatusOK, "queue age in a", "Restore", "Incidents of this rule")
	if !slices.Contains(own.links(), "/mode?to=restore") {
		t.Errorf("links: %q", own.links())
	}
}

func TestOpenEndpointsStayOpen(t *testing.T) {
	b := newFixture(t, fixtureOptions{}).browser()
	for _, path := range []string{"/metrics", "/healthz", "/readyz"} {
		if got := b.get(path); got.status != http.StatusOK || got.header.Get("Content-Security-Policy") != "" {
			t.Errorf("%s: %d", path, got.status)
		}
	}
	b.get("/nothing/here").want(http.StatusNotFound, "There is no such page", "Start at the overview")
}

// TestMessagesAreShownAsSent: and one incident with very many fits on a page.
func TestMessagesAreShownAsSent(t *testing.T) {
	r := newFixture(t, fixtureOptions{})
	id := r.openIncident("queue_age", "a")
	var all []api.Delivery
	for n := range 300 {
		all = append(all, api.Delivery{ID: "d" + string(rune('a'+n%26)) + string(rune('a'+n/26)), Seq: n, Kind: "reply", Destination: "page", State: "sent",
			Created: time.Now(), Tried: time.Now(), Text: "PAGE: <b>the queue</b>\nValue: 27 s\n" + strings.Repeat("long ", 400)})
	}
	r.incidents.SetDeliveries(id, all...)
	page := r.signedIn().get("/incidents/"+id).want(http.StatusOK, "What it says", "PAGE: <b>the queue</b> Value: 27 s", "The newest 40 are here", "reply 299").wantWithout("reply 100")
	if len(page.body) > 100<<10 {
		t.Errorf("%d bytes", len(page.body))
	}
}
