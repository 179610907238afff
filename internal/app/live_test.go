package app

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"headgate/internal/config"
	"headgate/proxy/fault"
	"headgate/runbooks/drill"
)

// liveRun is a drill on a share of production's tasks.
func liveRun() drill.Run {
	return drill.Run{ID: "r1", Name: "live", Speed: 1, Started: time.Now().UTC(), Spec: drill.Spec{
		ID: "live", Name: "live", Target: drill.Live, Share: 0.2, Scenario: drill.Scenario{Duration: time.Minute},
	}}
}

// newLiveFixture is an App that lets drills touch it, before a model that answers at once.
func newLiveFixture(t *testing.T) *fixture {
	r := newFixture(t, func(c *config.Config) { c.AllowLive, c.Pools[0].Workers = true, 4 })
	close(r.upstream.release)
	return r
}

func openLive(t *testing.T, r *fixture, run drill.Run) *liveEnvironment {
	t.Helper()
	s, err := environmentFactory{app: r.app}.Open(t.Context(), run)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	if _, err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s.(*liveEnvironment)
}

func (r *fixture) sendTasks(n int, mark string) (failed int) {
	r.Helper()
	for range n {
		req := r.request(http.MethodPost, "http://"+r.app.DataAddr()+chatPath, chatBody)
		if mark != "" {
			req.Header.Set(drillHeader, mark)
		}
		if a := r.do(req); a.status != http.StatusOK {
			failed++
		}
	}
	return failed
}

func statusFault(share float64) drill.Injection {
	return drill.Injection{Fault: fault.Fault{Kind: fault.Status, Code: 503, Share: share}}
}

// A live drill touches its share of tasks and no more, sees both ends of them, and
// leaves nothing behind.
func TestLiveTouchesItsShare(t *testing.T) {
	r := newLiveFixture(t)
	l := openLive(t, r, liveRun())
	if _, err := l.Inject(t.Context(), drill.TargetUpstream, statusFault(0.3), time.Second); err == nil || !strings.Contains(err.Error(), "more than the drill may touch, 0.2") {
		t.Errorf("a larger share: %v", err)
	}
	if _, err := l.Inject(t.Context(), drill.TargetUpstream, statusFault(0.2), fault.MaxTTL); err != nil {
		t.Fatal(err)
	}
	failed := r.sendTasks(50, "")
	if failed < 8 || failed > 12 {
		t.Errorf("%d of 50 tasks were touched, want about 10", failed)
	}
	e, err := l.Observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	assertLiveEvidence(t, e, 50, failed)
	if drift := r.app.liveFaults.scopeViolations(l.run); !drift.Measured || drift.Value != 0 || drift.Samples != 50 {
		t.Errorf("strayed: %+v", drift)
	}
	less := l.run
	if less.Spec.Share = 0.02; r.app.liveFaults.scopeViolations(less).Value == 0 {
		t.Error("nobody sees that more was touched than the share")
	}
	if c, err := l.Clear(t.Context()); err != nil || !c.Confirmed || c.Held != 0 {
		t.Errorf("cleared %+v, %v", c, err)
	}
	if again := r.sendTasks(20, ""); again != 0 {
		t.Errorf("%d tasks were touched after the clear", again)
	}
	if err := l.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.sendTasks(5, "")
	if e, err := l.Observe(t.Context()); err != nil || len(e.Tasks) != 70 {
		t.Errorf("%d tasks are seen after the end, %v", len(e.Tasks), err)
	}
}

func assertLiveEvidence(t *testing.T, e drill.Evidence, tasks, failed int) {
	t.Helper()
	if len(e.Tasks) != tasks || len(e.Calls) != tasks || e.Planned != tasks || e.Workers != 4 || e.FaultHits[drill.TargetUpstream] != failed {
		t.Errorf("%d tasks, %d calls, %d planned, %d workers, %v befallen", len(e.Tasks), len(e.Calls), e.Planned, e.Workers, e.FaultHits)
	}
	struck := 0
	for i, c := range e.Calls {
		task := e.Tasks[c.Task]
		switch {
		case c.Fault != "":
			struck++
			if task.Outcome != drill.Errored || task.Status != 503 || c.Reached || c.Status != 503 {
				t.Errorf("task %+v was touched by call %+v", task, c)
			}
		case task.Outcome != drill.Served || !c.Reached || !c.Complete || task.Checksum != c.Checksum || task.Bytes != c.Bytes || c.Bytes == 0:
			t.Errorf("%d: task %+v, call %+v", i, task, c)
		}
	}
	if struck != failed {
		t.Errorf("%d calls are said to have been touched, %d tasks failed", struck, failed)
	}
}

