package apitest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"headgate/runbooks/drill"
	"headgate/web/api"
)

// HostileName is the name of one of the drills of a Drills.
const HostileName = `=cmd|' /C calc'!A0 <img src=x onerror=alert(1)>`

// Drills has three drills, which run for as long as a test wants: a twin by schedule
// (burst), a live one that is not allowed (live) and one with a hostile name
// (odd). It keeps its record in memory, which can break.
type Drills struct {
	memory
	freeze        drill.Freeze
	runs          []drill.Run // oldest first
	runningID     string      // ID of the run in progress
	startRequests []drill.StartRequest
}

// NewDrills returns drills without runs.
func NewDrills() *Drills { return &Drills{} }

// Ports returns the drills as the admin API takes them.
func (d *Drills) Ports() *api.DrillPorts {
	return &api.DrillPorts{Catalog: d, Controller: d, Runs: d}
}

// Specs returns the drills.
func (d *Drills) Specs() []drill.Spec {
	expect := []drill.Expectation{{Measure: drill.P95, Compare: drill.AtMost, Limit: 60, Unit: "s"}}
	return []drill.Spec{
		{ID: "burst", Name: "Burst", Schedule: "30 9 * * 1", Zone: "Europe/Berlin", Target: drill.Twin, Pool: "a", BuiltIn: true, Expect: expect},
		{ID: "live", Name: "Live latency", Target: drill.Live, Pool: "a", Share: 0.1, Expect: expect},
		{ID: "odd", Name: HostileName, Note: HostileName, Owner: HostileName, Target: drill.Twin, Expect: expect},
	}
}

// AddRuns puts runs that have ended into the record.
func (d *Drills) AddRuns(runs ...drill.Run) {
	defer d.lock()()
	d.runs = append(d.runs, runs...)
}

// UpdateRunning changes the run that goes on; it is over when it is ended.
func (d *Drills) UpdateRunning(f func(r *drill.Run)) {
	defer d.lock()()
	n := d.indexLocked(d.runningID)
	if n < 0 {
		return
	}
	f(&d.runs[n])
	if d.runs[n].Status == drill.Ended {
		d.runningID = ""
	}
}

// indexLocked returns where a run is, -1 if there is none with the ID.
func (d *Drills) indexLocked(id string) int {
	return slices.IndexFunc(d.runs, func(r drill.Run) bool { return r.ID == id })
}

// RunningID returns the ID of the run that goes on, empty if none does.
func (d *Drills) RunningID() string {
	defer d.lock()()
	return d.runningID
}

// StartRequests returns the requests for runs that were accepted.
func (d *Drills) StartRequests() []drill.StartRequest {
	defer d.lock()()
	return slices.Clone(d.startRequests)
}

// Drills implements api.DrillCatalog.
func (d *Drills) Drills(context.Context, time.Time) (drill.States, error) {
	defer d.lock()()
	states := drill.States{Freeze: d.freeze}
	for _, s := range d.Specs() {
		state := drill.State{Spec: s}
		if s.Schedule != "" {
			state.Next = []drill.Upcoming{{At: time.Date(2026, 3, 29, 7, 30, 0, 0, time.UTC), Note: "clocks go forward that night"}}
		}
		if s.Target == drill.Live {
			state.Problems = []string{"allow_live is not set"}
		}
		for _, r := range d.runs {
			switch {
			case r.Drill != s.ID:
			case r.ID == d.runningID:
				state.Running = r.ID
			case d.err == nil:
				state.Last = &r
				if r.Verdict == drill.Passed {
					state.LastPassed = r.Started
				}
			}
		}
		states.Items = append(states.Items, state)
	}
	return states, nil
}

// Live implements api.DrillCatalog.
func (d *Drills) Live(id string) (drill.Run, bool) {
	defer d.lock()()
	n := d.indexLocked(id)
	if n < 0 || id != d.runningID {
		return drill.Run{}, false
	}
	return d.runs[n], true
}

// Start implements api.DrillController.
func (d *Drills) Start(_ context.Context, o drill.StartRequest) (drill.StartResult, error) {
	defer d.lock()()
	specs := d.Specs()
	n := slices.IndexFunc(specs, func(s drill.Spec) bool { return s.ID == o.Name || s.Name == o.Name })
	if n < 0 {
		return drill.StartResult{}, drill.ErrNoDrill
	}
	s, speed := specs[n], o.Speed
	if speed == 0 {
		speed = 1
	}
	plan := drill.Plan{
		Drill: s.ID, Name: s.Name, Target: s.Target, Pool: s.Pool, Speed: speed, Scenario: 5 * time.Minute,
		WallTime: time.Duration(float64(5*time.Minute) / speed), Steps: []string{"load of 0.8 tasks/s"}, Hypotheses: []string{"p95_turnaround <= 60 s"},
		NotificationTarget: "#drills",
	}
	why := d.refusalLocked(s)
	if o.DryRun {
		if why != nil {
			plan.Blocked = why.Error()
		}
		return drill.StartResult{Plan: plan}, nil
	}
	if why != nil {
		return drill.StartResult{}, why
	}
	d.startRequests = append(d.startRequests, o)
	r := drill.Run{
		ID: fmt.Sprintf("01a22990-4f00-7a3e-8d51-%012d", len(d.runs)), Drill: s.ID, Name: s.Name, Spec: s, Trigger: drill.ByHand, Actor: o.Actor,
		Speed: speed, Started: time.Now().UTC().Truncate(time.Millisecond), Status: drill.Running, Reason: o.Reason,
		Phases: []drill.Phase{{Name: drill.PhaseInject, Started: time.Now().UTC().Truncate(time.Millisecond)}},
	}
	d.runs, d.runningID = append(d.runs, r), r.ID
	return drill.StartResult{Run: r.ID, Plan: plan}, nil
}

