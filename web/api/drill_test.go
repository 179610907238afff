package api_test

import (
	"encoding/csv"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"headgate/runbooks/drill"
	"headgate/web/api"
	"headgate/web/api/apitest"
)

// drillFixture is a fixture whose headgate has drills.
type drillFixture struct {
	*fixture
	drills *apitest.Drills
}

func newDrillFixture(t *testing.T) *drillFixture {
	t.Helper()
	r := &drillFixture{fixture: newFixture(t), drills: apitest.NewDrills()}
	r.serve(api.AdminConfig{Drills: r.drills.Ports()})
	return r
}

func (r *drillFixture) get(path string, v any) {
	r.Helper()
	r.reply(r.request(testRequest{method: http.MethodGet, path: path}), v)
}

func (r *drillFixture) post(path, body string) *httptest.ResponseRecorder {
	r.Helper()
	return r.request(testRequest{method: http.MethodPost, path: path, body: body, header: http.Header{api.ActorHeader: {"ana@ops1"}}})
}

// start begins a run of the burst.
func (r *drillFixture) start() string {
	r.Helper()
	var reply api.DrillRunReply
	r.reply(r.post("/api/v1/drills/burst/run", `{"speed":20}`), &reply)
	if reply.Run == nil {
		r.Fatalf("%+v", reply)
	}
	return *reply.Run
}

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// endedRun is a run that has ended.
func endedRun(n int, v drill.Verdict) drill.Run {
	return drill.Run{
		ID: fmt.Sprintf("01a22990-0000-7a3e-8d51-%012d", n), Drill: "burst", Name: "Burst", Version: "1.2.3", Trigger: drill.BySchedule, Actor: "schedule",
		Speed: 20, Scheduled: noon, Started: noon.Add(time.Duration(n) * time.Hour), Ended: noon.Add(time.Duration(n)*time.Hour + 23500*time.Millisecond),
		Status: drill.Ended, Verdict: v, ClearTook: 5 * time.Millisecond, Recovered: 41 * time.Second, Injected: 7,
		Spec: drill.Spec{ID: "burst", Name: "Burst", Target: drill.Twin},
		Hypotheses: []drill.Hypothesis{
			{Expectation: drill.Expectation{Measure: drill.P95, Compare: drill.AtMost, Limit: 60, Unit: "s"}, Measured: true, Value: 41, Margin: 0.3125, Passed: true, Evidence: "generator"},
			{Expectation: drill.Expectation{Measure: drill.TimeToPage, Compare: drill.AtMost, Limit: 30, Unit: "s"}, Value: math.NaN(), Reason: "no page came"},
		},
		Phases: []drill.Phase{{Name: drill.PhaseInject, Started: noon, Ended: noon.Add(time.Second)}},
	}
}

func TestDrills(t *testing.T) {
	r := newDrillFixture(t)
	r.drills.AddRuns(endedRun(1, drill.Failed), endedRun(2, drill.Passed), endedRun(3, drill.Aborted))
	var list api.DrillList
	r.get("/api/v1/drills", &list)
	if len(list.Items) != 3 || list.Freeze.Frozen || !list.Freeze.Since.IsZero() {
		t.Fatalf("%+v", list)
	}
	burst := list.Items[0]
	if len(burst.NextRuns) != 1 || burst.NextRuns[0].Local != "2026-03-29T09:30:00+02:00" || burst.NextRuns[0].Note == "" {
		t.Errorf("next runs %+v", burst.NextRuns)
	}
	if burst.Last == nil || burst.Last.Verdict != "aborted" || burst.LastPassedAt.Format(time.RFC3339) != "2026-03-01T14:00:00Z" || burst.Running != nil {
		t.Errorf("%+v", burst)
	}
	if live := list.Items[1]; live.Last != nil || len(live.Problems) != 1 || live.NextRuns == nil {
		t.Errorf("%+v", live)
	}
	r.drills.SetError(errDisk)
	r.get("/api/v1/drills", &list) // what is defined is shown all the same
	id := r.start()
	if r.get("/api/v1/drills", &list); list.Items[0].Running == nil || *list.Items[0].Running != id {
		t.Errorf("%+v", list.Items[0])
	}
}

