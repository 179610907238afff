package ui

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"headgate/engine/tsdb"
	"headgate/internal/format"
	"headgate/runbooks/drill"
)

// scenarioEpoch is where scenario time begins in the charts of runs: a chart needs times.
var scenarioEpoch = time.Unix(1<<30, 0).UTC()

// scenarioTimeAt makes a time of scenario seconds.
func scenarioTimeAt(seconds float64) time.Time {
	const most = 10 * 24 * 3600
	return scenarioEpoch.Add(time.Duration(min(max(seconds, -most), most) * float64(time.Second)))
}

// maxRunPoints is how many points a line of a run's chart has, at most.
const maxRunPoints = 180

// minRateStep is over what rates are counted at least: in one second there is one task
// or none.
const minRateStep = 10 * time.Second

// runSeries is the series of a run, with the time that its charts show.
type runSeries struct {
	points   []drill.Point
	from, to time.Time
	step     time.Duration
}

func runSeriesOf(r drill.Run) (s runSeries, ok bool) {
	if len(r.Series) == 0 {
		return s, false
	}
	s = runSeries{points: r.Series, from: scenarioTimeAt(r.Series[0].At - 1), to: scenarioTimeAt(r.Series[len(r.Series)-1].At)}
	if r.Live { // room for what is to come
		s.to = maxTime(s.to, scenarioEpoch.Add(r.Spec.Scenario.Duration))
	}
	s.step = max((s.to.Sub(s.from) / maxRunPoints).Truncate(time.Second), time.Second)
	return s, true
}

