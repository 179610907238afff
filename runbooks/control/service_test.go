package control_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"headgate/engine"
	"headgate/proxy/admission"
	"headgate/runbooks/control"
)

// fakePauseStore keeps pauses in memory, and can be broken.
type fakePauseStore struct {
	mu     sync.Mutex
	broken error
	kept   map[string]control.Pause
}

func (s *fakePauseStore) SavePause(_ context.Context, p control.Pause) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken != nil {
		return s.broken
	}
	delete(s.kept, p.Pool)
	if !p.Until.IsZero() {
		s.kept[p.Pool] = p
	}
	return nil
}

func (s *fakePauseStore) Pauses(context.Context) ([]control.Pause, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []control.Pause
	for _, p := range s.kept {
		all = append(all, p)
	}
	return all, s.broken
}

func (s *fakePauseStore) setError(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broken = err
}

func (s *fakePauseStore) has(pool string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.kept[pool]
	return ok
}

// fakeAuditLog are what an audit was given.
type fakeAuditLog struct {
	mu  sync.Mutex
	all []control.AuditEntry
}

func (n *fakeAuditLog) Append(e control.AuditEntry) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all = append(n.all, e)
}

// last returns what the latest entry says, and how many there are.
func (n *fakeAuditLog) last() (string, int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.all) == 0 {
		return "", 0
	}
	e := n.all[len(n.all)-1]
	return string(e.Kind) + " " + e.Action + " " + string(e.Result) + " " + e.Pool + e.Subject + " " + string(e.Via), len(n.all)
}

// fakeIncidents is an engine with one incident.
type fakeIncidents struct {
	incident    engine.Incident
	silences    []engine.Silence
	annotations []engine.Annotation
}

func (d *fakeIncidents) Incidents() []engine.Incident { return []engine.Incident{d.incident} }
func (d *fakeIncidents) Silences() []engine.Silence   { return d.silences }

func (d *fakeIncidents) Ack(_ context.Context, id, by string, length time.Duration) (engine.AckResult, error) {
	if id != d.incident.ID {
		return engine.AckResult{}, engine.ErrNoIncident
	}
	won := d.incident.AckedBy == ""
	if won {
		d.incident.AckedBy, d.incident.AckUntil = by, time.Now().Add(max(length, time.Hour))
	}
	return engine.AckResult{Incident: d.incident, By: d.incident.AckedBy, Until: d.incident.AckUntil, Applied: won}, nil
}

func (d *fakeIncidents) Silence(_ context.Context, s engine.Silence) (engine.SilenceResult, error) {
	if s.Rule != "queue_age" {
		return engine.SilenceResult{}, engine.ErrNoRule
	}
	s.ID = "s-1"
	d.silences = append(d.silences, s)
	return engine.SilenceResult{Silence: s, Applied: true}, nil
}

func (d *fakeIncidents) Unsilence(_ context.Context, id, _ string) (engine.Silence, error) {
	for n, s := range d.silences {
		if s.ID == id {
			d.silences = slices.Delete(d.silences, n, n+1)
			return s, nil
		}
	}
	return engine.Silence{}, engine.ErrNoSilence
}

func (d *fakeIncidents) States() []engine.RuleStatus { return nil }

func (d *fakeIncidents) Annotate(_ context.Context, a engine.Annotation) ([]engine.Incident, error) {
	d.annotations = append(d.annotations, a)
	return nil, nil
}

// serviceFixture is a Service at work, over two pools.
type serviceFixture struct {
	*controllerFixture
	*control.Service
	pauses     *control.Pauses
	pauseStore *fakePauseStore
	auditLog   *fakeAuditLog
	incidents  *fakeIncidents
}

// withService runs a test inside a synctest bubble.
func withService(t *testing.T, f func(t *testing.T, o *serviceFixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		o := &serviceFixture{
			controllerFixture: newControllerFixture(t, newFakeJournal(), "a", "b"), auditLog: &fakeAuditLog{},
			pauseStore: &fakePauseStore{kept: map[string]control.Pause{}},
			incidents:  &fakeIncidents{incident: engine.Incident{ID: "i-1", Key: engine.Key{Rule: "queue_age"}}},
		}
		metrics, err := control.NewMetrics(prometheus.NewRegistry())
		if err != nil {
			t.Fatal(err)
		}
		log := slog.New(slog.DiscardHandler)
		o.pauses = control.NewPauses(o.pauseStore, o.Controller, log, metrics)
		o.Service = control.NewService(o.Controller, o.pauses, o.auditLog, log)
		o.SetEngine(o.incidents)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { o.pauses.Run(ctx) })
		defer func() { cancel(); running.Wait(); o.controllerFixture.stop() }()
		f(t, o)
	})
}

