package alerts_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"headgate/alerts"
	"headgate/engine"
)

var (
	one  = alerts.Routes{Warn: "ops", Page: "ops"}
	two  = alerts.Routes{Warn: "ops", Page: "oncall", Drills: "drills", Fallback: "hook"}
	noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
)

func TestRoutes(t *testing.T) {
	tests := []struct {
		name   string
		routes alerts.Routes
		level  engine.Level
		drill  bool
		want   alerts.Destination
	}{
		{"warn", two, engine.LevelWarn, false, alerts.ToWarn},
		{"page", two, engine.LevelPage, false, alerts.ToPage},
		{"drill", two, engine.LevelPage, true, alerts.ToDrills},
		{"one channel for all", one, engine.LevelWarn, false, alerts.ToPage},
		{"a drill without a channel", one, engine.LevelWarn, true, alerts.ToPage},
		{"page only", alerts.Routes{Page: "x"}, engine.LevelWarn, false, alerts.ToPage},
		{"warn only", alerts.Routes{Warn: "x"}, engine.LevelPage, false, alerts.ToWarn},
		{"drills share the warn channel", alerts.Routes{Warn: "x", Page: "y", Drills: "x"}, engine.LevelPage, true, alerts.ToWarn},
		{"nothing", alerts.Routes{}, engine.LevelPage, false, alerts.ToFallback},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.routes.Destination(tt.level, tt.drill); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
	if got := (alerts.Routes{Warn: "x", Page: "x", Fallback: "x"}).Destinations(); !slices.Equal(got, []alerts.Destination{alerts.ToPage}) {
		t.Errorf("one channel in use as %v", got)
	}
	if got := two.Destinations(); len(got) != 4 {
		t.Errorf("four channels in use as %v", got)
	}
}

// incident returns one at a level, whose peak is that level or the given one.
func incident(level engine.Level, peak ...engine.Level) engine.Incident {
	inc := engine.Incident{
		ID: "i1", Key: engine.Key{Rule: "queue_age", Pool: "default"}, Level: level, Peak: level,
		Opened: noon, Changed: noon, Value: 31, Threshold: 25, Unit: "s", Summary: "The queue is old",
	}
	if len(peak) > 0 {
		inc.Peak = peak[0]
	}
	return inc
}

func event(kind engine.EventKind, level engine.Level) engine.Event {
	return engine.Event{ID: "e", Incident: "i1", Seq: 3, Kind: kind, At: noon, Level: level, Value: 31}
}

// formatDeliveries writes deliveries as kind@destination, with ! if they ping and ~ if they
// are dropped.
func formatDeliveries(ds []alerts.Delivery) string {
	var out []string
	for _, d := range ds {
		s := fmt.Sprintf("%s@%s", d.Kind, d.Destination)
		if d.Notification.Ping {
			s += "!"
		}
		if d.State == alerts.Dropped {
			s += "~"
		}
		out = append(out, s)
	}
	return strings.Join(out, " ")
}

func TestPlanEvents(t *testing.T) {
	const warn, page = engine.LevelWarn, engine.LevelPage
	resolved := func(peak engine.Level) engine.Incident {
		i := incident(warn, peak)
		i.Ended, i.Resolution = noon, engine.Recovered
		return i
	}
	digested := func(e engine.Event) engine.Event { e.Digested = true; return e }
	muted := func(e engine.Event) engine.Event { e.Muted = true; return e }
	w, p := alerts.ToWarn, alerts.ToPage
	tests := []struct {
		name   string
		routes alerts.Routes
		posted []alerts.Destination
		inc    engine.Incident
		event  engine.Event
		want   string
	}{
		{"opened at warn", two, nil, incident(warn), event(engine.EventOpened, warn), "post@warn"},
		{"opened at page", two, nil, incident(page), event(engine.EventOpened, page), "post@page!"},
		{"escalated in one channel", one, destinations(p), incident(page), event(engine.EventEscalated, page), "edit@page reply@page!"},
		{"escalated into another channel", two, destinations(w), incident(page), event(engine.EventEscalated, page), "edit@warn post@page!"},
		{"escalated once more", two, destinations(w, p), incident(page), event(engine.EventEscalated, page), "edit@warn edit@page reply@page!"},
		{"de-escalated", two, destinations(w, p), incident(warn, page), event(engine.EventDeescalated, warn), "edit@page edit@warn reply@warn"},
		{"de-escalated, opened at page", two, destinations(p), incident(warn, page), event(engine.EventDeescalated, warn), "edit@page reply@page"},
		{"recovering", two, destinations(w), incident(warn), event(engine.EventRecovering, warn), "edit@warn"},
		{"refired", two, destinations(w), incident(warn), event(engine.EventRefired, warn), "edit@warn"},
		{"reopened at warn", two, destinations(w), incident(warn), event(engine.EventReopened, warn), "edit@warn reply@warn"},
		{"reopened at page", two, destinations(p), incident(page), event(engine.EventReopened, page), "edit@page reply@page!"},
		{"resolved warn", two, destinations(w), resolved(warn), event(engine.EventResolved, warn), "edit@warn reply@warn"},
		{"resolved page", two, destinations(w, p), resolved(page), event(engine.EventResolved, page), "edit@warn edit@page reply@page!"},
		{"resolved at warn after a page", two, destinations(w, p), resolved(page), event(engine.EventResolved, warn), "edit@warn edit@page reply@page!"},
		{"acknowledged", two, destinations(p), incident(page), event(engine.EventAcked, page), "edit@page reply@page"},
		{"acknowledgement expired", two, destinations(p), incident(page), event(engine.EventAckExpired, page), "edit@page reply@page!"},
		{"reminder of a page", two, destinations(p), incident(page), event(engine.EventReminder, page), "edit@page reply@page!"},
		{"reminder of a warning", two, destinations(w), incident(warn), event(engine.EventReminder, warn), "edit@warn reply@warn"},
		{"began to flap", one, destinations(p), incident(page), event(engine.EventFlapping, page), "edit@page reply@page!"},
		{"steady again", one, destinations(p), incident(page), event(engine.EventSteady, page), "edit@page reply@page"},
		{"reopened while flapping", one, destinations(p), incident(page), digested(event(engine.EventReopened, page)), "edit@page"},
		{"resolved while flapping", one, destinations(p), resolved(page), digested(event(engine.EventResolved, page)), "edit@page"},
		{"escalated while flapping", one, destinations(p), incident(page), digested(event(engine.EventEscalated, page)), "edit@page"},
		{"opened under a silence", two, nil, incident(page), muted(event(engine.EventOpened, page)), "post@page~"},
		{"escalated under a silence", one, destinations(p), incident(page), muted(event(engine.EventEscalated, page)), "edit@page~ reply@page~"},
		{"a silence ends over a page never sent", two, nil, incident(page), event(engine.EventUnmuted, page), "post@page!"},
		{"a silence ends over a page", two, destinations(p), incident(page), event(engine.EventUnmuted, page), "edit@page reply@page!"},
		{"a silence ends over a warning", two, destinations(w), incident(warn), event(engine.EventUnmuted, warn), "edit@warn"},
		{"a silence ends after the end of a page", two, destinations(p), resolved(page), event(engine.EventUnmuted, warn), "edit@page reply@page"},
		{"it came and went under a silence", two, nil, resolved(page), event(engine.EventUnmuted, page), ""},
		{"diverted before", two, destinations(p, alerts.ToFallback), incident(page), event(engine.EventAcked, page), "edit@fallback edit@page reply@page"},
		{"resolved without anything known", two, nil, resolved(page), event(engine.EventResolved, page), "post@page!"},
		{"the mode changes", two, destinations(w, p), incident(page), event(engine.EventMode, page), "edit@warn edit@page reply@page"},
		{"the mode changes after the end", two, destinations(p), resolved(page), event(engine.EventMode, warn), "edit@page reply@page"},
		{"the mode changes before anything is notified", two, nil, incident(page), event(engine.EventMode, page), ""},
		{"silenced", two, destinations(p), incident(page), event(engine.EventSilenced, page), "edit@page reply@page"},
		{"a remark", two, destinations(w), incident(warn), event(engine.EventNote, warn), "edit@warn reply@warn"},
		{"a kind that is not known yet", two, destinations(w), incident(warn), event("else", warn), "edit@warn reply@warn"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := alerts.Planner{Routes: tt.routes}
			b := engine.Batch{Incidents: []engine.Incident{tt.inc}, Events: []engine.Event{tt.event}}
			known := alerts.TxView{Posted: func(string) []alerts.Destination { return tt.posted }}
			got := p.Plan(b, known)
			if formatDeliveries(got) != tt.want {
				t.Errorf("%s, want %s", formatDeliveries(got), tt.want)
			}
			for _, x := range got {
				if x.Incident != "i1" || x.Seq != 3 || !x.Created.Equal(noon) || x.Notification.Silenced != tt.event.Muted {
					t.Errorf("%+v", x)
				}
			}
		})
	}
}