func maxTime(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// highest returns the highest value of each step. A value that is none leaves a gap.
func (s runSeries) highest(value func(drill.Point) float64) []tsdb.Point {
	return s.aggregate(s.step, value, math.Max)
}

// perMinute returns how much came in each step, as a rate.
func (s runSeries) perMinute(count func(drill.Point) int) []tsdb.Point {
	step := max(s.step, minRateStep)
	all := s.aggregate(step, func(p drill.Point) float64 { return float64(count(p)) }, func(a, b float64) float64 { return a + b })
	for n := range all {
		all[n].V *= float64(time.Minute) / float64(step)
	}
	return all
}

func (s runSeries) aggregate(step time.Duration, value func(drill.Point) float64, join func(a, b float64) float64) (all []tsdb.Point) {
	for _, p := range s.points {
		v := value(p)
		if math.IsNaN(v) {
			continue
		}
		n := (scenarioTimeAt(p.At).Sub(s.from) - 1) / step
		at := s.from.Add((n + 1) * step)
		if last := len(all) - 1; last >= 0 && all[last].At.Equal(at) {
			all[last].V = join(all[last].V, v)
			continue
		}
		all = append(all, tsdb.Point{At: at, V: v})
	}
	return all
}

// runCharts draws the series of a run, with its limits and the times of its faults.
func runCharts(r drill.Run, f PoolFacts) []chart {
	s, ok := runSeriesOf(r)
	if !ok {
		return nil
	}
	rate := max(s.step, minRateStep)
	all := []chart{
		{ID: "p95", Title: "Turnaround p95", Unit: "s", Step: s.step, Lines: []chartLine{{"p95", s.highest(func(p drill.Point) float64 {
			if p.Turnaround < 0 {
				return math.NaN()
			}
			return p.Turnaround
		})}}, Limit: hypothesisLimit(r, "p95_turnaround")},
		{ID: "age", Title: "Oldest waiting task", Unit: "s", Step: s.step, Lines: []chartLine{{"age", s.highest(func(p drill.Point) float64 { return p.QueueAge })}},
			Limit: refusalLimit(f.MaxAge.Seconds(), "s")},
		{ID: "depth", Title: "Waiting tasks", Unit: "tasks", Step: s.step, Lines: []chartLine{{"waiting", s.highest(func(p drill.Point) float64 { return float64(p.Depth) })}},
			Limit: depthLimit(r, f)},
		{ID: "rate", Title: "Requests", Unit: "/min", Step: rate, Lines: []chartLine{{"arrived", s.perMinute(func(p drill.Point) int { return p.Arrived })},
			{"refused", s.perMinute(func(p drill.Point) int { return p.Refused })}}},
		{ID: "answers", Title: "Answers", Unit: "/min", Step: rate, Lines: []chartLine{{"whole", s.perMinute(func(p drill.Point) int { return p.Served })},
			{"errors", s.perMinute(func(p drill.Point) int { return p.Errors })}}},
		{ID: "flight", Title: "In flight", Unit: "tasks", Step: s.step, Lines: []chartLine{{"in flight", s.highest(func(p drill.Point) float64 { return float64(p.InFlight) })}},
			Limit: workersLimit(r)},
	}
	bands := faultBands(r, s)
	for n := range all {
		c := &all[n]
		c.ID, c.Pool, c.From, c.To, c.Epoch, c.Bands = "run-"+c.ID, format.Truncate(r.Name, shownName), s.from, s.to, scenarioEpoch, bands
	}
	return all
}

// hypothesisLimit is the limit that a hypothesis puts to a measure, nil if none does.
func hypothesisLimit(r drill.Run, measure string) *chartLimit {
	for _, e := range r.Spec.Expect {
		if string(e.Measure) == measure && e.Limit > 0 {
			return &chartLimit{V: e.Limit, Name: "limit for the whole run " + formatMeasure(e.Limit, e.Unit)}
		}
	}
	return nil
}

func refusalLimit(limit float64, unit string) *chartLimit {
	if limit <= 0 {
		return nil
	}
	return &chartLimit{V: limit, Name: "the pool refuses above " + formatMeasure(limit, unit)}
}

// depthLimit is how many may wait: as much more than the pool lets as there were
// more workers is not known here.
func depthLimit(r drill.Run, f PoolFacts) *chartLimit {
	if r.Spec.Scenario.Workers > 0 {
		return nil
	}
	return refusalLimit(float64(f.MaxDepth), "tasks")
}

func workersLimit(r drill.Run) *chartLimit {
	n := r.Spec.Scenario.Workers
	if n <= 0 {
		return nil
	}
	return &chartLimit{V: float64(n), Name: fmt.Sprintf("%d workers", n), Capacity: true}
}

// faultBands are the times in which something was done to the run.
func faultBands(r drill.Run, s runSeries) (all []band) {
	add := func(what string, from, length time.Duration) {
		b := band{From: scenarioEpoch.Add(from), To: scenarioEpoch.Add(from + length), Name: format.Truncate(what, shownLabel), Begins: true}
		if b.From.After(s.to) || b.To.Before(s.from) || len(all) >= maxBands {
			return
		}
		if b.To.After(s.to) {
			b.To = s.to
		}
		all = append(all, b)
	}
	sc := r.Spec.Scenario
	for _, b := range sc.Arrivals.Bursts {
		add("load × "+formatNumber(b.Multiple), b.From, b.To-b.From)
	}
	for _, i := range sc.Faults {
		add(humanize(string(i.Kind)), i.From, i.For)
	}
	for _, i := range sc.Slack {
		add("Slack: "+humanize(string(i.Kind)), i.From, i.For)
	}
	for _, st := range sc.Steps {
		add(humanize(string(st.Kind)), st.At, st.For)
	}
	slices.SortStableFunc(all, func(a, b band) int { return a.From.Compare(b.From) })
	return all
}

// DescribeBands says in words what the bands of a chart are.
func (c chart) DescribeBands() string {
	var said []string
	for _, b := range c.Bands {
		text := b.Name + " from " + c.formatTime(b.From, "") + " to " + c.formatTime(b.To, "")
		if !b.To.After(b.From) {
			text = b.Name + " at " + c.formatTime(b.From, "")
		}
		said = append(said, text)
	}
	return strings.Join(said, "; ")
}

// What is drawn behind the lines of a chart, at most.
const (
	maxBands   = 20
	shownLabel = 30 // characters
)
