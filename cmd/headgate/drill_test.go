package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"headgate/internal/cli"
	"headgate/runbooks/drill"
	"headgate/web/api"
	"headgate/web/api/apitest"
)

// endedRun is a run that has ended, n hours ago.
func endedRun(n int, v drill.Verdict) drill.Run {
	at := time.Now().UTC().Truncate(time.Millisecond).Add(-time.Duration(n) * time.Hour)
	r := drill.Run{
		ID: fmt.Sprintf("01a2299%x-0000-7a3e-8d51-000000000000", n%16), Drill: "burst", Name: "Burst", Version: "1.2.3",
		Trigger: drill.BySchedule,
		Actor:   "schedule", Speed: 20, Scheduled: at, Started: at, Ended: at.Add(23500 * time.Millisecond),
		Status: drill.Ended, Verdict: v,
		Reason: "because", Spec: drill.Spec{ID: "burst", Target: drill.Twin}, Injected: 7, ClearTook: 5 * time.Millisecond,
		Recovered: 41 * time.Second,
		Hypotheses: []drill.Hypothesis{
			{Expectation: drill.Expectation{Measure: drill.P95, Compare: drill.AtMost, Limit: 60, Unit: "s"}, Measured: true,
				Value: 41, Margin: 0.3125, Passed: true, Evidence: "80 tasks"},
			{Expectation: drill.Expectation{Measure: drill.Pages, Compare: drill.Equal, Limit: 1, Unit: "messages"},
				Measured: true, Value: 0, Margin: -1, Evidence: "Slack"},
			{Expectation: drill.Expectation{Measure: drill.TimeToPage, Compare: drill.AtMost, Limit: 30, Unit: "s"},
				Reason: "no page came"},
		},
		Phases:   []drill.Phase{{Name: drill.PhaseInject, Started: at, Ended: at.Add(time.Second), Note: "fence 1"}},
		Messages: []drill.Message{{Kind: "post", Level: "warn", Text: "DRILL\x1b[2J\nsecond", Accepted: at}},
		Reverts: []drill.RevertResult{{What: "rollback", At: at, Took: time.Second, OK: true},
			{What: "lock_record", At: at, Note: "held on"}},
	}
	return r
}

// lines returns the lines of a text with single spaces between their fields.
func lines(text string) (out []string) {
	for line := range strings.Lines(text) {
		out = append(out, fields(line))
	}
	return out
}

// wantContains checks that a text has all parts.
func wantContains(t *testing.T, text string, parts ...string) {
	t.Helper()
	squeezed := strings.Join(lines(text), "\n")
	for _, p := range parts {
		if !strings.Contains(squeezed, p) {
			t.Errorf("%q is not in\n%s", p, text)
		}
	}
	if strings.ContainsAny(text, "\x1b\r") {
		t.Errorf("control characters in %q", text)
	}
}

func TestDrillList(t *testing.T) {
	g := newTestEnv(t)
	s := g.serveIncidents()
	s.Drills.AddRuns(endedRun(75, drill.Passed), endedRun(1, drill.Failed))
	r := g.runBare("drill", "list")
	wantContains(t, r.out, "DRILL NAME TARGET POOL SCHEDULE NEXT LAST LAST PASSED",
		"burst Burst twin a 30 9 * * 1 Europe/Berlin 2026-03-29T07:30:00Z failed 3 days ago",
		"live Live latency live a manual - - never",
		"burst: due 2026-03-29T09:30:00+02:00 (2026-03-29T07:30:00Z), clocks go forward that night",
		"cannot run: allow_live is not set", apitest.HostileName)
	if r.code != 0 || r.err != "" {
		t.Errorf("exit %d, %s", r.code, r.err)
	}
	var list api.DrillList
	if err := json.Unmarshal([]byte(g.runBare("drill", "list", "--json").out), &list); err != nil || len(list.Items) != 3 {
		t.Errorf("%+v, %v", list, err)
	}
	g.runBare("drill", "freeze", "--reason", "release\nweek").want(t, 0,
		"drills are frozen by ana@host: release week\nundo: headgate drill unfreeze\n")
	wantContains(t, g.runBare("drill", "list").out,
		"FROZEN by ana@host: release week; no drill runs until headgate drill unfreeze")
	g.runBare("drill", "run", "burst").want(t, cli.ExitFailed, "", "Drills are frozen")
	g.runBare("drill", "freeze").want(t, cli.ExitUsage, "", "--reason must say why")
	if f := g.runBare("drill", "unfreeze", "--json").decodeJSON(t); f["frozen"] != false || f["by"] != "ana@host" {
		t.Errorf("%v", f)
	}
	g.runBare("drill", "unfreeze").want(t, 0, "drills may run\n")
}

