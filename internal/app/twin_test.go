package app

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"headgate/internal/config"
	"headgate/proxy/fault"
	"headgate/runbooks/drill"
)

// overloadedRun is a short run that the gate has to refuse in.
func overloadedRun() drill.Run {
	return drill.Run{ID: "r1", Name: "test", Speed: 50, Spec: drill.Spec{
		ID: "test", Name: "test", Target: drill.Twin, Recovery: 2 * time.Minute,
		Scenario: drill.Scenario{
			Duration: 200 * time.Second, Baseline: 40 * time.Second, Workers: 4, Service: "uniform:5s-10s", Seed: 1,
			Arrivals: drill.Arrivals{Rate: 0.3, Rest: 0.2, Bursts: []drill.Burst{{From: 20 * time.Second, To: 170 * time.Second, Multiple: 6}}},
		},
	}}
}

// openSandbox opens a stage beside an App that serves.
func openSandbox(t *testing.T, r *fixture, run drill.Run) *sandbox {
	t.Helper()
	opener := &sandboxFactory{
		settings: func() *config.Config { return r.app.cfg }, dir: filepath.Join(r.app.cfg.DataDir, sandboxesDir), version: "test",
	}
	s, err := opener.Open(t.Context(), run)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeSandbox(t, s.(*sandbox)) })
	return s.(*sandbox)
}

func closeSandbox(t *testing.T, w *sandbox) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), waitTimeout)
	defer cancel()
	if err := w.Close(ctx); err != nil {
		t.Errorf("take the twin down: %v", err)
	}
	if left, _ := os.ReadDir(filepath.Dir(w.dir)); len(left) > 0 {
		t.Errorf("the twin left %v", left)
	}
}

