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
	incident engine.Incident
	silences []engine.Silence
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

// registryFixture is a registry over a site.
type registryFixture struct {
	*controllerFixture
	*control.Registry
	pauses     *control.Pauses
	pauseStore *fakePauseStore
	auditLog   *fakeAuditLog
}

// withRegistry opens an office inside a synctest bubble, and closes it.
func withRegistry(t *testing.T, f func(t *testing.T, o *registryFixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		o := &registryFixture{controllerFixture: newControllerFixture(t, newFakeJournal(), "a", "b"), pauseStore: &fakePauseStore{kept: map[string]control.Pause{}}, auditLog: &fakeAuditLog{}}
		metrics, err := control.NewMetrics(prometheus.NewRegistry())
		if err != nil {
			t.Fatal(err)
		}
		o.pauses = control.NewPauses(o.pauseStore, o.Controller, slog.New(slog.DiscardHandler), metrics)
		o.Registry = control.NewRegistry(o.Controller, o.pauses, &fakeIncidents{incident: engine.Incident{ID: "i-1", Key: engine.Key{Rule: "queue_age"}}}, o.auditLog)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { o.pauses.Run(ctx) })
		defer func() { cancel(); running.Wait(); o.controllerFixture.stop() }()
		f(t, o)
	})
}

func (o *registryFixture) call(t *testing.T, c control.ActionRequest) control.ActionResult {
	t.Helper()
	c.Actor, c.Via = "ana", control.ViaAPI
	out, err := o.Registry.Do(t.Context(), time.Now(), c)
	if err != nil {
		t.Fatalf("%s: %v", c.Name, err)
	}
	return out
}

// TestEachAction does each action, plans it first, reads back what it found and
// knows how to undo it.
func TestEachAction(t *testing.T) {
	observe := admission.Observe
	for _, tt := range []struct {
		call   control.ActionRequest
		words  string
		found  string
		undo   string
		noted  string
		actual func(o *registryFixture) bool
	}{
		{control.ActionRequest{Name: "rollback", Pool: "a"}, "from enforce to passthrough", "pool a is in passthrough", "headgate restore --pool a", "",
			func(o *registryFixture) bool { s, _ := o.State("a"); return s.Mode == admission.PassThrough }},
		{control.ActionRequest{Name: "observe", Pool: "b"}, "from enforce to observe", "pool b is in observe", "headgate restore --pool b", "",
			func(o *registryFixture) bool { s, _ := o.State("b"); return s.Mode == observe }},
		{control.ActionRequest{Name: "pause", Pool: "a", For: time.Hour}, "no permit until", "pool a is paused until", "headgate resume --pool a", "action pause done a api",
			func(o *registryFixture) bool {
				_, paused := o.pauses.Get(time.Now(), "a")
				return paused && o.pauseStore.has("a")
			}},
		{control.ActionRequest{Name: "ack", Incident: "i-1"}, "ana", "ana has it", "", "action ack done i-1 api", func(*registryFixture) bool { return true }},
		{control.ActionRequest{Name: "silence", Rule: "queue_age", For: time.Hour}, "queue_age until", "is there", "", "action silence done  api", func(*registryFixture) bool { return true }},
	} {
		t.Run(tt.call.Name, func(t *testing.T) {
			withRegistry(t, func(t *testing.T, o *registryFixture) {
				dry := tt.call
				dry.DryRun = true
				if plan := o.call(t, dry); !strings.Contains(plan.Words, tt.words) || plan.Verified || plan.Recorded || tt.noted != "" && len(o.auditLog.all) > 0 {
					t.Errorf("the plan is %+v", plan)
				}
				if s, _ := o.State("a"); s.Mode != admission.Enforce || o.pauseStore.has("a") {
					t.Error("a plan has done something")
				}
				out := o.call(t, tt.call)
				if !strings.Contains(out.Words, tt.words) || !strings.Contains(out.Found, tt.found) || !out.Verified || !out.Recorded || strings.Join(out.Undo, "") != tt.undo {
					t.Errorf("the outcome is %+v", out)
				}
				if last, _ := o.auditLog.last(); last != tt.noted {
					t.Errorf("noted %q", last)
				}
				if !tt.actual(o) {
					t.Error("nothing was done")
				}
			})
		})
	}
}