func TestDrillRun(t *testing.T) {
	g := newTestEnv(t)
	s := g.serveIncidents()
	r := g.runBare("drill", "run", "burst", "--dry-run", "--speed", "20")
	wantContains(t, r.out, "Burst (burst) would run on twin, pool a, at most 5m00s of scenario in 15s at speed 20, messages to #drills",
		"step load of 0.8 tasks/s", "expect p95_turnaround <= 60 s", "nothing was started")
	wantContains(t, g.runBare("drill", "run", "live", "--dry-run").out, "it could not start now: allow_live is not set")
	if s.Drills.RunningID() != "" {
		t.Fatal("a dry run began")
	}
	r = g.runBare("drill", "run", "burst", "--reason", "to  see")
	id := s.Drills.RunningID()
	if want := "Burst started, at most 5m00s: run " + id + "\nshow: headgate drill show " + id + "\nabort: headgate drill abort " + id + "\n"; r.out != want || r.code != 0 {
		t.Errorf("exit %d, %q, want %q", r.code, r.out, want)
	}
	if o := s.Drills.StartRequests()[0]; o.Actor != "ana@host" || o.Reason != "to see" || o.Speed != 0 {
		t.Errorf("%+v", o)
	}
	g.runBare("drill", "run", "odd").want(t, cli.ExitFailed, "", "Drill Burst is running", id)
	g.runBare("drill", "run", "unknown").want(t, cli.ExitFailed, "", "There are: burst, live, odd")
	g.runBare("drill", "run", "live").want(t, cli.ExitFailed, "", "allow_live", "headgate:")
	r = g.runBare("drill", "abort", id, "--reason", "smoke")
	if r.code != 0 || r.out != "Burst: aborted, faults cleared\nshow: headgate drill show "+id+"\n" {
		t.Errorf("exit %d, %q, %q", r.code, r.out, r.err)
	}
	g.runBare("drill", "abort", id).want(t, cli.ExitFailed, "", "has ended already")
	g.runBare("drill", "abort", "ffff").want(t, cli.ExitFailed, "", "no run has an ID")
	for _, args := range [][]string{{"run"}, {"run", "a", "b"}, {"run", ""}, {"run", "burst", "--speed", "0"},
		{"run", "burst", "--speed", "NaN"}, {"run", "burst", "--speed", "1e9"},
		{"run", "burst", "--reason", strings.Repeat("x", 501)}, {"show"}, {"show", "a/b"}, {"abort"},
		{"freeze", "x", "--reason", "y"}} {
		if r := g.runBare(append([]string{"drill"}, args...)...); r.code != cli.ExitUsage || r.out != "" {
			t.Errorf("%v: exit %d, %q", args, r.code, r.out)
		}
	}
}

// runWhile runs a command and, while it waits for a run, what changes that.
func (g *testEnv) runWhile(s *apitest.Server, args []string, change func()) cliResult {
	g.Helper()
	done := make(chan cliResult)
	go func() { done <- g.runBare(args...) }()
	for s.Drills.RunningID() == "" {
		select {
		case r := <-done:
			g.Fatalf("it did not wait: %+v", r)
		case <-time.After(time.Millisecond):
		}
	}
	change()
	return <-done
}