var (
	ana   = control.Actor{Name: "ana", Via: control.ViaAPI}
	press = control.Actor{Name: "slack:U1", Via: control.ViaSlack}
)

// must returns the result of an action that must succeed.
func must(t *testing.T, r control.Result, err error) control.Result {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestEachAction plans each action and then does it. The result says what was read back, and how to undo it.
func TestEachAction(t *testing.T) {
	type doFunc func(o *serviceFixture, dry bool) (control.Result, error)
	for name, tt := range map[string]struct {
		do       doFunc
		message  string
		observed string
		undo     string
		audited  string // empty: it is recorded as a change of mode
		done     func(o *serviceFixture) bool
	}{
		"rollback": {
			func(o *serviceFixture, dry bool) (control.Result, error) {
				return o.Rollback(context.Background(), ana, control.ModeOptions{Pool: "a", DryRun: dry})
			}, "from enforce to passthrough", "pool a is in passthrough", "headgate restore --pool a", "",
			func(o *serviceFixture) bool { s, _ := o.State("a"); return s.Mode == admission.PassThrough },
		},
		"observe": {
			func(o *serviceFixture, dry bool) (control.Result, error) {
				return o.Observe(context.Background(), ana, control.ModeOptions{Pool: "b", DryRun: dry})
			}, "from enforce to observe", "pool b is in observe", "headgate restore --pool b", "",
			func(o *serviceFixture) bool { s, _ := o.State("b"); return s.Mode == admission.Observe },
		},
		"pause": {
			func(o *serviceFixture, dry bool) (control.Result, error) {
				return o.Pause(context.Background(), ana, control.PauseOptions{Pool: "a", For: time.Hour, DryRun: dry})
			}, "no permits until", "pool a is paused until", "headgate resume --pool a", "action pause done a api",
			func(o *serviceFixture) bool {
				_, paused := o.pauses.Get(time.Now(), "a")
				return paused && o.pauseStore.has("a")
			},
		},
		"ack": {
			func(o *serviceFixture, dry bool) (control.Result, error) {
				return o.Acknowledge(context.Background(), ana, control.AckOptions{Incident: "i-1", DryRun: dry})
			}, "ana", "by ana until", "", "action ack done i-1 api",
			func(o *serviceFixture) bool { return o.incidents.incident.AckedBy == "ana" },
		},
		"silence": {
			func(o *serviceFixture, dry bool) (control.Result, error) {
				return o.Silence(context.Background(), ana, control.SilenceOptions{Rule: "queue_age", For: time.Hour, Reason: "deploy", DryRun: dry})
			}, "queue_age", "exists", "", "action silence done  api",
			func(o *serviceFixture) bool {
				a := o.incidents.annotations
				return len(o.incidents.silences) == 1 && len(a) == 1 && a[0].Kind == engine.EventSilenced && strings.Contains(a[0].Text, "deploy")
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			withService(t, func(t *testing.T, o *serviceFixture) {
				plan, err := tt.do(o, true)
				if err != nil || !strings.Contains(plan.Message, tt.message) || plan.Verified || plan.Recorded {
					t.Errorf("the plan is %+v, %v", plan, err)
				}
				if _, n := o.auditLog.last(); tt.done(o) || n > 0 {
					t.Error("a plan has done something")
				}
				r, err := tt.do(o, false)
				if err != nil || !strings.Contains(r.Message, tt.message) || !strings.Contains(r.Observed, tt.observed) || !r.Verified || !r.Recorded ||
					strings.Join(r.UndoCommands, "") != tt.undo {
					t.Errorf("the result is %+v, %v", r, err)
				}
				if last, _ := o.auditLog.last(); last != tt.audited {
					t.Errorf("audited %q", last)
				}
				if !tt.done(o) {
					t.Error("nothing was done")
				}
			})
		})
	}
}

// TestPauseEnds: a pause ends by resume or when its time is over; until then no
// permit is granted and requests wait.
func TestPauseEnds(t *testing.T) {
	withService(t, func(t *testing.T, o *serviceFixture) {
		gate := o.gates["a"]
		r, err := o.Pause(t.Context(), ana, control.PauseOptions{})
		must(t, r, err)
		for pool, g := range o.gates {
			if left := time.Until(g.Snapshot(time.Now()).PausedUntil); left != control.DefaultPause {
				t.Errorf("pool %s is paused for %s", pool, left)
			}
		}
		gate.Offer(time.Now(), admission.Task{Deadline: time.Now().Add(time.Hour), Waiter: nopWaiter{}})
		if s := gate.Snapshot(time.Now()); s.InFlight != 0 || s.Depth != 1 {
			t.Errorf("%d in flight, %d wait", s.InFlight, s.Depth)
		}
		r, err = o.Resume(t.Context(), ana, control.PauseOptions{Pool: "a"})
		must(t, r, err)
		if s := gate.Snapshot(time.Now()); s.InFlight != 1 || o.pauseStore.has("a") || !o.pauseStore.has("b") {
			t.Errorf("after resume %d in flight, kept %v", s.InFlight, o.pauseStore.kept)
		}
		time.Sleep(control.DefaultPause)
		if _, paused := o.pauses.Get(time.Now(), "b"); paused {
			t.Error("the pause of b does not end")
		}
	})
}

type nopWaiter struct{}

func (nopWaiter) Done(admission.Refusal) {}

// TestPauseOutlivesRestart: what is left of a pause counts after a restart, and no
// more than a day of it whatever the clock says.
func TestPauseOutlivesRestart(t *testing.T) {
	withService(t, func(t *testing.T, o *serviceFixture) {
		now := time.Now()
		o.pauseStore.kept = map[string]control.Pause{
			"a":    {Pool: "a", Since: now.Add(-time.Hour), Until: now.Add(time.Hour)},
			"b":    {Pool: "b", Since: now, Until: now.Add(1000 * time.Hour)},
			"gone": {Pool: "gone", Until: now.Add(time.Hour)},
		}
		if err := o.pauses.Load(t.Context(), now); err != nil {
			t.Fatal(err)
		}
		a, b := o.gates["a"].Snapshot(now).PausedUntil, o.gates["b"].Snapshot(now).PausedUntil
		if a.Sub(now) != time.Hour || b.Sub(now) != control.MaxPause {
			t.Errorf("paused until %s and %s", a, b)
		}
		gate := newGate(t)
		o.Add(now, "gone", gate) // it has come back
		o.pauses.PoolAdded(now.Add(time.Minute), "gone")
		p, paused := o.pauses.Get(now, "gone")
		if until := gate.Snapshot(now).PausedUntil; until.Sub(now) != time.Hour || !paused || p.Pool != "gone" {
			t.Errorf("come back, paused until %s: %+v", until, p)
		}
		late := newGate(t)
		o.Remove("gone")
		o.Add(now, "gone", late)
		o.pauses.PoolAdded(now.Add(time.Hour), "gone")
		if until := late.Snapshot(now).PausedUntil; !until.IsZero() {
			t.Errorf("come back too late, paused until %s", until)
		}
	})
}

// TestPauseNeedsNoDisk: a pause is applied at once, its response says that it is
// not recorded, and it is recorded when the disk works again.
func TestPauseNeedsNoDisk(t *testing.T) {
	withService(t, func(t *testing.T, o *serviceFixture) {
		o.pauseStore.setError(errDiskFull)
		r, err := o.Pause(t.Context(), ana, control.PauseOptions{Pool: "a"})
		if must(t, r, err); r.Recorded || !r.Verified {
			t.Errorf("the result is %+v", r)
		}
		o.pauseStore.setError(nil)
		advance(10 * time.Second)
		if !o.pauseStore.has("a") {
			t.Error("it was never recorded")
		}
	})
}

// TestRefusedActions: each error has its type, changes nothing, and is in the audit.
func TestRefusedActions(t *testing.T) {
	observe, other := admission.Observe, time.Now().Add(-time.Hour)
	rollback := func(o control.ModeOptions) func(*serviceFixture) (control.Result, error) {
		return func(f *serviceFixture) (control.Result, error) { return f.Rollback(context.Background(), ana, o) }
	}
	pause := func(o control.PauseOptions) func(*serviceFixture) (control.Result, error) {
		return func(f *serviceFixture) (control.Result, error) { return f.Pause(context.Background(), ana, o) }
	}
	resume := func(o control.PauseOptions) func(*serviceFixture) (control.Result, error) {
		return func(f *serviceFixture) (control.Result, error) { return f.Resume(context.Background(), ana, o) }
	}
	for name, tt := range map[string]struct {
		do   func(*serviceFixture) (control.Result, error)
		want error
		say  string
	}{
		"no such pool":      {rollback(control.ModeOptions{Pool: "c"}), control.ErrNoPool, `"c"`},
		"no pool to pause":  {pause(control.PauseOptions{Pool: "c"}), control.ErrNoPool, `"c"`},
		"another mode":      {rollback(control.ModeOptions{Pool: "a", Expected: &observe}), control.ErrModeMismatch, "by settings"},
		"another time":      {rollback(control.ModeOptions{Pool: "a", Since: &other}), control.ErrModeMismatch, "by settings"},
		"not paused":        {resume(control.PauseOptions{Pool: "a"}), control.ErrNotPaused, "not paused"},
		"nothing is paused": {resume(control.PauseOptions{}), control.ErrNotPaused, "not paused"},
		"too long":          {pause(control.PauseOptions{For: 25 * time.Hour}), control.ErrInvalidAction, "up to 24h0m0s"},
		"negative":          {pause(control.PauseOptions{For: -time.Hour}), control.ErrInvalidAction, "not -1h"},
		"another incident": {func(f *serviceFixture) (control.Result, error) {
			return f.Acknowledge(context.Background(), ana, control.AckOptions{Incident: "i-2"})
		}, engine.ErrNoIncident, ""},
		"another rule": {func(f *serviceFixture) (control.Result, error) {
			return f.Silence(context.Background(), ana, control.SilenceOptions{Rule: "x"})
		}, engine.ErrNoRule, ""},
		"no engine": {func(f *serviceFixture) (control.Result, error) {
			f.SetEngine(nil)
			return f.Silence(context.Background(), ana, control.SilenceOptions{Rule: "x"})
		}, control.ErrNoRuleEngine, ""},
	} {
		t.Run(name, func(t *testing.T) {
			withService(t, func(t *testing.T, o *serviceFixture) {
				if _, err := tt.do(o); !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.say) {
					t.Errorf("%v, want %v", err, tt.want)
				}
				if last, n := o.auditLog.last(); !strings.Contains(last, " refused ") || n != 1 {
					t.Errorf("audited %q", last)
				}
				if s, _ := o.State("a"); s.Mode != admission.Enforce {
					t.Errorf("the mode is %s", s.Mode)
				}
			})
		})
	}
}

