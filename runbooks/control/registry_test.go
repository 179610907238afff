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

// shelf keeps pauses in memory, and can be broken.
type shelf struct {
	mu     sync.Mutex
	broken error
	kept   map[string]control.Pause
}

func (s *shelf) SavePause(_ context.Context, p control.Pause) error {
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

func (s *shelf) Pauses(context.Context) ([]control.Pause, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []control.Pause
	for _, p := range s.kept {
		all = append(all, p)
	}
	return all, s.broken
}

func (s *shelf) breaks(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broken = err
}

func (s *shelf) has(pool string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.kept[pool]
	return ok
}

// notes are what an audit was given.
type notes struct {
	mu  sync.Mutex
	all []control.Entry
}

func (n *notes) Note(e control.Entry) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all = append(n.all, e)
}

// last returns what the latest entry says, and how many there are.
func (n *notes) last() (string, int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.all) == 0 {
		return "", 0
	}
	e := n.all[len(n.all)-1]
	return string(e.Kind) + " " + e.Action + " " + string(e.Ending) + " " + e.Pool + e.Subject + " " + string(e.Via), len(n.all)
}

// desk is an engine with one incident.
type desk struct {
	incident engine.Incident
	silences []engine.Silence
}

func (d *desk) Incidents() []engine.Incident { return []engine.Incident{d.incident} }
func (d *desk) Silences() []engine.Silence   { return d.silences }

func (d *desk) Ack(_ context.Context, id, by string, length time.Duration) (engine.Acked, error) {
	if id != d.incident.ID {
		return engine.Acked{}, engine.ErrNoIncident
	}
	won := d.incident.AckedBy == ""
	if won {
		d.incident.AckedBy, d.incident.AckUntil = by, time.Now().Add(max(length, time.Hour))
	}
	return engine.Acked{Incident: d.incident, By: d.incident.AckedBy, Until: d.incident.AckUntil, Won: won}, nil
}

func (d *desk) Silence(_ context.Context, s engine.Silence) (engine.Silenced, error) {
	if s.Rule != "queue_age" {
		return engine.Silenced{}, engine.ErrNoRule
	}
	s.ID = "s-1"
	d.silences = append(d.silences, s)
	return engine.Silenced{Silence: s, Won: true}, nil
}

func (d *desk) Unsilence(_ context.Context, id, _ string) (engine.Silence, error) {
	for n, s := range d.silences {
		if s.ID == id {
			d.silences = slices.Delete(d.silences, n, n+1)
			return s, nil
		}
	}
	return engine.Silence{}, engine.ErrNoSilence
}

// office is a registry over a site.
type office struct {
	*site
	*control.Registry
	pauses *control.Pauses
	shelf  *shelf
	notes  *notes
}

// employ opens an office inside a synctest bubble, and closes it.
func employ(t *testing.T, f func(t *testing.T, o *office)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		o := &office{site: start(t, newBook(), "a", "b"), shelf: &shelf{kept: map[string]control.Pause{}}, notes: &notes{}}
		metrics, err := control.NewMetrics(prometheus.NewRegistry())
		if err != nil {
			t.Fatal(err)
		}
		o.pauses = control.NewPauses(o.shelf, o.Controller, slog.New(slog.DiscardHandler), metrics)
		o.Registry = control.NewRegistry(o.Controller, o.pauses, &desk{incident: engine.Incident{ID: "i-1", Key: engine.Key{Rule: "queue_age"}}}, o.notes)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { o.pauses.Run(ctx) })
		defer func() { cancel(); running.Wait(); o.site.stop() }()
		f(t, o)
	})
}