func TestStartDrill(t *testing.T) {
	r := newDrillFixture(t)
	var reply api.DrillRunReply
	r.reply(r.post("/api/v1/drills/burst/run", `{"speed":20,"dry_run":true}`), &reply)
	if !reply.DryRun || reply.Run != nil || reply.Plan.Blocked != nil || reply.Plan.WallTimeS != 15 || reply.Plan.ScenarioS != 300 || len(reply.Plan.Steps) != 1 {
		t.Errorf("%+v", reply)
	}
	r.reply(r.post("/api/v1/drills/live/run", `{"dry_run":true}`), &reply)
	if reply.Plan.Blocked == nil || *reply.Plan.Blocked != "allow_live is not set" {
		t.Errorf("%+v", reply.Plan)
	}
	if r.drills.RunningID() != "" || len(r.drills.StartRequests()) != 0 {
		t.Fatal("a dry run began")
	}
	r.reply(r.post("/api/v1/drills/"+url.PathEscape("Burst")+"/run", `{"speed":2.5,"reason":"to see"}`), &reply)
	if want := (drill.StartRequest{Name: "Burst", Speed: 2.5, Reason: "to see", Actor: "ana@ops1"}); r.drills.StartRequests()[0] != want || reply.DryRun || *reply.Run != r.drills.RunningID() {
		t.Errorf("%+v, %+v", r.drills.StartRequests(), reply)
	}
	p := r.problem(r.post("/api/v1/drills/odd/run", `{}`), 409)
	if p.Type != api.TypeDrillBusy || p.Run != *reply.Run || !strings.Contains(p.Detail, "Drill Burst is running since") {
		t.Errorf("%+v", p)
	}
	if p := r.problem(r.post("/api/v1/drills/unknown/run", `{}`), 404); p.Type != api.TypeUnknownDrill || !cmp.Equal(p.Drills, []string{"burst", "live", "odd"}) {
		t.Errorf("%+v", p)
	}
	if p := r.problem(r.post("/api/v1/drills/live/run", `{}`), 409); p.Type != api.TypeDrillRefused || p.Detail != "allow_live is not set." {
		t.Errorf("%+v", p)
	}
}

// TestDrillBodies: what cannot be meant is refused, and says what would be right.
func TestDrillBodies(t *testing.T) {
	r := newDrillFixture(t)
	for _, tt := range []struct {
		path, body string
		status     int
		detail     string
	}{
		{"drills/burst/run", `{"speed":"20"}`, 400, `must have a number for "speed"`},
		{"drills/burst/run", `{"speed":1e999}`, 400, "speed"},
		{"drills/burst/run", `{"speed":0.5}`, 400, "speed must be from 1 to 100"},
		{"drills/burst/run", `{"speed":-1}`, 400, "speed must be"},
		{"drills/burst/run", `{"speed":101}`, 400, "speed must be"},
		{"drills/burst/run", `{"fast":true}`, 400, "there are dry_run, reason, speed"},
		{"drills/burst/run", `{"reason":"a\nb"}`, 400, "reason must be one line"},
		{"drills/burst/run?speed=2", `{}`, 400, "speed"},
		{"drills/" + strings.Repeat("x", 201) + "/run", `{}`, 404, "cannot be a drill"},
		{"drills/%1b%5b2J/run", `{}`, 404, "cannot be a drill"},
		{"drills/freeze", `{}`, 400, "reason must say why"},
		{"drills/freeze", `{"reason":null}`, 400, "a string"},
		{"drills/unfreeze", `[]`, 400, "must be a JSON object"},
		{"runs/x.y/abort", `{}`, 404, "cannot be an ID"},
		{"runs/none/abort", `{}`, 404, "There is no such run"},
	} {
		if p := r.problem(r.post("/api/v1/"+tt.path, tt.body), tt.status); !strings.Contains(p.Detail, tt.detail) || len(p.Detail) > 400 {
			t.Errorf("%s %s: %q, want %q", tt.path, tt.body, p.Detail, tt.detail)
		}
	}
	if r.drills.RunningID() != "" {
		t.Error("a drill began")
	}
}

// TestDrillSites: a page of another site, and a client without a token, begin, stop and
// freeze nothing.
func TestDrillSites(t *testing.T) {
	r := newDrillFixture(t)
	id := r.start()
	for _, path := range []string{"drills/burst/run", "runs/" + id + "/abort", "drills/freeze", "drills/unfreeze"} {
		for status, header := range map[int]http.Header{
			403: {"Origin": {"https://evil.example"}, "Sec-Fetch-Site": {"cross-site"}}, 401: {"Authorization": nil}, 415: {"Content-Type": {"text/plain"}},
		} {
			r.problem(r.request(testRequest{method: "POST", path: "/api/v1/" + path, body: `{"reason":"x"}`, header: header}), status)
		}
		if w := r.request(testRequest{method: "GET", path: "/api/v1/" + path}); w.Code != 405 {
			t.Errorf("GET %s: %d", path, w.Code)
		}
	}
	if r.drills.RunningID() != id {
		t.Error("the run was stopped")
	}
}

