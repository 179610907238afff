package slackcmd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest" // the control service waits for a record that never comes
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"headgate/alerts/slack"
	"headgate/engine"
	"headgate/proxy/admission"
	"headgate/runbooks/control"
	"headgate/runbooks/drill"
)

const (
	ada = "slack:U0ADA"
	eve = "slack:U0EVE"
)

// fixture is an Executor over a real control service with one pool, main, in enforce, and one open incident of rule
// busy.
type fixture struct {
	*Executor
	modes *control.Controller

	mu       sync.Mutex
	held     []engine.Incident // by the engine
	recorded engine.Incident
	events   []engine.Event
	appended []engine.Event
	entries  []control.AuditEntry
	started  []string // drills
	readErr  error
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	metrics, err := control.NewMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{recorded: engine.Incident{
		ID: "i-1", Key: engine.Key{Rule: "busy", Pool: "main"}, Level: engine.LevelWarn, Seq: 3, Opened: time.Now(), Runbook: "queue_age",
	}}
	f.held = []engine.Incident{f.recorded}
	log := slog.New(slog.DiscardHandler)
	f.modes = control.NewController(control.Config{Journal: noJournal{}, Writer: "test", Log: log, Metrics: metrics})
	gate, err := admission.New(admission.Config{
		Workers: 2, Policy: admission.Threshold{MaxQueueAge: 25 * time.Second, DepthMultiple: 2}, QueueLimit: 100, AssumedService: 10 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	f.modes.Add(time.Now(), "main", gate)
	service := control.NewService(f.modes, nil, f, log)
	service.SetEngine(fakeEngine{f})
	f.Executor = New(Config{
		Control: service, Modes: f.modes, Audit: f, Incidents: history{f}, Log: log, NewID: func() string { return "e-new" },
		Pools: func(now time.Time) []control.PoolStatus {
			mode, _ := f.modes.State("main")
			load, p95 := gate.Snapshot(now), 31.0
			return []control.PoolStatus{{
				Name: "main", Mode: mode.Mode.String(), ModeSince: mode.Since, ModeBy: mode.Actor, ModeReason: mode.Reason,
				Workers: load.Workers, InFlight: load.InFlight, QueueDepth: load.Depth, QueueOldestAgeS: control.Seconds(load.OldestAge),
				Admitted1m: 5, Refused1m: 2, P95TurnaroundS: &p95, SLOS: 60,
			}}
		},
		Drills: func() []drill.Spec { return []drill.Spec{{ID: "burst", Name: "Burst"}} },
		StartDrill: func(_ context.Context, s drill.Spec, actor, _ string) (drill.Run, error) {
			f.started = append(f.started, s.ID+" by "+actor)
			return drill.Run{ID: "r-1"}, nil
		},
	})
	return f
}

type noJournal struct{}

func (noJournal) RecordChanges(context.Context, []control.ModeChange, int64) error { return nil }
func (noJournal) ModeStates(context.Context) ([]control.ModeState, error)          { return nil, nil }
func (noJournal) QueuedRequests(context.Context, int64) ([]control.QueuedRequest, error) {
	return nil, nil
}

func (f *fixture) Append(e control.AuditEntry) { f.entries = append(f.entries, e) }

// history is the record of incidents.
type history struct{ *fixture }

func (h history) History(_ context.Context, id string) (engine.Incident, []engine.Event, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if id != h.recorded.ID {
		return engine.Incident{}, nil, engine.ErrNoIncident
	}
	return h.recorded, h.events, h.readErr
}

func (h history) Append(_ context.Context, inc engine.Incident, e engine.Event) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.recorded = inc
	h.events, h.appended = append(h.events, e), append(h.appended, e)
	return nil
}

// fakeEngine holds the fixture's incidents.
type fakeEngine struct{ *fixture }

func (e fakeEngine) Incidents() []engine.Incident { return e.held }
func (fakeEngine) Silences() []engine.Silence     { return nil }
func (fakeEngine) States() []engine.RuleStatus    { return nil }

func (e fakeEngine) Ack(_ context.Context, id, by string, _ time.Duration) (engine.AckResult, error) {
	for i := range e.held {
		if inc := &e.held[i]; inc.ID == id && inc.Open() {
			first := inc.AckedBy == ""
			if first {
				inc.AckedBy, inc.AckUntil = by, time.Now().Add(time.Hour)
				e.events = append(e.events, engine.Event{Incident: id, Seq: inc.Seq + 1, Kind: engine.EventAcked, At: time.Now()})
			}
			return engine.AckResult{By: inc.AckedBy, Until: inc.AckUntil, Applied: first}, nil
		}
	}
	return engine.AckResult{}, engine.ErrNoIncident
}

func (fakeEngine) Silence(_ context.Context, s engine.Silence) (engine.SilenceResult, error) {
	switch {
	case s.Rule != "busy":
		return engine.SilenceResult{}, fmt.Errorf("%w; there are busy", engine.ErrNoRule)
	case s.By == eve:
		s.By = ada
		return engine.SilenceResult{Silence: s}, nil
	}
	return engine.SilenceResult{Silence: s, Applied: true}, nil
}

func (fakeEngine) Unsilence(context.Context, string, string) (engine.Silence, error) {
	return engine.Silence{}, engine.ErrNoSilence
}

func (fakeEngine) Annotate(context.Context, engine.Annotation) ([]engine.Incident, error) {
	return nil, nil
}

// press is a press on the incident's message as it is now.
func (f *fixture) press(a slack.Action, user string) slack.Command {
	s, _ := f.modes.State("main")
	return slack.Command{
		Action: a, Incident: "i-1", Pool: "main", Rule: "busy", Actor: user, At: time.Now(), Duration: time.Hour,
		Observed: &slack.ObservedState{Seq: 3, Mode: s.Mode.String(), ModeSince: s.Since},
	}
}

func (f *fixture) want(t *testing.T, c slack.Command, result slack.Result, texts ...string) {
	t.Helper()
	r := f.Execute(t.Context(), c)
	if r.Result != result {
		t.Errorf("%s is %s, want %s: %s", c.Action, r.Result, result, r.Text)
	}
	for _, text := range texts {
		if !strings.Contains(r.Text, text) {
			t.Errorf("%s: %q, want %q in it", c.Action, r.Text, text)
		}
	}
}

func TestModeButtons(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		first, late := f.press(slack.Rollback, ada), f.press(slack.Rollback, eve)
		f.want(t, first, slack.Done, "Pool main: from enforce to passthrough. 0 running and 0 waiting", "Not recorded yet")
		f.want(t, late, slack.Refused, "Not executed: pool main has been in passthrough since", "set by "+ada)
		f.want(t, f.press(slack.Restore, eve), slack.Done, "from passthrough to enforce")
		f.want(t, first, slack.Refused, "pool main has been in enforce since", "set by "+eve) // the mode of the message, entered again
		unknown := f.press(slack.Rollback, ada)
		unknown.Observed.Mode = ""
		unknown.Observed.ModeSince = time.Time{}
		f.want(t, unknown, slack.Refused)
		f.modes.Remove("main")
		f.want(t, first, slack.Refused, "was removed")
	})
}

