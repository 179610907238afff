package alerts

import (
	"math"
	"slices"
	"time"

	"headgate/engine"
)

// Planner turns what happened into what is to be sent. Its functions do not block
// and may be called from any goroutine; the zero Planner sends everything to the
// fallback.
type Planner struct {
	Routes Routes
	// Mode returns a pool's mode and since when it is so. Nil: not known.
	Mode func(pool string) (mode string, since time.Time)
	// Drill says whether trouble of this key is part of a rehearsal. Nil: never.
	Drill func(k engine.Key) bool
	// NewID returns a UUIDv7. Nil: deliveries have no ID.
	NewID func() string
}

// Plan returns the deliveries of a batch's events, in the order in which they are
// to be sent. It is pure: times are those of the events.
func (p Planner) Plan(b engine.Batch, k Known) []Delivery {
	incidents := make(map[string]engine.Incident, len(b.Incidents))
	for _, i := range b.Incidents {
		incidents[i.ID] = i
	}
	var all []Delivery
	posted := make(map[string][]Destination)
	for _, e := range b.Events {
		inc, ok := incidents[e.Incident]
		if !ok {
			continue // an event without its incident says nothing
		}
		if _, asked := posted[inc.ID]; !asked && k.Posted != nil {
			posted[inc.ID] = slices.Clone(k.Posted(inc.ID))
		}
		for _, d := range p.event(inc, e, k.muted(b, inc.Key, e), posted[inc.ID]) {
			if d.State != Dropped && !slices.Contains(posted[inc.ID], d.Destination) {
				posted[inc.ID] = append(posted[inc.ID], d.Destination)
			}
			all = append(all, d)
		}
	}
	return all
}

// event plans one event: an edit wherever the incident has a message, a post
// where it belongs and has none, and a reply if the event is one of the thread's.
func (p Planner) event(inc engine.Incident, e engine.Event, muted bool, posted []Destination) []Delivery {
	n := p.note(inc, e, muted)
	home := p.Routes.Of(bell(inc, e), n.Drill)
	if !slices.Contains(posted, home) && len(posted) > 0 && !raises(e.Kind) {
		home = posted[0] // going down does not open a second message elsewhere
	}
	if e.Kind == engine.EventUnmuted && !inc.Open() && len(posted) == 0 {
		return nil // it came and went under the silence
	}
	var ds []Delivery
	for _, to := range posted {
		if to != home {
			ds = append(ds, p.delivery(n, Edit, to, false))
		}
	}
	if !slices.Contains(posted, home) {
		return append(ds, p.delivery(n, Post, home, n.Ping))
	}
	ds = append(ds, p.delivery(n, Edit, home, false))
	if told(n) {
		ds = append(ds, p.delivery(n, Reply, home, n.Ping))
	}
	return ds
}

func (p Planner) note(inc engine.Incident, e engine.Event, muted bool) Note {
	n := Note{Incident: finite(inc), Event: e, Silenced: muted}
	n.Event.Value = finiteOr0(e.Value)
	if p.Mode != nil && inc.Key.Pool != "" {
		n.Mode, n.ModeSince = p.Mode(inc.Key.Pool)
	}
	n.Drill = p.Drill != nil && p.Drill(inc.Key)
	n.Ping = !n.Drill && !muted && pings(inc, e)
	return n
}

func (p Planner) delivery(n Note, kind Kind, to Destination, ping bool) Delivery {
	n.Ping = ping
	d := Delivery{
		Incident: n.Incident.ID, Seq: n.Event.Seq, Kind: kind, Destination: to,
		Note: n, Created: n.Event.At, State: Queued,
	}
	if n.Silenced {
		d.State, d.Reason = Dropped, "silenced"
	}
	if p.NewID != nil {
		d.ID = p.NewID()
	}
	return d
}

// pings says whether people are disturbed: only for pages, and only when they
// have something to do or are released from it. A reopened flapping incident has
// been announced as flapping; its ups and downs do not ring.
func pings(inc engine.Incident, e engine.Event) bool {
	paged := e.Level == engine.LevelPage
	switch e.Kind {
	case engine.EventOpened, engine.EventEscalated, engine.EventAckExpired,
		engine.EventReminder, engine.EventFlapping:
		return paged
	case engine.EventUnmuted:
		return paged && inc.Open()
	case engine.EventReopened:
		return paged && !inc.Flapping
	case engine.EventResolved:
		return inc.Peak == engine.LevelPage && !inc.Flapping
	default:
		return false
	}
}

// bell is the level whose channel an event is told in: the end of a page is told
// where the page was.
func bell(inc engine.Incident, e engine.Event) engine.Level {
	if e.Kind == engine.EventResolved {
		return inc.Peak
	}
	return e.Level
}

// raises says whether an event may bring an incident to a channel where it has no
// message yet.
func raises(k engine.EventKind) bool {
	switch k {
	case engine.EventOpened, engine.EventEscalated, engine.EventReopened, engine.EventUnmuted,
		engine.EventAckExpired, engine.EventReminder:
		return true
	default:
		return false
	}
}

// told says whether an event is told in the thread. The others only change the
// message; a flapping incident is summed up there, not told step by step.
func told(n Note) bool {
	switch n.Event.Kind {
	case engine.EventRecovering, engine.EventRefired:
		return false
	case engine.EventDeescalated, engine.EventReopened, engine.EventResolved, engine.EventOpened:
		return !n.Incident.Flapping
	case engine.EventUnmuted:
		return n.Ping
	default:
		return true
	}
}

// muted says whether an event is only recorded. The end of a silence never is.
func (k Known) muted(b engine.Batch, key engine.Key, e engine.Event) bool {
	if e.Kind == engine.EventUnmuted {
		return false
	}
	for _, s := range b.Silences {
		covers := s.Rule == key.Rule && (s.Pool == "" || s.Pool == key.Pool)
		if covers && !s.Lifted && !e.At.Before(s.From) && e.At.Before(s.Until) {
			return true
		}
	}
	return k.Silenced != nil && k.Silenced(key, e.At)
}

// finite replaces what a record in JSON could not hold.
func finite(i engine.Incident) engine.Incident {
	i.Value, i.Threshold = finiteOr0(i.Value), finiteOr0(i.Threshold)
	return i
}

func finiteOr0(v float64) float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return 0
	}
	return v
}