func destinations(ds ...alerts.Destination) []alerts.Destination { return ds }

func TestPlanWithinBatch(t *testing.T) {
	p := alerts.Planner{Routes: one}
	open, flap := event(engine.EventOpened, engine.LevelPage), event(engine.EventFlapping, engine.LevelPage)
	open.Seq, flap.Seq = 1, 2
	b := engine.Batch{Incidents: []engine.Incident{incident(engine.LevelPage)}, Events: []engine.Event{open, flap}}
	if got, want := formatDeliveries(p.Plan(b, alerts.TxView{})), "post@page! edit@page reply@page!"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	b.Incidents = nil
	if got := p.Plan(b, alerts.TxView{}); len(got) != 0 {
		t.Errorf("events without their incident: %s", formatDeliveries(got))
	}
}

func TestPlanModeAndIDs(t *testing.T) {
	n := 0
	p := alerts.Planner{
		Routes: one,
		Mode:   func(pool string) (string, time.Time) { return "mode of " + pool, noon },
		NewID:  func() string { n++; return fmt.Sprint("id", n) },
	}
	inc := incident(engine.LevelPage)
	b := engine.Batch{Incidents: []engine.Incident{inc}, Events: []engine.Event{event(engine.EventEscalated, engine.LevelPage)}}
	got := p.Plan(b, alerts.TxView{Posted: func(string) []alerts.Destination { return destinations(alerts.ToPage) }})
	if got[0].Notification.Mode != "mode of default" || !got[0].Notification.ModeSince.Equal(noon) {
		t.Errorf("mode %q since %s", got[0].Notification.Mode, got[0].Notification.ModeSince)
	}
	if got[0].ID != "id1" || got[1].ID != "id2" {
		t.Errorf("IDs %s and %s", got[0].ID, got[1].ID)
	}
	b.Incidents[0].Key.Pool = ""
	if got := p.Plan(b, alerts.TxView{}); got[0].Notification.Mode != "" {
		t.Errorf("an incident of the process has the mode %q", got[0].Notification.Mode)
	}
}

