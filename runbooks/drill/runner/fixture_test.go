package runner_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"headgate/proxy/fault"
	"headgate/runbooks/drill"
	"headgate/runbooks/drill/runner"
	"headgate/runbooks/drill/spec"
)

// behaviour is how a port acts when it is called for the n-th time, from 1. Nil: as
// it should.
type behaviour func(ctx context.Context, n int) error

// hang ignores its context for a while.
func hang(ctx context.Context, _ int) error {
	time.Sleep(40 * time.Second)
	return ctx.Err()
}

func fail(context.Context, int) error { return errors.New("broken on purpose") }

func panics(context.Context, int) error { panic("broken on purpose") }

// maxHang is longer than anything hangs.
const maxHang = 50 * time.Second

// fixture is a runner between scripted ports.
type fixture struct {
	drift  float64 // tasks of the drill in production
	t      *testing.T
	spec   drill.Spec
	runner *runner.Runner

	mu         sync.Mutex
	behaviours map[string]behaviour
	calls      map[string]int
	env        *fakeEnvironment
	defects    defects
	ready      error
	check      error
	stale      string
	rows       map[string]drill.Run
	saves      int
	freeze     drill.Freeze
	fences     int64
	order      []string // of steps, and of their reverts
	ended      []drill.Run
}

func newFixture(t *testing.T, id string) *fixture {
	t.Helper()
	spec, ok := spec.Find(builtIn(t), id)
	if !ok {
		t.Fatalf("no drill %s", id)
	}
	r := &fixture{t: t, spec: spec, behaviours: map[string]behaviour{}, calls: map[string]int{}, rows: map[string]drill.Run{}}
	var err error
	r.runner, err = runner.New(runner.Options{
		Store: r, Environments: r, Production: r, Version: "test", Log: slog.New(slog.DiscardHandler),
		OnEnded: func(run drill.Run) { r.mu.Lock(); defer r.mu.Unlock(); r.ended = append(r.ended, run) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// setBehaviour sets how a port acts.
func (r *fixture) setBehaviour(port string, b behaviour) *fixture {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.behaviours[port] = b
	return r
}

func (r *fixture) call(ctx context.Context, port string) error {
	r.mu.Lock()
	r.calls[port]++
	n, b := r.calls[port], r.behaviours[port]
	r.mu.Unlock()
	if b == nil {
		return ctx.Err()
	}
	return b(ctx, n)
}

// startDrill starts the drill at speed 20.
func (r *fixture) startDrill() string {
	r.t.Helper()
	run, err := r.runner.Start(context.Background(), runner.Request{Spec: r.spec, Trigger: drill.ByHand, Actor: "test", Speed: 20})
	if err != nil {
		r.t.Fatal(err)
	}
	return run.ID
}

// waitEnded is the run once it has ended.
func (r *fixture) waitEnded(id string) drill.Run {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	run, err := r.runner.Wait(ctx, id)
	if err != nil {
		r.t.Fatal(err)
	}
	return run
}

func (r *fixture) runDrill() drill.Run { r.t.Helper(); return r.waitEnded(r.startDrill()) }

// row is the run as it was recorded.
func (r *fixture) row(id string) drill.Run {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.rows[id]
}

func (r *fixture) logStep(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.order = append(r.order, fmt.Sprintf(format, args...))
}

func (r *fixture) loggedSteps() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.order)
}

func (r *fixture) callCount(port string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.calls[port]
}

// inForce is how many faults work at this moment.
func (r *fixture) inForce() int {
	r.mu.Lock()
	s := r.env
	r.mu.Unlock()
	if s == nil {
		return 0
	}
	return s.inForce()
}

// Store.

func (r *fixture) Claim(ctx context.Context, _ time.Time, run drill.Run, _ time.Duration) (int64, error) {
	if err := r.call(ctx, "claim"); err != nil {
		return 0, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.freeze.On {
		return 0, drill.ErrFrozen
	}
	for _, o := range r.rows {
		if o.Status != drill.Ended {
			return 0, &drill.BusyError{Run: o.ID, Drill: o.Name, Since: o.Started}
		}
	}
	r.fences++
	r.rows[run.ID] = run
	return r.fences, nil
}

func (r *fixture) Save(ctx context.Context, _ time.Time, run drill.Run) error {
	if err := r.call(ctx, "save"); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.rows[run.ID].Status == drill.Ended {
		r.t.Error("an ended run was saved again")
	}
	r.saves++
	r.rows[run.ID] = run
	return nil
}

func (r *fixture) RecordNotRun(context.Context, drill.Run) error { return nil }

func (r *fixture) CloseInterrupted(context.Context, time.Time) ([]drill.Run, error) { return nil, nil }

func (r *fixture) Run(_ context.Context, id string) (drill.Run, error) {
	run := r.row(id)
	if run.ID == "" {
		return run, drill.ErrNoRun
	}
	return run, nil
}

func (r *fixture) Runs(context.Context, drill.Query) ([]drill.Run, string, error) {
	return nil, "", nil
}

func (r *fixture) Frozen(ctx context.Context) (drill.Freeze, error) {
	if err := r.call(ctx, "frozen"); err != nil {
		return drill.Freeze{}, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.freeze, nil
}

func (r *fixture) SetFreeze(_ context.Context, f drill.Freeze) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.freeze = f
	return nil
}

// Production.

func (r *fixture) Ready(ctx context.Context, _ drill.Run) error {
	if err := r.call(ctx, "ready"); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ready
}

func (r *fixture) Check(ctx context.Context, _ drill.Run) error {
	if err := r.call(ctx, "check"); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.check
}

func (r *fixture) Drift(ctx context.Context, _ drill.Run) (drill.Reading, error) {
	return drill.Reading{Measured: true, Value: r.drift, Samples: 3, Source: "production", Reason: fmt.Sprintf("%.0f came to production", r.drift)}, r.call(ctx, "drift")
}

// EnvironmentFactory.

func (r *fixture) Open(ctx context.Context, run drill.Run) (drill.Environment, error) {
	if err := r.call(ctx, "open"); err != nil {
		return nil, err
	}
	s := &fakeEnvironment{fixture: r, run: run, evidence: simulate(run.Spec, r.defects)}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.env = s
	return s, nil
}

// fakeEnvironment reveals the result of the simulation as time passes.
type fakeEnvironment struct {
	*fixture
	run      drill.Run
	evidence drill.Evidence

	leaseMu       sync.Mutex
	scenarioStart time.Time
	leases        []*fakeLease
	closed        bool
}

func (s *fakeEnvironment) Start(ctx context.Context) (time.Time, error) {
	if err := s.call(ctx, "start"); err != nil {
		return time.Time{}, err
	}
	s.leaseMu.Lock()
	defer s.leaseMu.Unlock()
	s.scenarioStart = time.Now().Add(scale(s.run.Spec.Scenario.Baseline, s.run.Speed))
	for i, m := range s.evidence.Messages { // the simulation does not know when it is played
		since := m.Accepted.Sub(testStart)
		s.evidence.Messages[i].Accepted = s.scenarioStart.Add(scale(time.Duration(float64(since)*s.run.Spec.Speed), s.run.Speed))
	}
	return s.scenarioStart, nil
}

func (s *fakeEnvironment) Observe(ctx context.Context) (drill.Evidence, error) {
	if err := s.call(ctx, "look"); err != nil {
		return drill.Evidence{}, err
	}
	s.leaseMu.Lock()
	defer s.leaseMu.Unlock()
	at := time.Duration(float64(time.Since(s.scenarioStart)) * s.run.Speed)
	e := evidenceUntil(s.evidence, at, time.Now())
	s.mu.Lock()
	defer s.mu.Unlock()
	e.StaleReason = s.stale
	return e, nil
}

func (s *fakeEnvironment) Canary(ctx context.Context) (time.Duration, error) {
	return 3 * time.Millisecond, s.call(ctx, "canary")
}

func (s *fakeEnvironment) Inject(ctx context.Context, target drill.FaultTarget, i drill.Injection, ttl time.Duration) (drill.Lease, error) {
	err := s.call(ctx, "inject")
	if err != nil && ctx.Err() == nil {
		return nil, err
	}
	l := &fakeLease{fakeEnvironment: s, ends: time.Now().Add(ttl), what: fmt.Sprintf("%s %s", i.Kind, target)}
	s.leaseMu.Lock()
	defer s.leaseMu.Unlock()
	s.leases = append(s.leases, l)
	s.logStep("inject %s", l.what)
	return l, nil // even if the caller has stopped waiting
}

func (s *fakeEnvironment) Clear(ctx context.Context) (drill.ClearResult, error) {
	if err := s.call(ctx, "clear"); err != nil {
		return drill.ClearResult{}, err
	}
	s.leaseMu.Lock()
	defer s.leaseMu.Unlock()
	for _, l := range s.leases {
		l.ends = time.Time{}
	}
	s.logStep("clear all")
	return drill.ClearResult{Took: time.Millisecond, Confirmed: true}, nil
}

func (s *fakeEnvironment) RunStep(ctx context.Context, st drill.Step) (func(context.Context) error, error) {
	if err := s.call(ctx, "do "+string(st.Kind)); err != nil && ctx.Err() == nil {
		return nil, err
	}
	s.logStep("do %s", st.Kind)
	if st.Kind == drill.StepRestore {
		return nil, nil
	}
	return func(ctx context.Context) error {
		s.logStep("undo %s", st.Kind)
		return s.call(ctx, "undo "+string(st.Kind))
	}, nil
}

func (s *fakeEnvironment) Close(ctx context.Context) error {
	if err := s.call(ctx, "close"); err != nil {
		return err
	}
	s.leaseMu.Lock()
	defer s.leaseMu.Unlock()
	s.closed = true
	s.logStep("close")
	return nil
}

func (s *fakeEnvironment) inForce() int {
	s.leaseMu.Lock()
	defer s.leaseMu.Unlock()
	n := 0
	for _, l := range s.leases {
		if time.Now().Before(l.ends) {
			n++
		}
	}
	return n
}

type fakeLease struct {
	*fakeEnvironment
	ends time.Time
	what string
}

func (l *fakeLease) Renew(ctx context.Context, ttl time.Duration) error {
	if err := l.call(ctx, "renew"); err != nil {
		return err
	}
	l.leaseMu.Lock()
	defer l.leaseMu.Unlock()
	if !time.Now().Before(l.ends) {
		return fault.ErrLeaseExpired
	}
	l.ends = time.Now().Add(ttl)
	return nil
}

func (l *fakeLease) Clear(ctx context.Context) (drill.ClearResult, error) {
	if err := l.call(ctx, "clear"); err != nil {
		return drill.ClearResult{}, err
	}
	l.leaseMu.Lock()
	defer l.leaseMu.Unlock()
	l.ends = time.Time{}
	l.logStep("clear %s", l.what)
	return drill.ClearResult{Took: time.Millisecond, Confirmed: true}, nil
}

func builtIn(t *testing.T) []drill.Spec {
	t.Helper()
	all, err := spec.BuiltIn()
	if err != nil {
		t.Fatal(err)
	}
	return all
}