func TestButtonsThatNoLongerFit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, tt := range map[string]struct {
			spoil func(f *fixture, c *slack.Command)
			want  string
			fits  []slack.Action // for which this is no reason
		}{
			"an incident of another headgate": {func(_ *fixture, c *slack.Command) { c.Incident = "i-2" }, "no such incident", nil},
			"a record that was lost":          {func(_ *fixture, c *slack.Command) { c.Observed.Seq = 99 }, "record of the incident differ", nil},
			"another pool":                    {func(_ *fixture, c *slack.Command) { c.Pool = "other" }, "record of the incident differ", nil},
			"another rule":                    {func(_ *fixture, c *slack.Command) { c.Rule = "other" }, "record of the incident differ", nil},
			"a resolved incident": {func(f *fixture, _ *slack.Command) {
				f.held, f.recorded.Ended = nil, time.Now()
			}, "the incident was resolved at", []slack.Action{slack.Restore, slack.Runbook}},
		} {
			for _, a := range []slack.Action{slack.Ack, slack.Silence, slack.Rollback, slack.Restore, slack.Runbook} {
				f := newFixture(t)
				c := f.press(a, ada)
				tt.spoil(f, &c)
				r := f.Execute(t.Context(), c)
				fits := false
				for _, ok := range tt.fits {
					fits = fits || ok == a
				}
				if refused := r.Result == slack.Refused && strings.Contains(r.Text, tt.want); refused == fits {
					t.Errorf("%s, %s: %+v", name, a, r)
				}
				if s, _ := f.modes.State("main"); s.Mode != admission.Enforce {
					t.Errorf("%s, %s: the mode is %s", name, a, s.Mode)
				}
			}
		}
	})
}

func TestAcknowledge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		outdated := f.press(slack.Ack, ada)
		f.held[0].Seq, f.held[0].Level = 5, engine.LevelPage
		f.events = []engine.Event{{Seq: 4, Kind: engine.EventRecovering}, {Seq: 5, Kind: engine.EventEscalated}}
		f.want(t, outdated, slack.Refused, "it has escalated since that message, and is a page now")
		f.events = f.events[:1]
		f.want(t, outdated, slack.Done, "You have acknowledged it until")
		f.want(t, outdated, slack.Refused, "you have already acknowledged it, since ")
		f.want(t, f.press(slack.Ack, eve), slack.Refused, ada+" has already acknowledged it, since ")
		f.readErr = errors.New("the disk is full")
		f.want(t, f.press(slack.Ack, eve), slack.Refused, ada+" has already acknowledged it, until ")
		f.held = nil
		f.want(t, f.press(slack.Ack, eve), slack.Failed, "Failed: the disk is full")
	})
}