func TestAbortAndFreeze(t *testing.T) {
	r := newDrillFixture(t)
	id := r.start()
	var run drill.Run
	r.reply(r.post("/api/v1/runs/"+id+"/abort", `{"reason":"smoke"}`), &run)
	if run.ID != id || run.Verdict != drill.Aborted || run.Reason != "by ana@ops1: smoke" || run.Ended.IsZero() {
		t.Errorf("%+v", run)
	}
	if p := r.problem(r.post("/api/v1/runs/"+id+"/abort", `{}`), 409); p.Type != api.TypeDrillRefused {
		t.Errorf("again: %+v", p)
	}
	r.start()
	var f api.DrillFreeze
	r.reply(r.post("/api/v1/drills/freeze", `{"reason":"release week"}`), &f)
	if !f.Frozen || f.By != "ana@ops1" || f.Reason != "release week" || f.Since.IsZero() || r.drills.RunningID() != "" {
		t.Errorf("%+v", f)
	}
	if p := r.problem(r.post("/api/v1/drills/burst/run", `{}`), 409); p.Type != api.TypeDrillsFrozen {
		t.Errorf("%+v", p)
	}
	r.drills.SetError(errDisk)
	if p := r.problem(r.post("/api/v1/drills/unfreeze", `{}`), 503); p.Type != api.TypeRecordUnavailable || strings.Contains(p.Detail, "disk") {
		t.Errorf("%+v", p)
	}
	r.drills.SetError(nil)
	r.reply(r.post("/api/v1/drills/unfreeze", `{}`), &f)
	if f.Frozen {
		t.Errorf("%+v", f)
	}
	r.start()
}

func TestRuns(t *testing.T) {
	r := newDrillFixture(t)
	for n := range 7 {
		r.drills.AddRuns(endedRun(n, drill.Verdicts()[n]))
	}
	for query, want := range map[string]string{
		"": "missed interrupted skipped inconclusive aborted failed passed", "verdict=passed": "passed", "verdict=failed,passed,failed": "failed passed",
		"trigger=manual": "", "trigger=schedule,catch_up&limit=1": "missed", "drill=burst&limit=2": "missed interrupted", "drill=none": "", "running=true": "",
		"since=2026-03-01T16:00:00Z": "missed interrupted skipped", "since=2026-03-01T13:00:00Z&until=2026-03-01T15:00:00Z": "aborted failed",
	} {
		var list api.DrillRunList
		r.get("/api/v1/runs?"+query, &list)
		var got []string
		for _, run := range list.Items {
			got = append(got, string(run.Verdict))
		}
		if strings.Join(got, " ") != want || (list.Next != "") != strings.Contains(query, "limit") {
			t.Errorf("%s: %v, next %q, want %s", query, got, list.Next, want)
		}
	}
	for query, detail := range map[string]string{
		"verdict=good": "verdict must be of passed, failed", "verdict=,": "verdict must be", "trigger=moon": "trigger must be of schedule",
		"until=soon": "until must be", "running=1": "running must be true", "limit=0": "limit must be", "state=x": "is not known",
		"after=nowhere": "after must be the next", "drill=" + strings.Repeat("x", 300): "drill must have",
	} {
		for _, path := range []string{"runs", "runs.json", "runs.csv"} {
			if p := r.problem(r.request(testRequest{method: "GET", path: "/api/v1/" + path + "?" + query}), 400); !strings.Contains(p.Detail, detail) {
				t.Errorf("%s?%s: %q, want %q", path, query, p.Detail, detail)
			}
		}
	}
	var report drill.Run
	r.get("/api/v1/runs/"+endedRun(0, "").ID, &report)
	if tightest, ok := report.Tightest(); report.Live || report.Took() != 23500*time.Millisecond || report.ClearTook != 5*time.Millisecond ||
		report.Recovered != 41*time.Second || !ok || tightest.Measure != "p95_turnaround" || tightest.Margin != 0.3125 || report.Hypotheses[1].Measured ||
		report.Hypotheses[1].Reason == "" || report.SpecVersion == "" || report.Series == nil {
		t.Errorf("%+v", report)
	}
	if p := r.problem(r.request(testRequest{method: "GET", path: "/api/v1/runs/none"}), 404); p.Type != api.TypeUnknownRun {
		t.Errorf("%+v", p)
	}
	r.drills.SetError(errDisk)
	for _, path := range []string{"runs", "runs/" + report.ID, "runs.csv", "runs.json"} {
		if p := r.problem(r.request(testRequest{method: "GET", path: "/api/v1/" + path}), 503); p.Type != api.TypeRecordUnavailable || strings.Contains(p.Detail, "/some/where") {
			t.Errorf("%s: %+v", path, p)
		}
	}
}