// TestDrillWait: --wait shows the progress of a run, and its exit code says whether the run passed.
func TestDrillWait(t *testing.T) {
	for v, code := range map[drill.Verdict]int{drill.Passed: cli.ExitOK, drill.Failed: cli.ExitUnexpected,
		drill.Aborted: cli.ExitUnexpected, drill.Inconclusive: cli.ExitUnexpected, drill.Skipped: cli.ExitUnexpected,
		drill.Interrupted: cli.ExitUnexpected} {
		t.Run(string(v), func(t *testing.T) {
			t.Parallel()
			g := newTestEnv(t)
			s := g.serveIncidents()
			r := g.runWhile(s, []string{"drill", "run", "burst", "--wait", "--speed", "20"}, func() {
				s.Drills.UpdateRunning(func(r *drill.Run) {
					r.Series = []drill.Point{{At: 142, Turnaround: 41, QueueAge: 3.25, Depth: 4, InFlight: 16}}
				})
				s.Drills.UpdateRunning(func(r *drill.Run) {
					p := endedRun(0, v)
					p.ID, p.Series = r.ID, r.Series
					*r = p
				})
			})
			if r.code != code {
				t.Errorf("exit %d, want %d: %s", r.code, code, r.err)
			}
			wantContains(t, r.out, "Burst "+strings.ToUpper(string(v))+" because",
				"held p95_turnaround 41s <= 60s 31.2% 80 tasks", "FAILED pages 0 messages == 1 messages -100% Slack",
				"unknown time_to_page ? <= 30s - no page came", "faults injected into 7 calls, cleared in 0s",
				"recovered within 41s", "inject ", "DRILL�[2J",
				"rollback done in 1s", "lock_record FAILED in 0s: held on")
			if code != 0 && !strings.Contains(r.err, "headgate: drill Burst "+string(v)+": because") {
				t.Errorf("stderr %q", r.err)
			}
			wantContains(t, r.err, "headgate: Burst inject")
		})
	}
}

func TestDrillWaitJSON(t *testing.T) {
	g := newTestEnv(t)
	s := g.serveIncidents()
	r := g.runWhile(s, []string{"drill", "run", "burst", "--wait", "--json"}, func() {
		s.Drills.UpdateRunning(func(r *drill.Run) {
			r.Series = []drill.Point{{At: 1}, {At: 2}}
			r.Status, r.Verdict, r.Ended = drill.Ended, drill.Failed, time.Now()
		})
	})
	var report drill.Run
	if err := json.Unmarshal([]byte(r.out), &report); err != nil || len(report.Series) != 2 ||
		report.Verdict != drill.Failed || r.code != cli.ExitUnexpected {
		t.Errorf("exit %d, %+v, %v", r.code, report, err)
	}
}

// TestDrillDetach: Ctrl-C ends the waiting, not the run.
func TestDrillDetach(t *testing.T) {
	g := newTestEnv(t)
	s := g.serveIncidents()
	ctx, cancel := context.WithCancel(t.Context())
	var out bytes.Buffer
	messages := &firstWriteBuffer{wrote: make(chan struct{})}
	done := make(chan int)
	go func() {
		done <- execute(ctx, g.env, []string{"drill", "run", "burst", "--wait"}, &out, messages)
	}()
	<-messages.wrote // of how the run goes, so that it is known that it has begun
	cancel()
	code := <-done
	id := s.Drills.RunningID()
	if code != cli.ExitFailed || id == "" || !strings.Contains(messages.String(), "the run continues") {
		t.Errorf("exit %d, run %q, %s", code, id, messages)
	}
}

// firstWriteBuffer keeps what one goroutine writes to it, and signals the first write.
type firstWriteBuffer struct {
	bytes.Buffer
	wrote chan struct{}
}

func (h *firstWriteBuffer) Write(p []byte) (int, error) {
	if h.Len() == 0 {
		close(h.wrote)
	}
	return h.Buffer.Write(p)
}