func (d *Drills) refusalLocked(s drill.Spec) error {
	switch {
	case s.Target == drill.Live:
		return &drill.RefusedError{Reason: "allow_live is not set"}
	case d.freeze.On:
		return drill.ErrFrozen
	case d.runningID != "":
		r := d.runs[d.indexLocked(d.runningID)]
		return &drill.BusyError{Run: r.ID, Drill: r.Name, Since: r.Started}
	}
	return nil
}

// Abort implements api.DrillController.
func (d *Drills) Abort(_ context.Context, id, by, reason string) (drill.Run, error) {
	defer d.lock()()
	n := d.indexLocked(id)
	if n < 0 {
		return drill.Run{}, drill.ErrNoRun
	}
	r := &d.runs[n]
	if r.Status == drill.Ended {
		return drill.Run{}, &drill.RefusedError{Reason: "the run has ended already: " + string(r.Verdict)}
	}
	r.Status, r.Verdict, r.Reason, r.Ended, d.runningID = drill.Ended, drill.Aborted, "by "+by+": "+reason, time.Now().UTC(), ""
	r.ClearTook = 3 * time.Millisecond
	return *r, nil
}

// Freeze implements api.DrillController.
func (d *Drills) Freeze(ctx context.Context, f drill.Freeze) (drill.Freeze, error) {
	if f.On && d.RunningID() != "" {
		if _, err := d.Abort(ctx, d.RunningID(), f.Actor, f.Reason); err != nil {
			return drill.Freeze{}, err
		}
	}
	defer d.lock()()
	if d.err != nil {
		return drill.Freeze{}, d.err
	}
	d.freeze = f
	return f, nil
}

// Runs implements api.DrillRunReader.
func (d *Drills) Runs(_ context.Context, q drill.Query) (page []drill.Run, next string, err error) {
	defer d.lock()()
	if d.err != nil {
		return nil, "", d.err
	}
	all := slices.Clone(d.runs)
	slices.Reverse(all)
	all, next, err = pageAfter(all, func(r drill.Run) string { return "at." + r.ID }, q.After, q.Limit, func(r drill.Run) bool {
		return (q.Drill == "" || q.Drill == r.Drill || q.Drill == r.Name) && (len(q.Verdicts) == 0 || slices.Contains(q.Verdicts, r.Verdict)) &&
			(len(q.Triggers) == 0 || slices.Contains(q.Triggers, r.Trigger)) && !r.Started.Before(q.Since) &&
			(q.Until.IsZero() || r.Started.Before(q.Until)) && (!q.Running || r.Status != drill.Ended)
	})
	for n := range all {
		all[n].Series, all[n].Messages, all[n].Reverts = nil, nil, nil
	}
	return all, next, err
}

// Run implements api.DrillRunReader.
func (d *Drills) Run(_ context.Context, id string) (drill.Run, error) {
	defer d.lock()()
	if d.err != nil {
		return drill.Run{}, d.err
	}
	n := d.indexLocked(id)
	if n < 0 {
		return drill.Run{}, drill.ErrNoRun
	}
	return d.runs[n], nil
}

// History implements api.DrillRunReader, for runs that have ended.
func (d *Drills) History(_ context.Context, q drill.HistoryQuery) (h drill.History, err error) {
	defer d.lock()()
	for _, r := range d.runs {
		if r.Status == drill.Ended && (q.Drill == "" || q.Drill == r.Drill || q.Drill == r.Name) {
			addToHistory(&h, r, q)
		}
	}
	return h, d.err
}

// addToHistory takes one more run, which is later than those before, into a history.
func addToHistory(h *drill.History, r drill.Run, q drill.HistoryQuery) {
	n := slices.IndexFunc(h.Latest, func(l drill.Latest) bool { return l.Drill == r.Drill })
	if n < 0 {
		h.Latest, n = append(h.Latest, drill.Latest{Drill: r.Drill}), len(h.Latest)
	}
	l := &h.Latest[n]
	l.Name, l.Run, l.Verdict, l.At = r.Name, r.ID, r.Verdict, r.Started
	if r.Verdict == drill.Passed {
		l.PassedRun, l.PassedAt = r.ID, r.Started
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
		if d.WithMargin == 0 || t.Margin < d.Tightest {
			d.Tightest = t.Margin
		}
		d.WithMargin, d.MarginSum = d.WithMargin+1, d.MarginSum+t.Margin
	}
}