// TestPauseEnds: by resume, and by itself; meanwhile nobody gets a permit, and
// those who come wait.
func TestPauseEnds(t *testing.T) {
	withRegistry(t, func(t *testing.T, o *registryFixture) {
		gate := o.gates["a"]
		o.call(t, control.ActionRequest{Name: "pause"})
		for pool, g := range o.gates {
			if left := time.Until(g.Snapshot(time.Now()).PausedUntil); left != control.DefaultPause {
				t.Errorf("pool %s is paused for %s", pool, left)
			}
		}
		gate.Offer(time.Now(), admission.Task{Deadline: time.Now().Add(time.Hour), Waiter: nopWaiter{}})
		if s := gate.Snapshot(time.Now()); s.InFlight != 0 || s.Depth != 1 {
			t.Errorf("%d in flight, %d wait", s.InFlight, s.Depth)
		}
		o.call(t, control.ActionRequest{Name: "resume", Pool: "a"})
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
	withRegistry(t, func(t *testing.T, o *registryFixture) {
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

// TestPauseNeedsNoDisk: it is applied at once, its giver is told that it is not
// recorded, and it is once that is possible.
func TestPauseNeedsNoDisk(t *testing.T) {
	withRegistry(t, func(t *testing.T, o *registryFixture) {
		o.pauseStore.setError(errDiskFull)
		out := o.call(t, control.ActionRequest{Name: "pause", Pool: "a"})
		if out.Recorded || !out.Verified {
			t.Errorf("the outcome is %+v", out)
		}
		o.pauseStore.setError(nil)
		advance(10 * time.Second)
		if !o.pauseStore.has("a") {
			t.Error("it was never recorded")
		}
	})
}

// TestRefusedCalls: each error has its type, changes nothing, says what would be
// right, and is noted if somebody asked for something that could be.
func TestRefusedCalls(t *testing.T) {
	observe, other := admission.Observe, time.Now().Add(-time.Hour)
	for name, tt := range map[string]struct {
		call control.ActionRequest
		want error
		say  string
	}{
		"no such action":    {control.ActionRequest{Name: "explode"}, control.ErrInvalidAction, "there are rollback, restore, observe, enforce, pause"},
		"no such pool":      {control.ActionRequest{Name: "rollback", Pool: "c"}, control.ErrNoPool, `"c"`},
		"no pool to pause":  {control.ActionRequest{Name: "pause", Pool: "c"}, control.ErrNoPool, `"c"`},
		"another mode":      {control.ActionRequest{Name: "rollback", Pool: "a", Expected: &observe}, control.ErrModeMismatch, "by settings"},
		"another time":      {control.ActionRequest{Name: "rollback", Pool: "a", Since: &other}, control.ErrModeMismatch, "by settings"},
		"not paused":        {control.ActionRequest{Name: "resume", Pool: "a"}, control.ErrNotPaused, "not paused"},
		"nothing is paused": {control.ActionRequest{Name: "resume"}, control.ErrNotPaused, "not paused"},
		"too long":          {control.ActionRequest{Name: "pause", For: 25 * time.Hour}, control.ErrInvalidAction, "up to 24h0m0s"},
		"negative":          {control.ActionRequest{Name: "pause", For: -time.Hour}, control.ErrInvalidAction, "above 0"},
		"what it takes not": {control.ActionRequest{Name: "rollback", Rule: "x"}, control.ErrInvalidAction, "takes no rule; it takes pool, expected"},
		"another incident":  {control.ActionRequest{Name: "ack", Incident: "i-2"}, engine.ErrNoIncident, ""},
		"another rule":      {control.ActionRequest{Name: "silence", Rule: "x"}, engine.ErrNoRule, ""},
	} {
		t.Run(name, func(t *testing.T) {
			withRegistry(t, func(t *testing.T, o *registryFixture) {
				tt.call.Actor, tt.call.Via = "ana", control.ViaPage
				_, err := o.Registry.Do(t.Context(), time.Now(), tt.call)
				if !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.say) {
					t.Errorf("%v, want %v", err, tt.want)
				}
				last, n := o.auditLog.last()
				if tt.want == control.ErrInvalidAction && name != "too long" {
					if n != 0 {
						t.Errorf("noted %q", last)
					}
				} else if !strings.Contains(last, " refused ") || n != 1 {
					t.Errorf("noted %q", last)
				}
				if s, _ := o.State("a"); s.Mode != admission.Enforce {
					t.Errorf("the mode is %s", s.Mode)
				}
			})
		})
	}
}

// TestSlackActionsAreNotAuditedTwice: a press has an entry of its own, so there is no second.
func TestSlackActionsAreNotAuditedTwice(t *testing.T) {
	withRegistry(t, func(t *testing.T, o *registryFixture) {
		if _, err := o.Registry.Do(t.Context(), time.Now(), control.ActionRequest{Name: "pause", Actor: "slack:U1", Via: control.ViaSlack}); err != nil {
			t.Fatal(err)
		}
		if last, n := o.auditLog.last(); n != 0 {
			t.Errorf("noted %q", last)
		}
	})
}

// TestLift: a silence that is lifted is in the audit, and so is one that could not be.
func TestLift(t *testing.T) {
	withRegistry(t, func(t *testing.T, o *registryFixture) {
		o.call(t, control.ActionRequest{Name: "silence", Rule: "queue_age"})
		for _, want := range []string{"action lift done  page", "action lift refused  page"} {
			s, err := o.Lift(t.Context(), time.Now(), "s-1", "ben", control.ViaPage)
			if last, _ := o.auditLog.last(); last != want || (err == nil) != (s.Rule == "queue_age") {
				t.Errorf("noted %q, want %q; %+v, %v", last, want, s, err)
			}
		}
	})
}

// TestAdapters: an ModeRequest goes through the registry, and comes out as before.
func TestAdapters(t *testing.T) {
	withRegistry(t, func(t *testing.T, o *registryFixture) {
		modes := control.Modes{Registry: o.Registry}
		for _, tt := range []struct {
			order control.ModeRequest
			to    admission.Mode
		}{
			{control.ModeRequest{Action: control.Rollback}, admission.PassThrough}, {control.ModeRequest{Action: control.Restore}, admission.Enforce},
			{control.ModeRequest{Action: control.SetMode, Mode: admission.Observe}, admission.Observe},
			{control.ModeRequest{Action: control.SetMode, Mode: admission.PassThrough}, admission.PassThrough},
			{control.ModeRequest{Action: control.SetMode, Mode: admission.Enforce, DropOverdue: true}, admission.Enforce},
		} {
			tt.order.Actor, tt.order.Via = "ana", control.ViaAPI
			r, err := modes.Do(t.Context(), time.Now(), tt.order)
			if err != nil || !r.Recorded || len(r.Changes) != 2 || slices.ContainsFunc(r.Changes, func(c control.ModeChange) bool { return c.To != tt.to || c.Actor != "ana" }) {
				t.Errorf("%+v: %+v, %v", tt.order, r, err)
			}
		}
	})
}
