package sandbox

import (
	"context"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"headgate/proxy/fault"
	"headgate/runbooks/drill"
)

// liveRun is a drill on a share of production's tasks.
func liveRun() drill.Run {
	return drill.Run{ID: "r1", Name: "live", Speed: 1, Started: time.Now().UTC(), Spec: drill.Spec{
		ID: "live", Name: "live", Target: drill.Live, Share: 0.2, Scenario: drill.Scenario{Duration: time.Minute},
	}}
}

// production is a data plane that forwards each task through the transport of its pool to an endpoint that answers at
// once.
type production struct {
	*testing.T
	environments *Environments
	handler      http.Handler
	leaked       bool // the endpoint saw a header of drills
	tagged       int  // tasks that were tagged as a drill's
}

type taggedKey struct{}

const markToken = "a token"

func newProduction(t *testing.T) *production {
	p := &production{T: t}
	traffic := &Traffic{Tag: func(ctx context.Context) context.Context { return context.WithValue(ctx, taggedKey{}, true) }}
	traffic.SetMarkToken(markToken)
	transport := traffic.Transport("default", roundTripperFunc(func(r *http.Request) (*http.Response, error) {
		p.leaked = p.leaked || r.Header.Get(markHeader) != "" || r.Header.Get(callHeader) != ""
		return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("{}")), Request: r}, nil
	}))
	p.handler = traffic.Ingress(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Context().Value(taggedKey{}) != nil {
			p.tagged++
		}
		call := httptest.NewRequestWithContext(r.Context(), http.MethodPost, "http://upstream/", nil)
		res, err := transport.RoundTrip(call)
		if err != nil {
			t.Error(err)
			return
		}
		defer res.Body.Close()
		w.WriteHeader(res.StatusCode)
		_, _ = io.Copy(w, res.Body)
	}))
	p.environments = &Environments{
		Traffic: traffic, Pool: func(drill.Spec) (Pool, error) {
			return Pool{Name: "default", Workers: 4, SLO: time.Minute, Only: true}, nil
		},
		Incidents: func(context.Context, string, time.Time) ([]string, error) { return []string{"i1"}, nil },
	}
	return p
}

// open begins a live drill.
func (p *production) open(run drill.Run) *liveEnvironment {
	p.Helper()
	s, err := p.environments.Open(p.Context(), run)
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil {
			p.Error(err)
		}
	})
	if _, err := s.Start(p.Context()); err != nil {
		p.Fatal(err)
	}
	return s.(*liveEnvironment)
}

// send sends tasks and returns how many failed.
func (p *production) send(n int, mark string) (failed int) {
	for range n {
		r := httptest.NewRequestWithContext(p.Context(), http.MethodPost, "/v1/chat/completions", strings.NewReader("{}"))
		if mark != "" {
			r.Header.Set(markHeader, mark)
		}
		w := httptest.NewRecorder()
		p.handler.ServeHTTP(w, r)
		if w.Code != http.StatusOK {
			failed++
		}
	}
	return failed
}

func statusFault(share float64) drill.Injection {
	return drill.Injection{Fault: fault.Fault{Kind: fault.Status, Code: 503, Share: share}}
}

// sign makes a mark as docs/drills.md describes.
func sign(token string, at time.Time) string {
	text := strconv.FormatInt(at.Unix(), 10)
	return text + "." + hex.EncodeToString(hmacSHA256(hmacSHA256([]byte(token), "headgate drill header"), text))
}

// TestLiveTouchesItsShare: a live drill touches its share of tasks and no more, sees both ends of them, and leaves no
// fault behind.
func TestLiveTouchesItsShare(t *testing.T) {
	p := newProduction(t)
	l := p.open(liveRun())
	if _, err := l.Inject(t.Context(), drill.TargetUpstream, statusFault(0.3), time.Second); err == nil || !strings.Contains(err.Error(), "more than the drill may touch, 0.2") {
		t.Errorf("a larger share: %v", err)
	}
	if _, err := l.Inject(t.Context(), drill.TargetUpstream, statusFault(0.2), fault.MaxTTL); err != nil {
		t.Fatal(err)
	}
	failed := p.send(50, "")
	if failed < 8 || failed > 12 {
		t.Errorf("%d of 50 tasks were touched, want about 10", failed)
	}
	e, err := l.Observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	assertLiveEvidence(t, e, 50, failed)
	if drift := p.environments.Traffic.ScopeViolations(l.run); !drift.Measured || drift.Value != 0 || drift.Samples != 50 {
		t.Errorf("strayed: %+v", drift)
	}
	less := l.run
	if less.Spec.Share = 0.02; p.environments.Traffic.ScopeViolations(less).Value == 0 {
		t.Error("more was touched than the share, and no violation is counted")
	}
	if c, err := l.Clear(t.Context()); err != nil || !c.Confirmed || c.Held != 0 {
		t.Errorf("cleared %+v, %v", c, err)
	}
	if again := p.send(20, ""); again != 0 {
		t.Errorf("%d tasks were touched after the clear", again)
	}
	if err := l.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.send(5, "")
	if e, err := l.Observe(t.Context()); err != nil || len(e.Tasks) != 70 {
		t.Errorf("%d tasks are seen after the end, %v", len(e.Tasks), err)
	}
}

