package apitest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"headgate/runbooks/drill"
	"headgate/web/api"
)

// Hostile is the name of one of the drills of a Desk.
const Hostile = `=cmd|' /C calc'!A0 <img src=x onerror=alert(1)>`

// Desk has three drills, which run for as long as a test wants: a twin by schedule
// (burst), a live one that is not allowed (live) and one with a hostile name
// (odd). It keeps its record in memory, which can break.
type Desk struct {
	mu     sync.Mutex
	freeze drill.Freeze
	runs   []drill.Run // oldest first
	live   string      // ID of the run that goes on
	orders []api.DrillOrder
	broken error
}

// NewDesk returns a desk without runs.
func NewDesk() *Desk { return &Desk{} }

// Port returns the desk as the admin API takes it.
func (d *Desk) Port() *api.Drills {
	return &api.Drills{Board: d, Orders: d, Record: deskRecord{d}}
}

// Specs returns the drills.
func (d *Desk) Specs() []drill.Spec {
	expect := []drill.Expectation{{Measure: drill.P95, Compare: drill.AtMost, Limit: 60, Unit: "s"}}
	return []drill.Spec{
		{ID: "burst", Name: "Burst", Schedule: "30 9 * * 1", Zone: "Europe/Berlin", Target: drill.Twin, Pool: "a", BuiltIn: true, Expect: expect},
		{ID: "live", Name: "Live latency", Target: drill.Live, Pool: "a", Share: 0.1, Expect: expect},
		{ID: "odd", Name: Hostile, Note: Hostile, Owner: Hostile, Target: drill.Twin, Expect: expect},
	}
}

// Break makes the record unreadable, or with nil well again.
func (d *Desk) Break(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.broken = err
}

// Add puts runs that have ended into the record.
func (d *Desk) Add(runs ...drill.Run) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.runs = append(d.runs, runs...)
}

// Step changes the run that goes on; it is over when it is ended.
func (d *Desk) Step(f func(r *drill.Run)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for n := range d.runs {
		if d.runs[n].ID == d.live {
			f(&d.runs[n])
			if d.runs[n].Status == drill.Ended {
				d.live = ""
			}
			return
		}
	}
}

// Running returns the ID of the run that goes on, empty if none does.
func (d *Desk) Running() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.live
}

// Given returns the orders for runs that were given.
func (d *Desk) Given() []api.DrillOrder {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.orders)
}

// Drills implements api.DrillBoard.
func (d *Desk) Drills(context.Context, time.Time) (api.DrillStates, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	states := api.DrillStates{Freeze: d.freeze}
	for _, s := range d.Specs() {
		state := api.DrillState{Spec: s}
		if s.Schedule != "" {
			state.Next = []api.DrillDue{{At: time.Date(2026, 3, 29, 7, 30, 0, 0, time.UTC), Note: "clocks go forward that night"}}
		}
		if s.Target == drill.Live {
			state.Problems = []string{"allow_live is not set"}
		}
		for _, r := range d.runs {
			switch {
			case r.Drill != s.ID:
			case r.ID == d.live:
				state.Running = r.ID
			case d.broken == nil:
				state.Last = &r
				if r.Verdict == drill.Passed {
					state.Passed = r.Started
				}
			}
		}
		states.Items = append(states.Items, state)
	}
	return states, nil
}

// Live implements api.DrillBoard.
func (d *Desk) Live(id string) (drill.Run, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := slices.IndexFunc(d.runs, func(r drill.Run) bool { return r.ID == id && id == d.live })
	if n < 0 {
		return drill.Run{}, false
	}
	return d.runs[n], true
}

// Start implements api.DrillOrders.
func (d *Desk) Start(_ context.Context, o api.DrillOrder) (api.DrillStarted, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	specs := d.Specs()
	n := slices.IndexFunc(specs, func(s drill.Spec) bool { return s.ID == o.Name || s.Name == o.Name })
	if n < 0 {
		return api.DrillStarted{}, api.ErrNoDrill
	}
	s, speed := specs[n], o.Speed
	if speed == 0 {
		speed = 1
	}
	plan := api.DrillPlan{
		Drill: s.ID, Name: s.Name, Target: s.Target, Pool: s.Pool, Speed: speed, Scenario: 5 * time.Minute,
		Takes: time.Duration(float64(5*time.Minute) / speed), Steps: []string{"load of 0.8 tasks/s"}, Hypotheses: []string{"p95_turnaround <= 60 s"},
		MessagesGoTo: "#drills",
	}
	why := d.whyNotLocked(s)
	if o.DryRun {
		if why != nil {
			plan.Blocked = why.Error()
		}
		return api.DrillStarted{Plan: plan}, nil
	}
	if why != nil {
		return api.DrillStarted{}, why
	}
	d.orders = append(d.orders, o)
	r := drill.Run{
		ID: fmt.Sprintf("01a22990-4f00-7a3e-8d51-%012d", len(d.runs)), Drill: s.ID, Name: s.Name, Spec: s, Trigger: drill.ByHand, Actor: o.Actor,
		Speed: speed, Started: time.Now().UTC().Truncate(time.Millisecond), Status: drill.Running, Reason: o.Reason,
		Phases: []drill.Phase{{Name: drill.PhaseInject, Began: time.Now().UTC().Truncate(time.Millisecond)}},
	}
	d.runs, d.live = append(d.runs, r), r.ID
	return api.DrillStarted{Run: r.ID, Plan: plan}, nil
}