func TestDrillShow(t *testing.T) {
	g := newTestEnv(t)
	s := g.serveIncidents()
	one, two := endedRun(1, drill.Passed), endedRun(2, drill.Failed)
	two.Name, two.Reason = apitest.HostileName, "\x1b[31mred"
	s.Drills.AddRuns(two, one)
	r := g.runBare("drill", "show", one.ID[:8])
	wantContains(t, r.out, "Burst PASSED because", "drill burst, spec ",
		"started "+one.Started.Format(time.RFC3339)+" (schedule)", "took 24s at speed 20", "id "+one.ID)
	wantContains(t, g.runBare("drill", "show", two.ID).out, apitest.HostileName+" FAILED �[31mred")
	g.runBare("drill", "show", "01a2299").want(t, cli.ExitUsage, "", "2 runs have IDs that begin with 01a2299")
	g.runBare("drill", "show", strings.Repeat("0", 36)).want(t, cli.ExitFailed, "", "There is no such run")
	var report drill.Run
	if err := json.Unmarshal([]byte(g.runBare("drill", "show", one.ID, "--json").out), &report); err != nil ||
		report.ID != one.ID || report.Spec.ID != "burst" {
		t.Errorf("%+v, %v", report, err)
	}
	g.runBare("drill", "run", "burst")
	id := s.Drills.RunningID()
	s.Drills.UpdateRunning(func(r *drill.Run) { r.Series = []drill.Point{{At: 7, Turnaround: -1, Depth: 2}} })
	wantContains(t, g.runBare("drill", "show", id).out, "Burst RUNNING",
		"Burst inject scenario 7 s p95 - oldest 0s queued 2 in flight 0", "running")
}

func TestDrillHistory(t *testing.T) {
	g := newTestEnv(t)
	s := g.serveIncidents()
	g.runBare("drill", "history").want(t, 0, "no runs\n")
	missed := endedRun(3, drill.Missed)
	missed.Ended, missed.Hypotheses, missed.Reason, missed.Count = time.Time{}, nil, "nothing ran", 4
	s.Drills.AddRuns(endedRun(2000, drill.Passed), missed, endedRun(2, drill.Passed), endedRun(1, drill.Failed))
	r := g.runBare("drill", "history")
	got := lines(r.out)
	if r.code != 0 || len(got) != 4 || got[0] != "ID DRILL VERDICT STARTED TRIGGER TOOK TIGHTEST REASON" ||
		!strings.HasSuffix(got[1], "schedule 24s pages 0 messages of 1 messages because") ||
		!strings.HasSuffix(got[3], "schedule - - nothing ran") {
		t.Errorf("exit %d, %q", r.code, got)
	}
	for args, n := range map[string]int{
		"--since 365d": 4, "--verdict failed": 1, "--verdict failed,missed": 2, "--trigger manual": 0, "--drill none": 0,
		"--drill Burst": 3, "--until 90m": 2,
	} {
		var list api.DrillRunList
		r := g.runBare(append([]string{"drill", "history", "--json"}, strings.Fields(args)...)...)
		if err := json.Unmarshal([]byte(r.out), &list); err != nil || len(list.Items) != n || list.Items == nil {
			t.Errorf("%s: %d runs, want %d, %v", args, len(list.Items), n, err)
		}
	}
	rows, err := csv.NewReader(strings.NewReader(g.runBare("drill", "history", "--csv").out)).ReadAll()
	if err != nil || len(rows) != 4 || rows[0][0] != "id" || rows[1][13] != "failed" {
		t.Errorf("%q, %v", rows, err)
	}
	g.runBare("drill", "history", "--csv", "--json").want(t, cli.ExitUsage, "", "--json and --csv exclude each other")
	g.runBare("drill", "history", "--verdict", "good").want(t, cli.ExitUsage, "", "--verdict must be of passed, failed")
	g.runBare("drill", "history", "--since", "soon").want(t, cli.ExitUsage, "", "--since must be a span")
}