// TestLiveRun: a run that goes on is shown as it is in memory, whatever the record
// says.
func TestLiveRun(t *testing.T) {
	r := newDrillFixture(t)
	id := r.start()
	r.drills.SetError(errDisk)
	r.drills.UpdateRunning(func(run *drill.Run) {
		run.Series = []drill.Point{{At: 1, Turnaround: -1}, {At: 2, Turnaround: 12.5, Depth: 3}}
		run.Messages = []drill.Message{{Text: "DRILL <b>", Accepted: noon}}
		run.Reverts = []drill.RevertResult{{What: "rollback", Took: time.Second}}
	})
	for query, points := range map[string]int{"": 2, "?series=last": 1, "?series=none": 0} {
		var report drill.Run
		r.get("/api/v1/runs/"+id+query, &report)
		if !report.Live || report.Verdict != "" || !report.Ended.IsZero() || len(report.Series) != points || len(report.Messages) != 1 || report.Reverts[0].Took != time.Second {
			t.Errorf("%s: %+v", query, report)
		}
		if points > 0 && report.Series[points-1].Turnaround != 12.5 || points > 1 && report.Series[0].Turnaround != -1 {
			t.Errorf("%s: %+v", query, report.Series)
		}
	}
	r.problem(r.request(testRequest{method: "GET", path: "/api/v1/runs/" + id + "?series=first"}), 400)
}

// TestExport: an export holds what the list holds, goes on where it stopped, and
// no cell of it is a formula.
func TestExport(t *testing.T) {
	r := newDrillFixture(t)
	evil := endedRun(0, drill.Failed)
	evil.Name, evil.Reason, evil.Actor, evil.Version = apitest.HostileName, "\t@SUM(1)\n\"x\",", "+1", "\r-2"
	evil.Hypotheses[0].Margin, evil.Hypotheses[0].Value, evil.Hypotheses[0].Unit = -0.25, -3, "=s"
	r.drills.AddRuns(evil, endedRun(1, drill.Passed), endedRun(2, drill.Missed))
	w := r.request(testRequest{method: "GET", path: "/api/v1/runs.csv"})
	if got := w.Header(); w.Code != 200 || !strings.HasPrefix(got.Get("Content-Type"), "text/csv") || got.Get("Link") != "" ||
		!strings.Contains(got.Get("Content-Disposition"), "attachment") || got.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("%d, %v", w.Code, got)
	}
	rows, err := csv.NewReader(w.Body).ReadAll()
	if err != nil || len(rows) != 4 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	cells := map[string]string{}
	for n, name := range rows[0] {
		cells[name] = rows[3][n]
	}
	for name, want := range map[string]string{
		"name": "'" + apitest.HostileName, "actor": "'+1", "unit": "'=s", "value": "'-3", "margin": "", "missed_by": "0.25", "verdict": "failed", "limit": "60", "clear_took_s": "0.005",
	} {
		if cells[name] != want {
			t.Errorf("%s: %q, want %q", name, cells[name], want)
		}
	}
	inertCells(t, rows)
	w = r.request(testRequest{method: "GET", path: "/api/v1/runs.csv?limit=2&verdict=passed,failed,missed"})
	if got := w.Header().Get("Link"); !strings.Contains(got, `/api/v1/runs.csv?after=at.`) || !strings.HasSuffix(got, `>; rel="next"`) || !strings.Contains(got, "verdict=passed") {
		t.Errorf("Link %q", got)
	}
	var all, list api.DrillExport
	r.get("/api/v1/runs.json?limit=2", &all)
	if all.Schema != "headgate.runs/1" || len(all.Items) != 2 || all.Next == "" {
		t.Errorf("%+v", all)
	}
	r.get("/api/v1/runs.json?after="+all.Next, &list)
	if len(list.Items) != 1 || list.Items[0].Name != apitest.HostileName || list.Next != "" {
		t.Errorf("%+v", list)
	}
}

func inertCells(t *testing.T, rows [][]string) {
	t.Helper()
	for _, row := range rows {
		for _, cell := range row {
			if cell != "" && strings.ContainsAny(cell[:1], "=+-@\t\r\n") {
				t.Errorf("the cell %q is a formula", cell)
			}
		}
	}
}