func TestPlanHasFiniteNumbers(t *testing.T) {
	inc, e := incident(engine.LevelPage), event(engine.EventOpened, engine.LevelPage)
	inc.Value, inc.Threshold, e.Value = math.NaN(), math.Inf(1), math.Inf(-1)
	got := alerts.Planner{Routes: one}.Plan(engine.Batch{Incidents: []engine.Incident{inc}, Events: []engine.Event{e}}, alerts.TxView{})
	n := got[0].Notification
	if n.Incident.Value != 0 || n.Incident.Threshold != 0 || n.Event.Value != 0 {
		t.Errorf("%+v", n)
	}
}

func FuzzPlanNeverRepeatsAKey(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 4, 5}, true)
	kinds := []engine.EventKind{
		engine.EventOpened, engine.EventEscalated, engine.EventDeescalated, engine.EventRecovering, engine.EventRefired,
		engine.EventReopened, engine.EventResolved, engine.EventFlapping, engine.EventSteady, engine.EventAcked,
		engine.EventAckExpired, engine.EventReminder, engine.EventUnmuted, engine.EventMode, engine.EventSilenced, engine.EventNote,
	}
	f.Fuzz(func(t *testing.T, script []byte, apart bool) {
		p := alerts.Planner{Routes: one}
		if apart {
			p.Routes = two
		}
		seen := make(map[alerts.Key]bool)
		var b engine.Batch
		for i, x := range script {
			e := event(kinds[int(x)%len(kinds)], engine.Level(1+x/16%2))
			e.Seq, e.Muted = i+1, x > 200
			b.Events = append(b.Events, e)
		}
		b.Incidents = []engine.Incident{incident(engine.LevelPage)}
		for _, x := range p.Plan(b, alerts.TxView{}) {
			if seen[x.Key()] {
				t.Fatalf("%+v is planned twice", x.Key())
			}
			seen[x.Key()] = true
			if x.Notification.Ping && x.Notification.Silenced {
				t.Fatalf("%+v is silenced and pings", x.Key())
			}
		}
	})
}