func observe(t *testing.T, w *sandbox) drill.Evidence {
	t.Helper()
	e, err := w.Observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// A twin is loaded, refuses, tells, and touches nothing of production.
func TestSandboxEvidence(t *testing.T) {
	r := newFixture(t, nil)
	before := r.getAdmin("/metrics").body
	w := openSandbox(t, r, overloadedRun())
	if took, err := w.Canary(t.Context()); err != nil || took > time.Second {
		t.Fatalf("canary: %v, %v", took, err)
	}
	if e := observe(t, w); e.At != 0 || len(e.Tasks)+len(e.Calls) > 0 || e.Workers != 4 || e.SLO != time.Minute {
		t.Errorf("before the load: %+v", e)
	}
	zero, err := w.Start(t.Context())
	if err != nil || time.Until(zero) <= 0 {
		t.Fatalf("zero is %v away, %v", time.Until(zero), err)
	}
	var e drill.Evidence
	warned := func(m drill.Message) bool { return m.Level == "warn" || m.Level == "page" }
	r.eventually("the scenario is over, and a warning was accepted", func() bool {
		e = observe(t, w)
		return e.At > 210*time.Second && slices.ContainsFunc(e.Messages, warned)
	})
	ends := map[drill.TaskOutcome]int{}
	for _, task := range e.Tasks {
		ends[task.Outcome]++
	}
	if ends[drill.Refused] < 20 || ends[drill.Served] < 60 || ends[drill.Errored]+ends[drill.Broken]+ends[drill.TimedOut]+ends[drill.Unsent] > 0 {
		t.Errorf("ends %v", ends)
	}
	if e.StaleReason != "" || e.MaxQueueAge != 25*time.Second || e.MaxWaiting != 8 || e.ServiceMin != 5*time.Second || e.ServiceMax != 10*time.Second {
		t.Errorf("%+v", e)
	}
	assertCalls(t, e)
	assertMessages(t, e)
	if after := r.getAdmin("/metrics").body; counterLines(before) != counterLines(after) {
		t.Errorf("production moved:\n%s\nwas\n%s", counterLines(after), counterLines(before))
	}
}

func assertCalls(t *testing.T, e drill.Evidence) {
	t.Helper()
	byTask := map[int]drill.Call{}
	for _, c := range e.Calls {
		byTask[c.Task] = c
	}
	matched := 0
	for _, task := range e.Tasks {
		c, called := byTask[task.ID]
		switch {
		case task.Outcome == drill.Refused && called:
			t.Errorf("task %d was refused and reached the endpoint", task.ID)
		case task.Outcome != drill.Served:
		case !called || !c.Reached || !c.Complete || c.Working || c.Status != 200 || c.Finished-c.Arrived < 4*time.Second || c.Arrived < task.Sent:
			t.Errorf("task %+v was served by call %+v", task, c)
		case task.Checksum != 0 && task.Checksum == c.Checksum && task.Bytes == c.Bytes:
			matched++
		}
	}
	if matched < 50 {
		t.Errorf("%d answers were the endpoint's, byte by byte", matched)
	}
}

func assertMessages(t *testing.T, e drill.Evidence) {
	t.Helper()
	levels := map[string]int{}
	for _, m := range e.Messages {
		levels[m.Level]++
		if m.Incident == "" || !strings.Contains(m.Text, "DRILL") || m.Accepted.IsZero() || m.Channel != fakeSlackChannel {
			t.Errorf("message %+v", m)
		}
	}
	if len(e.Incidents) == 0 || e.SlackCalls < len(e.Messages) {
		t.Errorf("levels %v, %d incidents, %d tries", levels, len(e.Incidents), e.SlackCalls)
	}
}

// counterLines are those lines of a scrape that tasks, incidents and messages move.
func counterLines(scrape string) string {
	var lines []string
	for line := range strings.Lines(scrape) {
		for _, name := range []string{"headgate_arrivals_total", "headgate_tasks_total", "headgate_refusals_total", "headgate_turnaround_seconds", "headgate_incidents_open", "headgate_deliveries_total", "headgate_mode"} {
			if strings.HasPrefix(line, name) {
				lines = append(lines, line)
			}
		}
	}
	return strings.Join(lines, "")
}

func TestSandboxFaultsAndSteps(t *testing.T) {
	r := newFixture(t, nil)
	run := overloadedRun()
	run.Spec.Scenario.Arrivals.Bursts = nil
	w := openSandbox(t, r, run)
	if _, err := w.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	l, err := w.Inject(t.Context(), drill.TargetUpstream, drill.Injection{Fault: fault.Fault{Kind: fault.Hang, Share: 1}}, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	r.eventually("calls hang", func() bool { return w.faultHits()[drill.TargetUpstream] > 2 })
	if err := l.Renew(t.Context(), time.Minute); err != nil {
		t.Error(err)
	}
	c, err := w.Clear(t.Context())
	if err != nil || !c.Confirmed || c.Held != 0 || c.Released == 0 || c.Took > time.Second {
		t.Errorf("cleared %+v, %v", c, err)
	}
	if err := l.Renew(t.Context(), time.Minute); err != drill.ErrLeaseExpired {
		t.Errorf("renewed after the clear: %v", err)
	}
	hung := 0
	for _, c := range observe(t, w).Calls {
		if c.Fault == fault.Hang {
			hung++
		}
	}
	if hung < 3 {
		t.Errorf("%d calls are said to have hung", hung)
	}
	for _, s := range []drill.Step{{Kind: drill.StepRollback}, {Kind: drill.StepLockRecord}, {Kind: drill.StepLoseSlots, Count: 3}} {
		undo, err := w.RunStep(t.Context(), s)
		if err != nil {
			t.Fatalf("%s: %v", s.Kind, err)
		}
		if mode := w.app.Pools()[0].Gate.Snapshot(time.Now()).Mode.String(); (mode == "passthrough") != (s.Kind == drill.StepRollback) {
			t.Errorf("%s: mode %s", s.Kind, mode)
		}
		if err := undo(t.Context()); err != nil {
			t.Errorf("undo %s: %v", s.Kind, err)
		}
	}
	if mode := w.app.Pools()[0].Gate.Snapshot(time.Now()).Mode.String(); mode != "enforce" {
		t.Errorf("mode %s at the end", mode)
	}
}