// FuzzCSV: whatever a run says, its row has all its cells and no formula.
func FuzzCSV(f *testing.F) {
	f.Add("=1+1", "-2\r\n", "\"", 1.5)
	f.Add("\r", "a\x00b", "@", math.Inf(-1))
	f.Add("", "＝1", "\xff", math.Copysign(0, -1))
	f.Fuzz(func(t *testing.T, name, reason, actor string, value float64) {
		r := endedRun(0, drill.Passed)
		r.Name, r.Reason, r.Actor, r.Speed, r.Hypotheses[0].Value, r.Hypotheses[0].Limit, r.Hypotheses[0].Margin = name, reason, actor, value, value, value, value
		var b strings.Builder
		if err := api.WriteRunsCSV(&b, []drill.Run{r.Summary()}); err != nil {
			t.Fatal(err)
		}
		rows, err := csv.NewReader(strings.NewReader(b.String())).ReadAll()
		if err != nil || len(rows) != 2 {
			t.Fatalf("%d rows, %v", len(rows), err)
		}
		inertCells(t, rows)
	})
}

// TestSpecVersion: it changes with what a drill does, not with what it is called.
func TestSpecVersion(t *testing.T) {
	a := drill.Spec{ID: "a", Name: "A", Recovery: time.Minute}
	b, c := a, a
	b.Name, b.Note, b.Owner = "B", "note", "owner"
	c.Recovery = time.Hour
	if a.Version() != b.Version() || a.Version() == c.Version() || len(a.Version()) != 8 {
		t.Errorf("%s, %s, %s", a.Version(), b.Version(), c.Version())
	}
}

// TestNoDrills: a headgate without drills reports it.
func TestNoDrills(t *testing.T) {
	r := newFixture(t)
	for _, path := range []string{"drills", "runs", "runs/x", "runs.csv"} {
		if p := r.problem(r.request(testRequest{method: "GET", path: "/api/v1/" + path}), 404); p.Type != api.TypeNoDrills {
			t.Errorf("%s: %+v", path, p)
		}
	}
}

// TestDrillClient goes through everything over a real listener.
func TestDrillClient(t *testing.T) {
	r := newDrillFixture(t)
	s := httptest.NewServer(r.handler)
	defer s.Close()
	c, ctx := dial(t, s.URL, "ana@ops1"), t.Context()
	list, err := c.Drills(ctx)
	if err != nil || len(list.Items) != 3 {
		t.Fatalf("%+v, %v", list, err)
	}
	if dry, err := c.RunDrill(ctx, apitest.HostileName, api.DrillRunRequest{DryRun: true}); err != nil || dry.Plan.Drill != "odd" {
		t.Errorf("%+v, %v", dry, err)
	}
	run, err := c.RunDrill(ctx, "burst", api.DrillRunRequest{Speed: 5, Reason: "why"})
	if err != nil || run.Run == nil {
		t.Fatalf("%+v, %v", run, err)
	}
	if report, err := c.Run(ctx, *run.Run, api.LastPoint); err != nil || !report.Live || report.Speed != 5 {
		t.Errorf("%+v, %v", report, err)
	}
	q := drill.Query{Drill: "Burst", Triggers: []drill.Trigger{drill.ByHand, drill.ByCatchUp}, Since: time.Now().Add(-time.Hour), Until: time.Now().Add(time.Hour), Running: true, Limit: 5}
	if runs, err := c.Runs(ctx, q); err != nil || len(runs.Items) != 1 {
		t.Errorf("%+v, %v", runs, err)
	}
	if done, err := c.Abort(ctx, *run.Run, "enough"); err != nil || done.Verdict != "aborted" {
		t.Errorf("%+v, %v", done, err)
	}
	if f, err := c.Freeze(ctx, "why"); err != nil || !f.Frozen {
		t.Errorf("%+v, %v", f, err)
	}
	var p *api.Problem
	if _, err := c.RunDrill(ctx, "burst", api.DrillRunRequest{}); !errors.As(err, &p) || p.Type != api.TypeDrillsFrozen {
		t.Errorf("%v", err)
	}
	if f, err := c.Unfreeze(ctx, ""); err != nil || f.Frozen {
		t.Errorf("%+v, %v", f, err)
	}
	for _, name := range []string{"", "..", "a\nb", strings.Repeat("x", 201)} {
		if _, err := c.RunDrill(ctx, name, api.DrillRunRequest{}); err == nil || errors.As(err, &p) && p.Status > 0 && name == "" {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, id := range []string{"", "a/b", "a.b"} {
		_, read := c.Run(ctx, id, "")
		if _, err := c.Abort(ctx, id, ""); err == nil || read == nil {
			t.Errorf("%q: %v, %v", id, err, read)
		}
	}
}
