package ui

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"slices"
	"time"

	"headgate/internal/format"
	"headgate/runbooks/control"
	"headgate/web/api"
)

const (
	refreshSeconds = 5
	factsTimeout   = 2 * time.Second
	chartedPools   = 3 // with more pools the overview shows no charts; each pool's page does
)

// overviewView is what the overview shows.
type overviewView struct {
	Version   string
	Now       time.Time
	Flash     string // what was done just now; empty: nothing
	Pools     []poolView
	Incidents []api.Incident
	Drills    *drillsView // nil: there are none
	All       bulkActions
	Window    windowView
}

// bulkActions says what can be ordered of all pools together.
type bulkActions struct{ Several, CanRollBack, CanRestore bool }

// poolView is how one pool stands.
type poolView struct {
	control.PoolStatus
	Label      modeLabel
	State      gateState
	Gauges     []gauge
	Reasons    []reason
	Arrivals   int // in the last minute
	Charts     []chart
	ShowCharts bool // false: charts are on the pool's own page
	HasSamples bool
	Since      time.Duration // in the mode
	Single     bool          // the page is about this pool only
}

// Unrecorded says whether a restart would forget the mode.
func (p poolView) Unrecorded() bool { return p.ModeRecorded != nil && !*p.ModeRecorded }

func (p *Pages) overview(w http.ResponseWriter, r *http.Request, v viewer) error {
	status := p.admin.Status()
	view := overviewView{Version: status.Version, Now: time.Now(), Incidents: status.IncidentsOpen, Window: windowOf(r)}
	view.Flash = flashText(r.URL.Query().Get("done"), status.Pools)
	for i := range status.Pools {
		view.Pools = append(view.Pools, p.poolView(r.Context(), status.Pools[i], view.Now, view.Window, len(status.Pools) <= chartedPools))
		mode := status.Pools[i].Mode
		view.All.CanRollBack = view.All.CanRollBack || mode != "passthrough"
		view.All.CanRestore = view.All.CanRestore || mode != "enforce"
	}
	view.All.Several = len(view.Pools) > 1
	view.Drills = p.drills(r.Context(), view.Now)
	return p.show(w, r, v, http.StatusOK, page{Title: "Overview", NavPath: "/", Refresh: refreshSeconds, Body: view}, "overview")
}

func (p *Pages) pool(w http.ResponseWriter, r *http.Request, v viewer) error {
	status := p.admin.Status()
	name := r.PathValue("pool")
	n := slices.IndexFunc(status.Pools, func(s control.PoolStatus) bool { return s.Name == name })
	if n < 0 {
		return errorPage{http.StatusNotFound, "There is no such pool", "It may have been removed from the settings.", "Choose one on the overview."}
	}
	view := overviewView{
		Version: status.Version, Now: time.Now(), Window: windowOf(r),
		Incidents: slices.DeleteFunc(status.IncidentsOpen, func(i api.Incident) bool { return i.Pool != name }),
	}
	view.Pools = []poolView{p.poolView(r.Context(), status.Pools[n], view.Now, view.Window, true)}
	view.Pools[0].Single = true
	return p.show(w, r, v, http.StatusOK, page{Title: "Pool " + name, NavPath: "/", Refresh: refreshSeconds, Body: view}, "pool")
}

// poolView bounds the time for the facts, which come from the database: the rest of the page must not wait for it.
func (p *Pages) poolView(ctx context.Context, s control.PoolStatus, now time.Time, window windowView, charted bool) poolView {
	limited, cancel := context.WithTimeout(ctx, factsTimeout)
	defer cancel()
	facts := p.facts.of(limited, now, s.Name)
	view := poolView{
		PoolStatus: s, Label: modeLabelOf(s.Mode), State: gateStateOf(s), Gauges: gaugesOf(s, facts),
		Arrivals: s.Admitted1m + s.Refused1m, ShowCharts: charted, HasSamples: p.charts != nil,
	}
	if !s.ModeSince.IsZero() {
		view.Since = max(now.Sub(s.ModeSince), 0)
	}
	if p.charts == nil {
		return view
	}
	view.Reasons = p.charts.reasons(ctx, now, s.Name, window)
	if charted {
		view.Charts = p.charts.charts(ctx, now, s, facts, window, func() []control.ModeChange { return p.modeChanges(ctx, s.Name, now.Add(-window.Length)) })
	}
	return view
}

// modeChanges returns the changes of mode since then, oldest first.
func (p *Pages) modeChanges(ctx context.Context, pool string, since time.Time) []control.ModeChange {
	const most = 50
	list, err := p.admin.Audit(ctx, control.AuditQuery{Pool: pool, Kind: control.KindMode, Since: since, Limit: most})
	if err != nil {
		return nil // charts are there without them
	}
	var all []control.ModeChange
	for i := len(list.Items) - 1; i >= 0; i-- {
		if c := list.Items[i].Change; c != nil && c.From != c.To {
			all = append(all, *c)
		}
	}
	return all
}

// gateState says whether the gate holds.
type gateState struct{ Class, Text, Why string }

