package alerts

import (
	"math"
	"slices"
	"time"

	"headgate/engine"
)

// Routes names the channel of each destination; empty: none. Names are only compared.
type Routes struct{ Warn, Page, Drills, Fallback string }

// Destination returns the destination of an incident of that level. Destinations that share a channel count as one, the
// first of page, warn, drills and fallback, so that an incident has one message in each channel. A destination without
// a channel is replaced by page, then warn.
func (r Routes) Destination(level engine.Level, drill bool) Destination {
	switch {
	case drill && r.Drills != "":
		return r.canonical(r.Drills)
	case level < engine.LevelPage && r.Warn != "":
		return r.canonical(r.Warn)
	case r.Page != "":
		return ToPage
	case r.Warn != "":
		return r.canonical(r.Warn)
	default:
		return ToFallback
	}
}

// fallback returns the destination of what another permanently refused, if there is one.
func (r Routes) fallback(from Destination) (Destination, bool) {
	if r.Fallback == "" {
		return "", false
	}
	to := r.canonical(r.Fallback)
	return to, to != from
}

// Destinations returns the destinations that deliveries may be planned for, each channel once, the fallback included.
func (r Routes) Destinations() []Destination {
	var used []Destination
	for _, name := range []string{r.Page, r.Warn, r.Drills, r.Fallback} {
		if name == "" {
			continue
		}
		if to := r.canonical(name); !slices.Contains(used, to) {
			used = append(used, to)
		}
	}
	return used
}

func (r Routes) canonical(channel string) Destination {
	switch channel {
	case r.Page:
		return ToPage
	case r.Warn:
		return ToWarn
	case r.Drills:
		return ToDrills
	default:
		return ToFallback
	}
}

// Planner turns events into deliveries. Its functions do not block and may be called from any goroutine. The zero
// Planner sends everything to the fallback.
type Planner struct {
	Routes Routes
	// Mode returns a pool's mode and its start. Nil: not known.
	Mode func(pool string) (mode string, since time.Time)
	// Load returns how many tasks of a pool run and wait, false if that is not known. Nil: never known.
	Load func(pool string) (running, queued int, known bool)
	// NewID returns a UUIDv7. Nil: deliveries have no ID.
	NewID func() string
}

// Plan returns the deliveries of a batch's events, in the order of sending. It is pure: times are those of the events.
func (p Planner) Plan(b engine.Batch, view TxView) []Delivery {
	incidents := make(map[string]engine.Incident, len(b.Incidents))
	for _, i := range b.Incidents {
		incidents[i.ID] = i
	}
	var all []Delivery
	posted := make(map[string][]Destination)
	for _, e := range b.Events {
		inc, ok := incidents[e.Incident]
		if !ok {
			continue // an event without its incident has no content
		}
		if _, asked := posted[inc.ID]; !asked && view.Posted != nil {
			posted[inc.ID] = slices.Clone(view.Posted(inc.ID))
		}
		for _, d := range p.planEvent(inc, e, posted[inc.ID]) {
			if d.State != Dropped && !slices.Contains(posted[inc.ID], d.Destination) {
				posted[inc.ID] = append(posted[inc.ID], d.Destination)
			}
			all = append(all, d)
		}
	}
	return all
}

// planEvent plans one event: an edit wherever the incident has a message, a post at its destination if that has none,
// and a reply if the event belongs in the thread.
func (p Planner) planEvent(inc engine.Incident, e engine.Event, posted []Destination) []Delivery {
	n := p.notification(inc, e)
	home := p.Routes.Destination(routingLevel(inc, e), false)
	if !slices.Contains(posted, home) && len(posted) > 0 && !opensNew(e.Kind) {
		home = posted[0] // a de-escalation opens no second message elsewhere
	}
	if e.Kind == engine.EventUnmuted && !inc.Open() && len(posted) == 0 {
		return nil // opened and resolved while silenced
	}
	if e.Kind.IsAnnotation() && len(posted) == 0 {
		return nil // no message to add it to
	}
	var ds []Delivery
	for _, to := range posted {
		if to != home {
			ds = append(ds, p.newDelivery(n, Edit, to, false))
		}
	}
	if !slices.Contains(posted, home) {
		return append(ds, p.newDelivery(n, Post, home, n.Ping))
	}
	ds = append(ds, p.newDelivery(n, Edit, home, false))
	if repliesInThread(n) {
		ds = append(ds, p.newDelivery(n, Reply, home, n.Ping))
	}
	return ds
}

