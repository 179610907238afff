package drill_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"headgate/runbooks/drill"
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

func blowUp(context.Context, int) error { panic("broken on purpose") }

// hung is longer than anything hangs.
const hung = 50 * time.Second

// rig is a runner between scripted ports.
type rig struct {
	stray  float64 // tasks of the drill in production
	t      *testing.T
	spec   drill.Spec
	runner *drill.Runner

	mu     sync.Mutex
	acts   map[string]behaviour
	calls  map[string]int
	stage  *stage
	sab    sabotage
	ready  error
	check  error
	stale  string
	rows   map[string]drill.Run
	saves  int
	freeze drill.Freeze
	fences int64
	order  []string // of what was done and undone
	ended  []drill.Run
}

func newRig(t *testing.T, id string) *rig {
	t.Helper()
	spec, ok := drill.Find(builtIn(t), id)
	if !ok {
		t.Fatalf("no drill %s", id)
	}
	r := &rig{t: t, spec: spec, acts: map[string]behaviour{}, calls: map[string]int{}, rows: map[string]drill.Run{}}
	var err error
	r.runner, err = drill.New(drill.Options{
		Store: r, Opener: r, Production: r, Version: "test", Log: slog.New(slog.DiscardHandler),
		Ended: func(run drill.Run) { r.mu.Lock(); defer r.mu.Unlock(); r.ended = append(r.ended, run) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// on sets how a port acts.
func (r *rig) on(port string, b behaviour) *rig {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.acts[port] = b
	return r
}

func (r *rig) act(ctx context.Context, port string) error {
	r.mu.Lock()
	r.calls[port]++
	n, b := r.calls[port], r.acts[port]
	r.mu.Unlock()
	if b == nil {
		return ctx.Err()
	}
	return b(ctx, n)
}

// begin starts the drill at speed 20.
func (r *rig) begin() string {
	r.t.Helper()
	run, err := r.runner.Start(context.Background(), drill.Request{Spec: r.spec, Trigger: drill.ByHand, Actor: "test", Speed: 20})
	if err != nil {
		r.t.Fatal(err)
	}
	return run.ID
}

// finished is the run once it has ended.
func (r *rig) finished(id string) drill.Run {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	run, err := r.runner.Wait(ctx, id)
	if err != nil {
		r.t.Fatal(err)
	}
	return run
}

func (r *rig) play() drill.Run { r.t.Helper(); return r.finished(r.begin()) }

// row is the run as it was recorded.
func (r *rig) row(id string) drill.Run {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.rows[id]
}

func (r *rig) did(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.order = append(r.order, fmt.Sprintf(format, args...))
}

func (r *rig) done() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.order)
}

func (r *rig) called(port string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.calls[port]
}

// inForce is how many faults work at this moment.
func (r *rig) inForce() int {
	r.mu.Lock()
	s := r.stage
	r.mu.Unlock()
	if s == nil {
		return 0
	}
	return s.inForce()
}

// Store.

func (r *rig) Claim(ctx context.Context, _ time.Time, run drill.Run, _ time.Duration) (int64, error) {
	if err := r.act(ctx, "claim"); err != nil {
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

func (r *rig) Save(ctx context.Context, _ time.Time, run drill.Run) error {
	if err := r.act(ctx, "save"); err != nil {
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

func (r *rig) Note(context.Context, drill.Run) error { return nil }

func (r *rig) Interrupt(context.Context, time.Time) ([]drill.Run, error) { return nil, nil }

func (r *rig) Run(_ context.Context, id string) (drill.Run, error) {
	run := r.row(id)
	if run.ID == "" {
		return run, drill.ErrNoRun
	}
	return run, nil
}

func (r *rig) Runs(context.Context, drill.Query) ([]drill.Run, string, error) { return nil, "", nil }

func (r *rig) Frozen(ctx context.Context) (drill.Freeze, error) {
	if err := r.act(ctx, "frozen"); err != nil {
		return drill.Freeze{}, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.freeze, nil
}

func (r *rig) SetFreeze(_ context.Context, f drill.Freeze) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.freeze = f
	return nil
}

// Production.

func (r *rig) Ready(ctx context.Context, _ drill.Run) error {
	if err := r.act(ctx, "ready"); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ready
}

func (r *rig) Check(ctx context.Context, _ drill.Run) error {
	if err := r.act(ctx, "check"); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.check
}

func (r *rig) Drift(ctx context.Context, _ drill.Run) (drill.Reading, error) {
	return drill.Reading{Known: true, Value: r.stray, Samples: 3, Seen: "production", Why: fmt.Sprintf("%.0f came to production", r.stray)}, r.act(ctx, "drift")
}

// Opener.

func (r *rig) Open(ctx context.Context, run drill.Run) (drill.Stage, error) {
	if err := r.act(ctx, "open"); err != nil {
		return nil, err
	}
	s := &stage{rig: r, run: run, whole: play(run.Spec, r.sab)}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stage = s
	return s, nil
}

// stage reveals what the simulation comes to, as time passes.
type stage struct {
	*rig
	run   drill.Run
	whole drill.Evidence

	lock   sync.Mutex
	zero   time.Time
	leases []*lease
	closed bool
}

func (s *stage) Start(ctx context.Context) (time.Time, error) {
	if err := s.act(ctx, "start"); err != nil {
		return time.Time{}, err
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	s.zero = time.Now().Add(scale(s.run.Spec.Scenario.Baseline, s.run.Speed))
	for i, m := range s.whole.Messages { // the simulation does not know when it is played
		since := m.Accepted.Sub(zero)
		s.whole.Messages[i].Accepted = s.zero.Add(scale(time.Duration(float64(since)*s.run.Spec.Speed), s.run.Speed))
	}
	return s.zero, nil
}

func (s *stage) Look(ctx context.Context) (drill.Evidence, error) {
	if err := s.act(ctx, "look"); err != nil {
		return drill.Evidence{}, err
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	at := time.Duration(float64(time.Since(s.zero)) * s.run.Speed)
	e := until(s.whole, at, time.Now())
	s.mu.Lock()
	defer s.mu.Unlock()
	e.Stale = s.stale
	return e, nil
}

func (s *stage) Canary(ctx context.Context) (time.Duration, error) {
	return 3 * time.Millisecond, s.act(ctx, "canary")
}

func (s *stage) Inject(ctx context.Context, way drill.Way, i drill.Injection, ttl time.Duration) (drill.Lease, error) {
	err := s.act(ctx, "inject")
	if err != nil && ctx.Err() == nil {
		return nil, err
	}
	l := &lease{stage: s, ends: time.Now().Add(ttl), what: fmt.Sprintf("%s %s", i.Kind, way)}
	s.lock.Lock()
	defer s.lock.Unlock()
	s.leases = append(s.leases, l)
	s.did("inject %s", l.what)
	return l, nil // even when nobody waits any more
}

func (s *stage) Clear(ctx context.Context) (drill.Cleared, error) {
	if err := s.act(ctx, "clear"); err != nil {
		return drill.Cleared{}, err
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	for _, l := range s.leases {
		l.ends = time.Time{}
	}
	s.did("clear all")
	return drill.Cleared{Took: time.Millisecond, Confirmed: true}, nil
}

func (s *stage) Do(ctx context.Context, st drill.Step) (func(context.Context) error, error) {
	if err := s.act(ctx, "do "+string(st.Kind)); err != nil && ctx.Err() == nil {
		return nil, err
	}
	s.did("do %s", st.Kind)
	if st.Kind == drill.StepRestore {
		return nil, nil
	}
	return func(ctx context.Context) error {
		s.did("undo %s", st.Kind)
		return s.act(ctx, "undo "+string(st.Kind))
	}, nil
}

func (s *stage) Close(ctx context.Context) error {
	if err := s.act(ctx, "close"); err != nil {
		return err
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	s.closed = true
	s.did("close")
	return nil
}

func (s *stage) inForce() int {
	s.lock.Lock()
	defer s.lock.Unlock()
	n := 0
	for _, l := range s.leases {
		if time.Now().Before(l.ends) {
			n++
		}
	}
	return n
}

type lease struct {
	*stage
	ends time.Time
	what string
}

func (l *lease) Renew(ctx context.Context, ttl time.Duration) error {
	if err := l.act(ctx, "renew"); err != nil {
		return err
	}
	l.lock.Lock()
	defer l.lock.Unlock()
	if !time.Now().Before(l.ends) {
		return drill.ErrLapsed
	}
	l.ends = time.Now().Add(ttl)
	return nil
}

func (l *lease) Clear(ctx context.Context) (drill.Cleared, error) {
	if err := l.act(ctx, "clear"); err != nil {
		return drill.Cleared{}, err
	}
	l.lock.Lock()
	defer l.lock.Unlock()
	l.ends = time.Time{}
	l.did("clear %s", l.what)
	return drill.Cleared{Took: time.Millisecond, Confirmed: true}, nil
}