// With marks, only tasks that bear one are touched, and the endpoint never sees it.
func TestLiveTouchesMarkedTasksOnly(t *testing.T) {
	var leaked atomic.Bool
	r := newLiveFixture(t)
	next := r.upstream.server.Config.Handler
	r.upstream.server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Header.Get(drillHeader) != "" || req.Header.Get(callHeader) != "" {
			leaked.Store(true)
		}
		next.ServeHTTP(w, req)
	})
	run := liveRun()
	run.Spec.Share, run.Spec.Marked = 0, true
	l := openLive(t, r, run)
	l.app.liveFaults.key = markKey("a token")
	if _, err := l.Inject(t.Context(), drill.TargetUpstream, statusFault(1), fault.MaxTTL); err != nil {
		t.Fatal(err)
	}
	for name, mark := range map[string]string{
		"none": "", "words": "yes", "another token": DrillMark("another", time.Now()), "an old one": DrillMark("a token", time.Now().Add(-6*time.Minute)),
		"one from the future": DrillMark("a token", time.Now().Add(6*time.Minute)), "no signature": DrillMark("a token", time.Now())[:11], "dots": "....",
	} {
		if failed := r.sendTasks(2, mark); failed != 0 {
			t.Errorf("%s: %d tasks were touched", name, failed)
		}
	}
	if failed := r.sendTasks(3, DrillMark("a token", time.Now())); failed != 3 {
		t.Errorf("%d of 3 marked tasks were touched", failed)
	}
	for pool, c := range r.app.metrics.SLO() {
		if c.Bad != 0 {
			t.Errorf("%d rehearsed tasks count against the SLO of %s", c.Bad, pool)
		}
	}
	e, err := l.Observe(t.Context())
	if err != nil || len(e.Tasks) != 3 || len(e.Calls) != 3 || e.Workers != 0 {
		t.Errorf("%d tasks, %d calls, %d workers, %v", len(e.Tasks), len(e.Calls), e.Workers, err)
	}
	if drift := r.app.liveFaults.scopeViolations(run); drift.Value != 0 || !drift.Measured {
		t.Errorf("strayed: %+v", drift)
	}
	l.trace.tasks[len(l.trace.tasks)-1].marked = false // as if a fault had befallen somebody else
	if drift := r.app.liveFaults.scopeViolations(run); drift.Value != 1 {
		t.Errorf("nobody sees that an unmarked task was touched: %+v", drift)
	}
	if leaked.Load() {
		t.Error("the endpoint saw a header of the drill")
	}
}

// However many tasks there are, a run touches so many at most.
func TestLiveBlastRadius(t *testing.T) {
	r := newLiveFixture(t)
	run := liveRun()
	run.Spec.Share, run.Spec.Marked = 0, true
	l := openLive(t, r, run)
	l.app.liveFaults.key = markKey("a token")
	l.touchedCalls.Store(drill.MaxLiveTasks - 2)
	for range 2 { // a lease that was renewed anew does not begin to count again
		if _, err := l.Inject(t.Context(), drill.TargetUpstream, statusFault(0.5), fault.MaxTTL); err != nil {
			t.Fatal(err)
		}
	}
	if failed := r.sendTasks(10, DrillMark("a token", time.Now())); failed != 2 {
		t.Errorf("%d tasks were touched, 2 were left", failed)
	}
}

func TestLiveRequiresAllowLive(t *testing.T) {
	r := newFixture(t, nil)
	if _, err := (environmentFactory{app: r.app}).Open(t.Context(), liveRun()); err == nil || !strings.Contains(err.Error(), "set allow_live: true") {
		t.Errorf("%v", err)
	}
	if len(r.app.liveFaults.injectors) != 0 {
		t.Error("there is a way to touch production that nobody allowed")
	}
	l := openLive(t, newLiveFixture(t), liveRun())
	if _, err := l.RunStep(t.Context(), drill.Step{Kind: drill.StepRollback}); err == nil {
		t.Error("a live drill takes steps")
	}
	if _, err := l.Inject(t.Context(), drill.TargetSlack, statusFault(0.1), time.Second); err == nil {
		t.Error("a live drill keeps messages from people")
	}
}

// What is allowed by a reload counts from then on, and what is forbidden too.
func TestLiveIsAllowedByReload(t *testing.T) {
	r := newFixture(t, nil)
	allowed := *r.app.cfg
	allowed.AllowLive = true
	if err := r.app.Reload(&allowed); err != nil {
		t.Fatal(err)
	}
	l, err := r.app.openLiveEnvironment(liveRun())
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(t.Context()); err != nil {
		t.Error(err)
	}
	forbidden := allowed
	forbidden.AllowLive = false
	if err := r.app.Reload(&forbidden); err != nil {
		t.Fatal(err)
	}
	if _, err := r.app.openLiveEnvironment(liveRun()); err == nil {
		t.Error("a live drill runs that is not allowed any more")
	}
}

// Marks are made as the documentation says.
func TestDrillMark(t *testing.T) {
	const want = "1764470000.75cea3a808a1ffe5f00a8d6df142582723bb28f20c04959ccbc0ad82d1ac62eb" // by openssl
	if got := DrillMark("abc", time.Unix(1764470000, 0)); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// What is the client's own doing, or the endpoint's wish, is nobody's fault.
func TestLiveExcludesClientErrors(t *testing.T) {
	b := &taskTrace{clock: &scenarioClock{speed: 1}, pool: "p", singlePool: true}
	answer := func(status int, header string, struck bool) drill.TaskOutcome {
		r := httptest.NewRequest(http.MethodPost, chatPath, nil)
		b.serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if struck {
				b.markFaulted(taskFromContext(r.Context()).ID)
			}
			if header != "" {
				w.Header().Set(header, "queue_age")
			}
			w.WriteHeader(status)
		}), httptest.NewRecorder(), r, false)
		return b.tasks[len(b.tasks)-1].Outcome
	}
	for _, tt := range []struct {
		status int
		header string
		struck bool
		want   drill.TaskOutcome
	}{
		{200, "", false, drill.Served}, {400, "", false, drill.Unsent}, {429, "", false, drill.Unsent}, {429, "Headgate-Reason", false, drill.Refused},
		{503, "Headgate-Reason", false, drill.Refused}, {404, "", true, drill.Errored}, {502, "", false, drill.Errored},
	} {
		if got := answer(tt.status, tt.header, tt.struck); got != tt.want {
			t.Errorf("%+v: %q", tt, got)
		}
	}
	var e drill.Evidence
	if b.addTo(&e); len(e.Tasks) != 7 || e.Planned != 5 {
		t.Errorf("%d tasks, %d planned", len(e.Tasks), e.Planned)
	}
}