func assertLiveEvidence(t *testing.T, e drill.Evidence, tasks, failed int) {
	t.Helper()
	if len(e.Tasks) != tasks || len(e.Calls) != tasks || e.Planned != tasks || e.Workers != 4 || e.FaultHits[drill.TargetUpstream] != failed {
		t.Errorf("%d tasks, %d calls, %d planned, %d workers, %v hit", len(e.Tasks), len(e.Calls), e.Planned, e.Workers, e.FaultHits)
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

// TestLiveTouchesMarkedTasksOnly: with marks, only tasks with a valid mark are touched, and no header of drills comes to
// the endpoint.
func TestLiveTouchesMarkedTasksOnly(t *testing.T) {
	p := newProduction(t)
	run := liveRun()
	run.Spec.Share, run.Spec.Marked = 0, true
	l := p.open(run)
	if _, err := l.Inject(t.Context(), drill.TargetUpstream, statusFault(1), fault.MaxTTL); err != nil {
		t.Fatal(err)
	}
	valid := sign(markToken, time.Now())
	for name, mark := range map[string]string{
		"none": "", "words": "yes", "another token": sign("another", time.Now()), "too old": sign(markToken, time.Now().Add(-6*time.Minute)),
		"from the future": sign(markToken, time.Now().Add(6*time.Minute)), "no signature": valid[:11], "dots": "....",
	} {
		if failed := p.send(2, mark); failed != 0 {
			t.Errorf("%s: %d tasks were touched", name, failed)
		}
	}
	if failed := p.send(3, valid); failed != 3 || p.tagged != 3 {
		t.Errorf("of 3 marked tasks %d were touched; %d tasks were tagged", failed, p.tagged)
	}
	e, err := l.Observe(t.Context())
	if err != nil || len(e.Tasks) != 3 || len(e.Calls) != 3 || e.Workers != 0 || len(e.Incidents) != 1 {
		t.Errorf("%d tasks, %d calls, %d workers, incidents %v, %v", len(e.Tasks), len(e.Calls), e.Workers, e.Incidents, err)
	}
	if drift := p.environments.Traffic.ScopeViolations(run); drift.Value != 0 || !drift.Measured {
		t.Errorf("out of scope: %+v", drift)
	}
	l.trace.tasks[len(l.trace.tasks)-1].marked = false // as if a fault had hit another task
	if drift := p.environments.Traffic.ScopeViolations(run); drift.Value != 1 {
		t.Errorf("out of scope: %+v, want the unmarked task", drift)
	}
	if p.leaked {
		t.Error("the endpoint saw a header of the drill")
	}
}

// TestLiveBlastRadius: a run touches at most drill.MaxLiveTasks, also over several leases.
func TestLiveBlastRadius(t *testing.T) {
	p := newProduction(t)
	run := liveRun()
	run.Spec.Share, run.Spec.Marked = 0, true
	l := p.open(run)
	l.touchedCalls.Store(drill.MaxLiveTasks - 2)
	for range 2 {
		if _, err := l.Inject(t.Context(), drill.TargetUpstream, statusFault(0.5), fault.MaxTTL); err != nil {
			t.Fatal(err)
		}
	}
	if failed := p.send(10, sign(markToken, time.Now())); failed != 2 {
		t.Errorf("%d tasks were touched, 2 were left", failed)
	}
}

func TestLiveHasFaultsUpstreamOnly(t *testing.T) {
	p := newProduction(t)
	l := p.open(liveRun())
	if _, err := l.RunStep(t.Context(), drill.Step{Kind: drill.StepRollback}); err == nil {
		t.Error("a live drill runs steps")
	}
	if _, err := l.Inject(t.Context(), drill.TargetSlack, statusFault(0.1), time.Second); err == nil {
		t.Error("a live drill has faults on the way to Slack")
	}
	if _, err := p.environments.Open(t.Context(), liveRun()); err != nil {
		t.Fatal(err)
	}
	other := p.environments
	other.Pool = func(drill.Spec) (Pool, error) { return Pool{Name: "untouchable"}, nil }
	if _, err := other.Open(t.Context(), liveRun()); err == nil {
		t.Error("a live drill opened a pool without an injector")
	}
}

// TestMarks: marks are made as docs/drills.md describes.
func TestMarks(t *testing.T) {
	const want = "1764470000.75cea3a808a1ffe5f00a8d6df142582723bb28f20c04959ccbc0ad82d1ac62eb" // by openssl
	if got := sign("abc", time.Unix(1764470000, 0)); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestLiveExcludesClientErrors: errors of the client and refusals of the endpoint do not count as the gate's.
func TestLiveExcludesClientErrors(t *testing.T) {
	b := &taskTrace{clock: &scenarioClock{speed: 1}, pool: "p", singlePool: true}
	answer := func(status int, header string, struck bool) drill.TaskOutcome {
		r := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", nil)
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