func (o *office) call(t *testing.T, c control.Call) control.Outcome {
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
		call   control.Call
		words  string
		found  string
		undo   string
		noted  string
		actual func(o *office) bool
	}{
		{control.Call{Name: "rollback", Pool: "a"}, "from enforce to passthrough", "pool a is in passthrough", "headgate restore --pool a", "",
			func(o *office) bool { s, _ := o.Standing("a"); return s.Mode == admission.PassThrough }},
		{control.Call{Name: "observe", Pool: "b"}, "from enforce to observe", "pool b is in observe", "headgate restore --pool b", "",
			func(o *office) bool { s, _ := o.Standing("b"); return s.Mode == observe }},
		{control.Call{Name: "pause", Pool: "a", For: time.Hour}, "no permit until", "pool a is paused until", "headgate resume --pool a", "action pause done a api",
			func(o *office) bool { _, paused := o.pauses.Of(time.Now(), "a"); return paused && o.shelf.has("a") }},
		{control.Call{Name: "ack", Incident: "i-1"}, "ana", "ana has it", "", "action ack done i-1 api", func(*office) bool { return true }},
		{control.Call{Name: "silence", Rule: "queue_age", For: time.Hour}, "queue_age until", "is there", "", "action silence done  api", func(*office) bool { return true }},
	} {
		t.Run(tt.call.Name, func(t *testing.T) {
			employ(t, func(t *testing.T, o *office) {
				dry := tt.call
				dry.DryRun = true
				if plan := o.call(t, dry); !strings.Contains(plan.Words, tt.words) || plan.Verified || plan.Recorded || tt.noted != "" && len(o.notes.all) > 0 {
					t.Errorf("the plan is %+v", plan)
				}
				if s, _ := o.Standing("a"); s.Mode != admission.Enforce || o.shelf.has("a") {
					t.Error("a plan has done something")
				}
				out := o.call(t, tt.call)
				if !strings.Contains(out.Words, tt.words) || !strings.Contains(out.Found, tt.found) || !out.Verified || !out.Recorded || strings.Join(out.Undo, "") != tt.undo {
					t.Errorf("the outcome is %+v", out)
				}
				if last, _ := o.notes.last(); last != tt.noted {
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
	employ(t, func(t *testing.T, o *office) {
		gate := o.gates["a"]
		o.call(t, control.Call{Name: "pause"})
		for pool, g := range o.gates {
			if left := time.Until(g.Snapshot(time.Now()).Paused); left != control.DefaultPause {
				t.Errorf("pool %s is paused for %s", pool, left)
			}
		}
		gate.Offer(time.Now(), admission.Task{Deadline: time.Now().Add(time.Hour), Waiter: quiet{}})
		if s := gate.Snapshot(time.Now()); s.InFlight != 0 || s.Depth != 1 {
			t.Errorf("%d in flight, %d wait", s.InFlight, s.Depth)
		}
		o.call(t, control.Call{Name: "resume", Pool: "a"})
		if s := gate.Snapshot(time.Now()); s.InFlight != 1 || o.shelf.has("a") || !o.shelf.has("b") {
			t.Errorf("after resume %d in flight, kept %v", s.InFlight, o.shelf.kept)
		}
		time.Sleep(control.DefaultPause)
		if _, paused := o.pauses.Of(time.Now(), "b"); paused {
			t.Error("the pause of b does not end")
		}
	})
}

type quiet struct{}

func (quiet) Settled(admission.Refusal) {}

// TestPauseOutlivesRestart: what is left of a pause counts after a restart, and no
// more than a day of it whatever the clock says.
func TestPauseOutlivesRestart(t *testing.T) {
	employ(t, func(t *testing.T, o *office) {
		now := time.Now()
		o.shelf.kept = map[string]control.Pause{
			"a":    {Pool: "a", Since: now.Add(-time.Hour), Until: now.Add(time.Hour)},
			"b":    {Pool: "b", Since: now, Until: now.Add(1000 * time.Hour)},
			"gone": {Pool: "gone", Until: now.Add(time.Hour)},
		}
		if err := o.pauses.Load(t.Context(), now); err != nil {
			t.Fatal(err)
		}
		a, b := o.gates["a"].Snapshot(now).Paused, o.gates["b"].Snapshot(now).Paused
		if a.Sub(now) != time.Hour || b.Sub(now) != control.MaxPause {
			t.Errorf("paused until %s and %s", a, b)
		}
		gate := newGate(t)
		o.Add(now, "gone", gate) // it has come back
		o.pauses.Added(now.Add(time.Minute), "gone")
		p, paused := o.pauses.Of(now, "gone")
		if until := gate.Snapshot(now).Paused; until.Sub(now) != time.Hour || !paused || p.Pool != "gone" {
			t.Errorf("come back, paused until %s: %+v", until, p)
		}
		late := newGate(t)
		o.Remove("gone")
		o.Add(now, "gone", late)
		o.pauses.Added(now.Add(time.Hour), "gone")
		if until := late.Snapshot(now).Paused; !until.IsZero() {
			t.Errorf("come back too late, paused until %s", until)
		}
	})
}

// TestPauseNeedsNoDisk: it is applied at once, its giver is told that it is not
// recorded, and it is once that is possible.
func TestPauseNeedsNoDisk(t *testing.T) {
	employ(t, func(t *testing.T, o *office) {
		o.shelf.breaks(errDiskFull)
		out := o.call(t, control.Call{Name: "pause", Pool: "a"})
		if out.Recorded || !out.Verified {
			t.Errorf("the outcome is %+v", out)
		}
		o.shelf.breaks(nil)
		wait(10 * time.Second)
		if !o.shelf.has("a") {
			t.Error("it was never recorded")
		}
	})
}

// TestRefusedCalls: each error has its type, changes nothing, says what would be
// right, and is noted if somebody asked for something that could be.
func TestRefusedCalls(t *testing.T) {
	observe, other := admission.Observe, time.Now().Add(-time.Hour)
	for name, tt := range map[string]struct {
		call control.Call
		want error
		say  string
	}{
		"no such action":    {control.Call{Name: "explode"}, control.ErrCall, "there are rollback, restore, observe, enforce, pause"},
		"no such pool":      {control.Call{Name: "rollback", Pool: "c"}, control.ErrNoPool, `"c"`},
		"no pool to pause":  {control.Call{Name: "pause", Pool: "c"}, control.ErrNoPool, `"c"`},
		"another mode":      {control.Call{Name: "rollback", Pool: "a", Expected: &observe}, control.ErrUnexpected, "by settings"},
		"another time":      {control.Call{Name: "rollback", Pool: "a", Since: &other}, control.ErrUnexpected, "by settings"},
		"not paused":        {control.Call{Name: "resume", Pool: "a"}, control.ErrNotPaused, "not paused"},
		"nothing is paused": {control.Call{Name: "resume"}, control.ErrNotPaused, "not paused"},
		"too long":          {control.Call{Name: "pause", For: 25 * time.Hour}, control.ErrCall, "up to 24h0m0s"},
		"negative":          {control.Call{Name: "pause", For: -time.Hour}, control.ErrCall, "above 0"},
		"what it takes not": {control.Call{Name: "rollback", Rule: "x"}, control.ErrCall, "takes no rule; it takes pool, expected"},
		"another incident":  {control.Call{Name: "ack", Incident: "i-2"}, engine.ErrNoIncident, ""},
		"another rule":      {control.Call{Name: "silence", Rule: "x"}, engine.ErrNoRule, ""},
	} {
		t.Run(name, func(t *testing.T) {
			employ(t, func(t *testing.T, o *office) {
				tt.call.Actor, tt.call.Via = "ana", control.ViaPage
				_, err := o.Registry.Do(t.Context(), time.Now(), tt.call)
				if !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.say) {
					t.Errorf("%v, want %v", err, tt.want)
				}
				last, n := o.notes.last()
				if tt.want == control.ErrCall && name != "too long" {
					if n != 0 {
						t.Errorf("noted %q", last)
					}
				} else if !strings.Contains(last, " refused ") || n != 1 {
					t.Errorf("noted %q", last)
				}
				if s, _ := o.Standing("a"); s.Mode != admission.Enforce {
					t.Errorf("the mode is %s", s.Mode)
				}
			})
		})
	}
}

// TestSlackNotesItself: a press has an entry of its own, so there is no second.
func TestSlackNotesItself(t *testing.T) {
	employ(t, func(t *testing.T, o *office) {
		if _, err := o.Registry.Do(t.Context(), time.Now(), control.Call{Name: "pause", Actor: "slack:U1", Via: control.ViaSlack}); err != nil {
			t.Fatal(err)
		}
		if last, n := o.notes.last(); n != 0 {
			t.Errorf("noted %q", last)
		}
	})
}

// TestLift: a silence that is lifted is in the audit, and so is one that could not be.
func TestLift(t *testing.T) {
	employ(t, func(t *testing.T, o *office) {
		o.call(t, control.Call{Name: "silence", Rule: "queue_age"})
		for _, want := range []string{"action lift done  page", "action lift refused  page"} {
			s, err := o.Lift(t.Context(), time.Now(), "s-1", "ben", control.ViaPage)
			if last, _ := o.notes.last(); last != want || (err == nil) != (s.Rule == "queue_age") {
				t.Errorf("noted %q, want %q; %+v, %v", last, want, s, err)
			}
		}
	})
}

// TestOldWays: an Order goes through the registry, and comes out as before.
func TestOldWays(t *testing.T) {
	employ(t, func(t *testing.T, o *office) {
		modes := control.Modes{Registry: o.Registry}
		for _, tt := range []struct {
			order control.Order
			to    admission.Mode
		}{
			{control.Order{Action: control.Rollback}, admission.PassThrough}, {control.Order{Action: control.Restore}, admission.Enforce},
			{control.Order{Action: control.ToMode, Mode: admission.Observe}, admission.Observe},
			{control.Order{Action: control.ToMode, Mode: admission.PassThrough}, admission.PassThrough},
			{control.Order{Action: control.ToMode, Mode: admission.Enforce, DropOverdue: true}, admission.Enforce},
		} {
			tt.order.Actor, tt.order.Via = "ana", control.ViaAPI
			r, err := modes.Do(t.Context(), time.Now(), tt.order)
			if err != nil || !r.Recorded || len(r.Changes) != 2 || slices.ContainsFunc(r.Changes, func(c control.Change) bool { return c.To != tt.to || c.Actor != "ana" }) {
				t.Errorf("%+v: %+v, %v", tt.order, r, err)
			}
		}
	})
}