func TestRollbackDropsNothing(t *testing.T) {
	withService(t, func(t *testing.T, o *serviceFixture) {
		if _, err := o.Rollback(t.Context(), ana, control.ModeOptions{DropOverdue: true}); !errors.Is(err, control.ErrInvalidAction) {
			t.Errorf("%v, want ErrInvalidAction", err)
		}
	})
}

// TestSecondAck: it changes nothing, and the audit says that it was refused.
func TestSecondAck(t *testing.T) {
	withService(t, func(t *testing.T, o *serviceFixture) {
		for _, name := range []string{"ana", "ben"} {
			r, err := o.Acknowledge(t.Context(), control.Actor{Name: name, Via: control.ViaPage}, control.AckOptions{Incident: "i-1"})
			if must(t, r, err); r.Ack.By != "ana" || r.Ack.Applied != (name == "ana") {
				t.Errorf("%s: %+v", name, r.Ack)
			}
		}
		if last, n := o.auditLog.last(); last != "action ack refused i-1 page" || n != 2 {
			t.Errorf("audited %q", last)
		}
	})
}

// TestSlackActionsAreNotAuditedTwice: every interaction has its own entry.
func TestSlackActionsAreNotAuditedTwice(t *testing.T) {
	withService(t, func(t *testing.T, o *serviceFixture) {
		r, err := o.Pause(t.Context(), press, control.PauseOptions{})
		must(t, r, err)
		if last, n := o.auditLog.last(); n != 0 {
			t.Errorf("audited %q", last)
		}
	})
}

func TestUnsilence(t *testing.T) {
	withService(t, func(t *testing.T, o *serviceFixture) {
		r, err := o.Silence(t.Context(), ana, control.SilenceOptions{Rule: "queue_age"})
		must(t, r, err)
		for _, want := range []string{"action lift done  page", "action lift refused  page"} {
			r, err := o.Unsilence(t.Context(), control.Actor{Name: "ben", Via: control.ViaPage}, "s-1")
			if last, _ := o.auditLog.last(); last != want || (err == nil) != (r.Silence.Silence.Rule == "queue_age") {
				t.Errorf("audited %q, want %q; %+v, %v", last, want, r, err)
			}
		}
	})
}