// TestDrillPlan: values in seconds are scenario time; others stay.
func TestDrillPlan(t *testing.T) {
	note := func(unit string) alerts.Delivery {
		return alerts.Delivery{Notification: alerts.Notification{
			Incident: engine.Incident{Unit: unit, Value: 1.5, Threshold: 1.25}, Event: engine.Event{Value: 1.3},
		}}
	}
	plan := alerts.DrillPlan(func(engine.Batch, alerts.TxView) []alerts.Delivery {
		return []alerts.Delivery{note("s"), note("tasks")}
	}, 20)
	got := plan(engine.Batch{}, alerts.TxView{})
	if n := got[0].Notification; !n.Drill || n.Incident.Value != 30 || n.Incident.Threshold != 25 || n.Event.Value != 26 {
		t.Errorf("%+v", n)
	}
	if n := got[1].Notification; !n.Drill || n.Incident.Value != 1.5 || n.Incident.Threshold != 1.25 {
		t.Errorf("%+v", n)
	}
}

// TestNotice: it is sent to the destination of pages, as a separate message without a ping.
func TestNotice(t *testing.T) {
	at := time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)
	for routes, to := range map[alerts.Routes]alerts.Destination{
		{Page: "C1", Warn: "C2", Fallback: "C3"}: alerts.ToPage, {Fallback: "webhook"}: alerts.ToFallback,
	} {
		d := routes.NewNotice("id-1", "change-1-h2", "default", "it is still so", at, false)
		if d.Destination != to || !d.IsNotice() || d.Notification.Ping || d.Kind != alerts.Post || d.State != alerts.Queued || d.Notification.Event.Text != "it is still so" {
			t.Errorf("%+v: %+v", routes, d)
		}
		if again := routes.NewNotice("id-2", "change-1-h2", "default", "it is still so", at.Add(time.Second), false); again.Key() != d.Key() {
			t.Errorf("one name, two keys: %v and %v", d.Key(), again.Key())
		}
		if (alerts.Delivery{}).IsNotice() {
			t.Error("everything is a notice")
		}
	}
	for routes, to := range map[alerts.Routes]alerts.Destination{two: alerts.ToDrills, one: alerts.ToPage} {
		if d := routes.NewNotice("id-1", "drill-1", "default", "PASSED", at, true); d.Destination != to {
			t.Errorf("a drill's verdict goes to %s, want %s", d.Destination, to)
		}
	}
}