// TestDrillUnreachable: without a service the message says how to start it, also where none has ever run.
func TestDrillUnreachable(t *testing.T) {
	t.Parallel()
	g := newTestEnv(t)
	for _, url := range []string{closedAddress(t), hangingServer(t)} {
		g.vars["HEADGATE_ADMIN"] = url
		for _, args := range [][]string{{"list"}, {"run", "burst", "--wait"}, {"freeze", "--reason", "x"}} {
			r := g.run(append([]string{"drill"}, args...)...)
			r.want(t, cli.ExitUnreachable, "", "no answer from the admin plane",
				"headgate: drills run in the service; start it with: headgate serve")
		}
	}
	for _, args := range [][]string{{"history"}, {"show", "01a22990"}} {
		g.run(append([]string{"drill"}, args...)...).want(t, cli.ExitUnreachable, "", "reading from the database in",
			"the database cannot be read either")
	}
	g.vars["HEADGATE_ADMIN"] = foreignServer(t, func(w http.ResponseWriter, _ *http.Request) {
		api.WriteProblem(w, api.Problem{Type: api.TypeNoDrills, Status: http.StatusNotFound,
			Detail: "This headgate runs no drills."})
	})
	g.vars["HEADGATE_TOKEN"] = watchToken
	g.runBare("drill", "list").want(t, cli.ExitFailed, "", "This headgate runs no drills.")
}

// TestDrillServiceLost: a service that stops while a command waits for its run is waited for, for a limited time.
func TestDrillServiceLost(t *testing.T) {
	g := newTestEnv(t)
	now := time.Now()
	g.env.Now = func() time.Time { now = now.Add(time.Minute); return now }
	g.vars["HEADGATE_TOKEN"] = watchToken
	g.vars["HEADGATE_ADMIN"] = foreignServer(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"dry_run":false,"run":"01a22990","plan":{}}`)
			return
		}
		w.WriteHeader(http.StatusBadGateway)
	})
	g.runBare("drill", "run", "burst", "--wait").want(t, cli.ExitUnreachable, "", "no answer from the admin plane")
}

// TestDrillSpecAndCheck: what is printed can be checked, edited and refused, with
// the place of the mistake.
func TestDrillSpecAndCheck(t *testing.T) {
	g := newTestEnv(t)
	spec := g.runBare("drill", "spec", "burst")
	if spec.code != 0 || !strings.HasPrefix(spec.out, "id: burst\n") {
		t.Fatalf("exit %d\n%s%s", spec.code, spec.out, spec.err)
	}
	dir := files(t, map[string]string{
		"good.yaml":  spec.out,
		"empty.yaml": strings.Replace(spec.out, "abort_if:\n  - error_share >= 50%\n  - in_flight_over_limit >= 8\n", "", 1),
		"service.yaml": strings.Replace(spec.out, "uniform:5s-30s",
			"uniform:30s-5s", 1),
	})
	check := func(file string) cliResult { return g.runBare("drill", "check", filepath.Join(dir, file)) }
	good := check("good.yaml")
	for _, want := range []string{"from 120s to 240s: 2 times as many", "expect: late_share <= 5%",
		"abort if: error_share >= 50%"} {
		if good.code != 0 || !strings.Contains(good.out, want) {
			t.Errorf("exit %d, without %q:\n%s%s", good.code, want, good.out, good.err)
		}
	}
	for file, want := range map[string]string{
		"empty.yaml": "abort_if: must say when the drill is to stop", "service.yaml": ": scenario.service: service",
		"none.yaml": "read the drill",
	} {
		if r := check(file); r.code != 2 || !strings.Contains(r.err, want) || r.out != "" {
			t.Errorf("%s: exit %d\n%s%s", file, r.code, r.out, r.err)
		}
	}
	if r := g.runBare("drill", "spec", "brust"); r.code != 2 || !strings.Contains(r.err, "there are alert-path, burst") {
		t.Errorf("exit %d: %s", r.code, r.err)
	}
}