func TestTypedCommands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		for _, tt := range []struct {
			c      slack.Command
			result slack.Result
			want   string
		}{
			{slack.Command{Action: slack.Rollback, Pool: "mian"}, slack.Refused, `unknown pool "mian"; pools: main`},
			{slack.Command{Action: slack.Rollback, Reason: "it rejects too much"}, slack.Done, "from enforce to passthrough"},
			{slack.Command{Action: slack.Rollback}, slack.Refused, "Pool main is already in passthrough."},
			{slack.Command{Action: slack.Status}, slack.Done, "by " + ada + " (it rejects too much); 0 of 2 in flight, 0 waiting; in the last minute 5 admitted and 2 rejected; p95 31.0 s of 60 s."},
			{slack.Command{Action: slack.Restore, Pool: "main"}, slack.Done, "from passthrough to enforce"},
			{slack.Command{Action: slack.Ack, Incident: "i-1"}, slack.Done, "You have acknowledged it"},
			{slack.Command{Action: slack.Ack, Incident: "nothing"}, slack.Refused, "no such incident"},
			{slack.Command{Action: slack.Silence, Rule: "bsuy", Duration: time.Hour}, slack.Refused, "there are busy"},
			{slack.Command{Action: slack.Silence, Rule: "busy", Duration: time.Hour}, slack.Done, "busy is silenced until"},
			{slack.Command{Action: slack.Silence, Rule: "busy", Duration: time.Hour, Actor: eve}, slack.Refused, ada + " has already silenced busy"},
			{slack.Command{Action: slack.Runbook, Incident: "i-1"}, slack.Done, "Runbook queue_age: headgate incident show i-1"},
			{slack.Command{Action: slack.Status}, slack.Done, "Open, warn: busy (main), i-1"},
			{slack.Command{Action: slack.Drill, Drill: "brust"}, slack.Refused, `unknown drill "brust"; drills: burst`},
			{slack.Command{Action: slack.Drill, Drill: "burst"}, slack.Done, "Drill burst started: headgate drill show r-1"},
		} {
			if tt.c.Actor == "" {
				tt.c.Actor = ada
			}
			tt.c.At = time.Now()
			f.want(t, tt.c, tt.result, tt.want)
		}
		if len(f.started) != 1 || f.started[0] != "burst by "+ada {
			t.Errorf("started %v", f.started)
		}
		f.c.StartDrill = nil
		f.want(t, slack.Command{Action: slack.Drill, Drill: "burst"}, slack.Refused, "drills are not available")
		f.c.Links = true // the button has opened the runbook
		if r := f.Execute(t.Context(), slack.Command{Action: slack.Runbook, Incident: "i-1"}); r.Result != slack.Done || r.Text != "" {
			t.Errorf("%+v", r)
		}
	})
}

// TestRefreshAfterClose: a change by the button of a closed incident is added to its record once, so that its message
// shows the mode.
func TestRefreshAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.want(t, f.press(slack.Rollback, ada), slack.Done)
		if len(f.appended) != 0 {
			t.Fatalf("%+v were added while the engine holds the incident", f.appended)
		}
		f.held, f.recorded.Ended = nil, time.Now()
		f.events = []engine.Event{{Seq: 3, Kind: engine.EventResolved, At: time.Now().Add(-time.Minute)}}
		restore := f.press(slack.Restore, eve)
		f.want(t, restore, slack.Done)
		f.want(t, restore, slack.Refused)
		if len(f.appended) != 1 || f.appended[0].Kind != engine.EventMode || f.appended[0].By != eve || f.appended[0].Seq != 4 || f.recorded.Seq != 4 {
			t.Errorf("added %+v to %+v", f.appended, f.recorded)
		}
	})
}

func TestAudit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.AppendAudit(t.Context(), slack.AuditEntry{Action: slack.Ack, Result: slack.Refused, Incident: "i-1", Actor: ada, Reason: "why"})
		f.AppendAudit(t.Context(), slack.AuditEntry{Forged: true, Result: slack.Refused})
		if e := f.entries[0]; e.Kind != control.KindInteraction || e.Action != "ack" || e.Result != control.Refused || e.Subject != "i-1" || e.Actor != ada || e.Via != control.ViaSlack {
			t.Errorf("%+v", e)
		}
		if e := f.entries[1]; e.Kind != control.KindAccess || e.Action != "callback" || e.Actor != "unknown" {
			t.Errorf("%+v", e)
		}
	})
}