func (p Planner) notification(inc engine.Incident, e engine.Event) Notification {
	n := Notification{Incident: finiteIncident(inc), Event: e, Silenced: e.Muted}
	n.Event.Value = finiteOrZero(e.Value)
	if p.Mode != nil && inc.Key.Pool != "" {
		n.Mode, n.ModeSince = p.Mode(inc.Key.Pool)
	}
	if p.Load != nil && inc.Key.Pool != "" {
		n.Running, n.Queued, n.LoadKnown = p.Load(inc.Key.Pool)
	}
	n.Ping = !e.Muted && pings(inc, e)
	return n
}

func (p Planner) newDelivery(n Notification, kind Kind, to Destination, ping bool) Delivery {
	n.Ping = ping
	d := Delivery{
		Incident: n.Incident.ID, Seq: n.Event.Seq, Kind: kind, Destination: to,
		Notification: n, Created: n.Event.At, State: Queued,
	}
	if n.Silenced {
		d.State, d.Reason = Dropped, "silenced"
	}
	if p.NewID != nil {
		d.ID = p.NewID()
	}
	return d
}

// pings says whether an event mentions people: only for pages, and only when there is something to do or no longer is.
// Single changes of a flapping incident do not ping.
func pings(inc engine.Incident, e engine.Event) bool {
	paged := e.Level == engine.LevelPage
	switch e.Kind {
	case engine.EventOpened, engine.EventEscalated, engine.EventReopened:
		return paged && !e.Digested
	case engine.EventAckExpired, engine.EventReminder, engine.EventFlapping:
		return paged
	case engine.EventUnmuted:
		return paged && inc.Open()
	case engine.EventResolved:
		return inc.Peak == engine.LevelPage && !e.Digested
	default:
		return false
	}
}

// routingLevel is the level that selects the channel of an event: the end of a page goes where the page was.
func routingLevel(inc engine.Incident, e engine.Event) engine.Level {
	if e.Kind == engine.EventResolved || (e.Kind == engine.EventUnmuted && !inc.Open()) {
		return inc.Peak
	}
	return e.Level
}

// opensNew says whether an event may post an incident in a channel that has no message of it.
func opensNew(k engine.EventKind) bool {
	return slices.Contains([]engine.EventKind{
		engine.EventOpened, engine.EventEscalated, engine.EventReopened, engine.EventUnmuted, engine.EventAckExpired,
		engine.EventReminder,
	}, k)
}

// repliesInThread says whether an event becomes a reply. The others only edit the message; the steps of a flapping
// incident are summed up there.
func repliesInThread(n Notification) bool {
	switch n.Event.Kind {
	case engine.EventRecovering, engine.EventRefired:
		return false
	case engine.EventUnmuted:
		return n.Ping || !n.Incident.Open()
	default:
		return !n.Event.Digested
	}
}

// finiteIncident replaces numbers that JSON cannot hold.
func finiteIncident(i engine.Incident) engine.Incident {
	i.Value, i.Threshold = finiteOrZero(i.Value), finiteOrZero(i.Threshold)
	return i
}

func finiteOrZero(v float64) float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return 0
	}
	return v
}

// EventNotice is the event kind of a notice: a message that is not about an incident. Its Text is the whole content.
const EventNotice engine.EventKind = "notice"

// NewNotice returns a delivery of a text as a separate message, without a ping. It is sent to the destination for pages, or
// for drills. The name replaces the incident's ID: an outbox has at most one notice of a name.
func (r Routes) NewNotice(id, name, pool, text string, at time.Time, drill bool) Delivery {
	to := r.Destination(engine.LevelPage, drill)
	return Delivery{
		ID: id, Incident: name, Seq: 1, Kind: Post, Destination: to, Created: at, State: Queued,
		Notification: Notification{
			Incident: engine.Incident{ID: name, Key: engine.Key{Pool: pool}, Seq: 1, Opened: at},
			Event:    engine.Event{Incident: name, Seq: 1, Kind: EventNotice, At: at, Text: text},
		},
	}
}

// IsNotice says whether a delivery is one.
func (d Delivery) IsNotice() bool { return d.Notification.Event.Kind == EventNotice }

// DrillPlan marks the deliveries of a plan as those of a drill. Values in seconds were measured on the wall clock; they
// are multiplied by the speed of the scenario and rounded to milliseconds.
func DrillPlan(next PlanFunc, speed float64) PlanFunc {
	scale := func(v *float64) { *v = math.Round(*v*speed*1000) / 1000 }
	return func(b engine.Batch, view TxView) []Delivery {
		all := next(b, view)
		for i := range all {
			n := &all[i].Notification
			n.Drill = true
			if n.Incident.Unit == "s" {
				scale(&n.Incident.Value)
				scale(&n.Incident.Threshold)
				scale(&n.Event.Value)
			}
		}
		return all
	}
}