func (d *Desk) whyNotLocked(s drill.Spec) error {
	switch {
	case s.Target == drill.Live:
		return &api.DrillRefusal{Why: "allow_live is not set"}
	case d.freeze.On:
		return drill.ErrFrozen
	case d.live != "":
		r := d.runs[slices.IndexFunc(d.runs, func(r drill.Run) bool { return r.ID == d.live })]
		return &drill.BusyError{Run: r.ID, Drill: r.Name, Since: r.Started}
	}
	return nil
}

// Abort implements api.DrillOrders.
func (d *Desk) Abort(_ context.Context, id, by, reason string) (drill.Run, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for n := range d.runs {
		r := &d.runs[n]
		if r.ID != id {
			continue
		}
		if r.Status == drill.Ended {
			return drill.Run{}, &api.DrillRefusal{Why: "the run has ended already: " + string(r.Verdict)}
		}
		r.Status, r.Verdict, r.Reason, r.Ended, d.live = drill.Ended, drill.Aborted, "by "+by+": "+reason, time.Now().UTC(), ""
		r.ClearTook = 3 * time.Millisecond
		return *r, nil
	}
	return drill.Run{}, drill.ErrNoRun
}

// Freeze implements api.DrillOrders.
func (d *Desk) Freeze(ctx context.Context, f drill.Freeze) (drill.Freeze, error) {
	if f.On && d.Running() != "" {
		if _, err := d.Abort(ctx, d.Running(), f.By, f.Reason); err != nil {
			return drill.Freeze{}, err
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.broken != nil {
		return drill.Freeze{}, d.broken
	}
	d.freeze = f
	return f, nil
}

// deskRecord is the record of a Desk.
type deskRecord struct{ *Desk }

// Runs implements api.DrillRecord.
func (d deskRecord) Runs(_ context.Context, q drill.Query) (page []drill.Run, next string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.broken != nil {
		return nil, "", d.broken
	}
	all := slices.Clone(d.runs)
	slices.Reverse(all)
	if q.After != "" {
		n := slices.IndexFunc(all, func(r drill.Run) bool { return "at."+r.ID == q.After })
		if n < 0 {
			return nil, "", api.ErrUnknownKey
		}
		all = all[n+1:]
	}
	all = slices.DeleteFunc(all, func(r drill.Run) bool {
		return q.Drill != "" && q.Drill != r.Drill && q.Drill != r.Name || len(q.Verdicts) > 0 && !slices.Contains(q.Verdicts, r.Verdict) ||
			len(q.Triggers) > 0 && !slices.Contains(q.Triggers, r.Trigger) || r.Started.Before(q.Since) ||
			!q.Until.IsZero() && !r.Started.Before(q.Until) || q.Running && r.Status == drill.Ended
	})
	if len(all) > q.Limit {
		all, next = all[:q.Limit], "at."+all[q.Limit-1].ID
	}
	for n := range all {
		all[n].Series, all[n].Messages, all[n].Undo = nil, nil, nil
	}
	return all, next, nil
}

// Run implements api.DrillRecord.
func (d deskRecord) Run(_ context.Context, id string) (drill.Run, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.broken != nil {
		return drill.Run{}, d.broken
	}
	n := slices.IndexFunc(d.runs, func(r drill.Run) bool { return r.ID == id })
	if n < 0 {
		return drill.Run{}, drill.ErrNoRun
	}
	return d.runs[n], nil
}

// History implements api.DrillRecord, for runs that have ended.
func (d deskRecord) History(_ context.Context, q drill.HistoryQuery) (h drill.History, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, r := range d.runs {
		if r.Status == drill.Ended && (q.Drill == "" || q.Drill == r.Drill || q.Drill == r.Name) {
			count(&h, r, q)
		}
	}
	return h, d.broken
}

// count takes one more run, which is later than those before, into a history.
func count(h *drill.History, r drill.Run, q drill.HistoryQuery) {
	n := slices.IndexFunc(h.Latest, func(l drill.Latest) bool { return l.Drill == r.Drill })
	if n < 0 {
		h.Latest, n = append(h.Latest, drill.Latest{Drill: r.Drill}), len(h.Latest)
	}
	l := &h.Latest[n]
	l.Name, l.Run, l.Verdict, l.At = r.Name, r.ID, r.Verdict, r.Started
	if r.Verdict == drill.Passed {
		l.Passed, l.PassAt = r.ID, r.Started
	}
	if r.Started.Before(q.Since) || r.Started.After(q.Until) {
		return
	}
	day := r.Started.Truncate(24 * time.Hour)
	n = slices.IndexFunc(h.Days, func(d drill.Day) bool { return d.Day.Equal(day) && d.Drill == r.Drill })
	if n < 0 {
		h.Days, n = append(h.Days, drill.Day{Day: day, Drill: r.Drill, Verdicts: map[drill.Verdict]int{}}), len(h.Days)
	}
	d := &h.Days[n]
	d.Verdicts[r.Verdict]++
	if t, ok := r.Tightest(); ok {
		if d.Judged == 0 || t.Margin < d.Tightest {
			d.Tightest = t.Margin
		}
		d.Judged, d.Margin = d.Judged+1, d.Margin+t.Margin
	}
}