// gateStateOf judges a pool by its most important condition: the first that applies counts.
func gateStateOf(s control.PoolStatus) gateState {
	arrivals := s.Admitted1m + s.Refused1m
	late := s.P95TurnaroundS != nil && *s.P95TurnaroundS > s.SLOS
	switch {
	case s.Draining:
		return gateState{"bad", "Shutting down", "No new tasks are accepted; running tasks finish."}
	case s.Paused != nil:
		return gateState{"bad", "Paused", "No permits are granted: arriving tasks are queued or refused by the rules."}
	case s.Mode == "passthrough":
		return gateState{"bad", "Not protecting", "Everything is admitted; nothing keeps the queue short."}
	case s.Mode == "observe":
		return gateState{"warn", "Observing only", "What would be refused is counted, and admitted."}
	case late:
		return gateState{"bad", "Not holding", fmt.Sprintf("Of the tasks that ended in the last minute, one in twenty took %s or more; the promise is %s.",
			formatSeconds(s.P95TurnaroundS), formatSeconds(s.SLOS))}
	case arrivals == 0 && s.InFlight == 0:
		return gateState{"idle", "Idle", "Nothing has arrived in the last minute."}
	case s.Refused1m > 0:
		return gateState{"ok", "Holding by refusing work", fmt.Sprintf("%d of %d requests of the last minute were refused, so that the others are served in time.",
			s.Refused1m, arrivals)}
	default:
		return gateState{"ok", "Holding", "Nothing was refused in the last minute, and what was served was in time."}
	}
}

// flashText says what an action has just done, by the present state of pools.
func flashText(done string, pools []control.PoolStatus) string {
	for _, p := range pools {
		switch done {
		case "mode:" + p.Name:
			return fmt.Sprintf("Pool %s is now in %s.", p.Name, modeLabelOf(p.Mode).Text)
		case "pause:" + p.Name:
			return fmt.Sprintf("Pool %s is paused.", p.Name)
		case "resume:" + p.Name:
			return fmt.Sprintf("Pool %s grants permits again.", p.Name)
		}
	}
	if done == "mode:" || done == "pause:" || done == "resume:" {
		return "Done; the state of every pool is below."
	}
	return ""
}

// gauge is a number against its limit.
type gauge struct {
	ID    string
	Name  string
	Value string
	Limit string // in words; empty: there is none
	Class string // ok, warn, bad or idle
	Note  string // what the class means, in words; empty for ok
	Scale *gaugeScale
}

// gaugeScale is the picture of a gauge, from 0 to gaugeWidth. It is for the eye only: the number stands beside it.
type gaugeScale struct {
	Class string
	Fill  float64
	Tick  float64 // at the limit; gaugeWidth: at the end, where none is drawn
}

const gaugeWidth = 200

// newScale is the picture of a value on a scale from 0 to most, nil if there is none.
func newScale(v, limit, most float64, class string) *gaugeScale {
	if most <= 0 {
		return nil
	}
	at := func(v float64) float64 { return math.Round(min(max(v/most, 0), 1)*gaugeWidth*10) / 10 }
	return &gaugeScale{class, at(v), at(limit)}
}

// gaugesOf shows a pool's numbers against their limits.
func gaugesOf(s control.PoolStatus, f PoolFacts) []gauge {
	age, depth := f.MaxAge.Seconds(), float64(f.MaxDepth)
	all := []gauge{
		newGauge("p95", "Turnaround p95", s.P95TurnaroundS, "s", s.SLOS, "promise"),
		newGauge("age", "Oldest waiting", &s.QueueOldestAgeS, "s", age, "refuses above"),
		newGauge("depth", "Waiting", new(float64(s.QueueDepth)), "", depth, "refuses above"),
		newGauge("use", "Envelope use", s.EnvelopeUse, "ratio", 1, "full at"),
		newGauge("flight", "In flight", new(float64(s.InFlight)), "", 0, ""),
		budgetGauge(f),
	}
	all[4].Limit = fmt.Sprintf("of %d workers", s.Workers)
	all[4].Scale = newScale(float64(s.InFlight), float64(s.Workers), float64(s.Workers), "plain")
	for i := range all {
		all[i].ID = s.Name + "-" + all[i].ID
	}
	return all
}

// newGauge draws a value up to 1.25 times its limit; 0 is no limit.
func newGauge(id, name string, v *float64, unit string, limit float64, what string) gauge {
	b := gauge{ID: id, Name: name, Value: formatValue(v, unit), Class: "idle"}
	if v == nil {
		b.Note = "not known: nothing was served yet, or not lately"
	}
	if limit <= 0 {
		return b
	}
	b.Limit = what + " " + formatValue(limit, unit)
	if v == nil {
		b.Scale = newScale(0, limit, limit*1.25, "idle")
		return b
	}
	switch share := *v / limit; {
	case share >= 1:
		b.Class, b.Note = "bad", "at or over the limit"
	case share >= 0.75:
		b.Class, b.Note = "warn", "near the limit"
	default:
		b.Class = "ok"
	}
	b.Scale = newScale(*v, limit, max(limit*1.25, *v), b.Class)
	return b
}

// budgetGauge shows how much of the error budget is left.
func budgetGauge(f PoolFacts) gauge {
	b := gauge{ID: "budget", Name: "Error budget left", Value: dash, Class: "idle"}
	if f.Window > 0 {
		b.Limit = fmt.Sprintf("of %s, objective %s", format.Text.Duration(f.Window), format.Text.Percent(f.Objective))
	}
	allowed := float64(f.Good+f.Bad) * (1 - f.Objective)
	switch {
	case !f.Counted:
		b.Note = "cannot be read just now"
		return b
	case f.Good+f.Bad == 0:
		b.Value, b.Note = "100 %", "no task has counted yet"
		b.Scale = newScale(1, 1, 1, "plain")
		return b
	case allowed <= 0:
		return b
	}
	left := 1 - float64(f.Bad)/allowed
	b.Value = format.Text.Percent(left)
	switch {
	case left <= 0:
		b.Class, b.Note = "bad", "used up"
	case left < 0.25:
		b.Class, b.Note = "warn", "nearly used up"
	default:
		b.Class = "ok"
	}
	b.Scale = newScale(max(left, 0), 1, 1, b.Class)
	return b
}
