package ui

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"headgate/engine/tsdb"
	"headgate/internal/format"
	"headgate/runbooks/control"
	"headgate/runbooks/drill"
	"headgate/web/api"
)

const (
	chartTimeout  = 3 * time.Second // for all charts of a pool
	chartCacheTTL = 4 * time.Second // for so long charts are shown again as they are
	maxCharts     = 64              // pools and windows that are remembered
)

// chartCache makes charts of samples. Many viewers cost no more than one: what was
// made a moment ago is shown again, and one pool is read at a time.
type chartCache struct {
	samples api.SampleReader
	log     *slog.Logger

	mu      sync.Mutex
	entries map[chartKey]cachedCharts
}

// chartKey names what is cached: the charts of a pool over one window.
type chartKey struct {
	pool   string
	window time.Duration
}

type cachedCharts struct {
	at      time.Time
	charts  []chart
	reasons []reason
}

// reason is how often work was refused for it.
type reason struct {
	Name  string
	Count int
}

// chartQuery is one line of a chart as PromQL, $pool and $step not filled in.
type chartQuery struct{ name, expr string }

// chartPlan is what charts a pool has.
type chartPlan struct {
	id, title, unit string
	lines           []chartQuery
	limit           func(control.PoolStatus, PoolFacts) *chartLimit // may be nil
}

// chartPlans are the charts of a pool, in the order of the page.
func chartPlans() []chartPlan {
	return []chartPlan{
		{
			"p95", "Turnaround p95", "s",
			[]chartQuery{{"p95", `histogram_quantile(0.95, rate(headgate_turnaround_seconds_bucket{pool="$pool"}[$rate]))`}},
			func(s control.PoolStatus, _ PoolFacts) *chartLimit {
				return newLimit(s.SLOS, "promise "+formatSeconds(s.SLOS))
			},
		},
		{
			"age", "Oldest waiting task", "s",
			[]chartQuery{{"age", `max_over_time(headgate_queue_oldest_age_seconds{pool="$pool"}[$step])`}},
			func(_ control.PoolStatus, f PoolFacts) *chartLimit {
				return newLimit(f.MaxAge.Seconds(), "refuses above "+formatSeconds(f.MaxAge))
			},
		},
		{
			"depth", "Waiting tasks", "tasks",
			[]chartQuery{{"waiting", `max_over_time(headgate_queue_depth{pool="$pool"}[$step])`}},
			func(_ control.PoolStatus, f PoolFacts) *chartLimit {
				return newLimit(float64(f.MaxDepth), fmt.Sprintf("refuses above %d", f.MaxDepth))
			},
		},
		{
			"rate", "Requests", "/min",
			[]chartQuery{
				{"arrived", `60 * rate(headgate_arrivals_total{pool="$pool"}[$rate])`},
				{"refused", `60 * sum(rate(headgate_refusals_total{pool="$pool"}[$rate]))`},
			},
			func(control.PoolStatus, PoolFacts) *chartLimit { return nil },
		},
		{
			"use", "Envelope use", "ratio",
			[]chartQuery{{"use", `max_over_time(headgate_envelope_use_ratio{pool="$pool"}[$step])`}},
			func(control.PoolStatus, PoolFacts) *chartLimit { return newLimit(1, "full") },
		},
		{
			"flight", "In flight", "tasks",
			[]chartQuery{{"in flight", `max_over_time(headgate_in_flight{pool="$pool"}[$step])`}},
			func(s control.PoolStatus, _ PoolFacts) *chartLimit { return workersLimit(s.Workers) },
		},
	}
}

// newLimit is a limit above 0, or none.
func newLimit(v float64, name string) *chartLimit {
	if v <= 0 {
		return nil
	}
	return &chartLimit{V: v, Name: name}
}

// workersLimit is the number of tasks that can be in flight.
func workersLimit(n int) *chartLimit {
	l := newLimit(float64(n), fmt.Sprintf("%d workers", n))
	if l != nil {
		l.Capacity = true
	}
	return l
}

// expandQuery puts a pool and a step into an expression. The names of pools need no
// quoting: settings allow letters, digits and dashes.
func expandQuery(expr, pool string, step time.Duration) string {
	rate := max(step*4, time.Minute)
	return strings.NewReplacer("$pool", pool, "$step", promDuration(step), "$rate", promDuration(rate)).Replace(expr)
}

// promDuration is a length of time as PromQL has it.
func promDuration(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) + "ms" }

// charts returns the charts of a pool.
func (c *chartCache) charts(ctx context.Context, now time.Time, s control.PoolStatus, f PoolFacts, w windowView, changes func() []control.ModeChange) []chart {
	made := c.load(ctx, now, s.Name, w)
	all := slices.Clone(made.charts)
	bands := modeBands(changes(), s, now.Add(-w.Length), now)
	for i, plan := range chartPlans() {
		if i >= len(all) {
			break
		}
		all[i].Bands, all[i].Limit = bands, plan.limit(s, f)
	}
	return all
}

// reasons returns how often work was refused, by reason, most often first.
func (c *chartCache) reasons(ctx context.Context, now time.Time, pool string, w windowView) []reason {
	return c.load(ctx, now, pool, w).reasons
}

// load holds the lock while it reads, so that several viewers cause one read.
func (c *chartCache) load(ctx context.Context, now time.Time, pool string, w windowView) cachedCharts {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := chartKey{pool, w.Length}
	if m, ok := c.entries[key]; ok && now.Sub(m.at) < chartCacheTTL {
		return m
	}
	ctx, cancel := context.WithTimeout(ctx, chartTimeout)
	defer cancel()
	m := cachedCharts{at: now, reasons: c.readReasons(ctx, now, pool, w)}
	to := now.Truncate(w.Step)
	for _, plan := range chartPlans() {
		m.charts = append(m.charts, c.readChart(ctx, plan, pool, to, w))
	}
	if ctx.Err() != nil {
		return m // it may not be whole: the next one reads again
	}
	if len(c.entries) >= maxCharts || c.entries == nil {
		c.entries = make(map[chartKey]cachedCharts)
	}
	c.entries[key] = m
	return m
}

// readChart reads the lines of a chart. A line that cannot be read is empty: the other ones are shown.
func (c *chartCache) readChart(ctx context.Context, plan chartPlan, pool string, to time.Time, w windowView) chart {
	ch := chart{ID: "chart-" + pool + "-" + plan.id, Pool: pool, Title: plan.title, Unit: plan.unit, From: to.Add(-w.Length), To: to, Step: w.Step}
	for _, l := range plan.lines {
		line := chartLine{Name: l.name}
		found, err := c.samples.QueryRange(ctx, expandQuery(l.expr, pool, w.Step), ch.From, to, w.Step)
		if err != nil {
			c.log.Debug("a chart cannot be read", "pool", pool, "chart", plan.id, "error", err)
		}
		if len(found) > 0 {
			line.Points = found[0].Points
		}
		ch.Lines = append(ch.Lines, line)
	}
	return ch
}

func (c *chartCache) readReasons(ctx context.Context, now time.Time, pool string, w windowView) []reason {
	const expr = `sum by (reason) (increase(headgate_refusals_total{pool="$pool"}[$window]))`
	found, err := c.samples.QueryRange(ctx, strings.NewReplacer("$pool", pool, "$window", promDuration(w.Length)).Replace(expr), now, now, time.Second)
	if err != nil {
		c.log.Debug("refusals cannot be read", "pool", pool, "error", err)
	}
	var all []reason
	for _, l := range found {
		if len(l.Points) == 0 {
			continue
		}
		if n := int(math.Round(l.Points[len(l.Points)-1].V)); n > 0 {
			all = append(all, reason{Name: l.Labels["reason"], Count: n})
		}
	}
	slices.SortFunc(all, func(a, b reason) int { return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Name, b.Name)) })
	return all
}

// modeBands returns the modes that a pool was in, by its changes, oldest first.
func modeBands(changes []control.ModeChange, s control.PoolStatus, from, to time.Time) []band {
	mode := s.Mode
	if len(changes) > 0 {
		mode = changes[0].From.String()
	}
	all := []band{{From: from, To: to, Mode: mode}}
	for _, c := range changes {
		at := c.At
		if at.Before(from) || at.After(to) {
			continue
		}
		all[len(all)-1].To = at
		all = append(all, band{From: at, To: to, Mode: c.To.String(), Begins: c.Action != control.InitialMode})
	}
	return all
}

// window is a time that charts can show.
type window struct {
	Name    string // in the address
	Long    string // for people
	Length  time.Duration
	Current bool // it is shown
}

// windowView is the time that charts show.
type windowView struct {
	window
	Step    time.Duration
	Choices []window
}

// pointsPerLine is how many points a line of a chart has, at most one more.
const pointsPerLine = 120

// windows are those that can be chosen.
func windows() []window {
	return []window{
		{Name: "15m", Long: "15 minutes", Length: 15 * time.Minute}, {Name: "1h", Long: "1 hour", Length: time.Hour},
		{Name: "6h", Long: "6 hours", Length: 6 * time.Hour}, {Name: "24h", Long: "24 hours", Length: 24 * time.Hour},
	}
}

// windowOf returns the window of a request: an hour unless it asks for another.
func windowOf(r *http.Request) windowView {
	v := windowView{Choices: windows()}
	chosen := slices.IndexFunc(v.Choices, func(w window) bool { return w.Name == r.URL.Query().Get("last") })
	if chosen < 0 {
		chosen = 1
	}
	v.Choices[chosen].Current = true
	v.window = v.Choices[chosen]
	v.Step = v.Length / pointsPerLine
	return v
}

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
		s.to = slices.MaxFunc([]time.Time{s.to, scenarioEpoch.Add(r.Spec.Scenario.Duration)}, time.Time.Compare)
	}
	s.step = max((s.to.Sub(s.from) / maxRunPoints).Truncate(time.Second), time.Second)
	return s, true
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

// aggregate joins the values of each step. The point of a step stands at its end.
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
	p95 := func(p drill.Point) float64 {
		if p.Turnaround < 0 { // nothing ended
			return math.NaN()
		}
		return p.Turnaround
	}
	depth := newLimit(float64(f.MaxDepth), "the pool refuses above "+formatMeasure(f.MaxDepth, "tasks"))
	if r.Spec.Scenario.Workers > 0 { // the limit of a run with its own number of workers is not known here
		depth = nil
	}
	all := []chart{
		{
			ID: "p95", Title: "Turnaround p95", Unit: "s", Step: s.step, Limit: hypothesisLimit(r, drill.P95),
			Lines: []chartLine{{"p95", s.highest(p95)}},
		},
		{
			ID: "age", Title: "Oldest waiting task", Unit: "s", Step: s.step,
			Limit: newLimit(f.MaxAge.Seconds(), "the pool refuses above "+formatMeasure(f.MaxAge, "s")),
			Lines: []chartLine{{"age", s.highest(func(p drill.Point) float64 { return p.QueueAge })}},
		},
		{
			ID: "depth", Title: "Waiting tasks", Unit: "tasks", Step: s.step, Limit: depth,
			Lines: []chartLine{{"waiting", s.highest(func(p drill.Point) float64 { return float64(p.Depth) })}},
		},
		{
			ID: "rate", Title: "Requests", Unit: "/min", Step: rate,
			Lines: []chartLine{
				{"arrived", s.perMinute(func(p drill.Point) int { return p.Arrived })},
				{"refused", s.perMinute(func(p drill.Point) int { return p.Refused })},
			},
		},
		{
			ID: "answers", Title: "Answers", Unit: "/min", Step: rate,
			Lines: []chartLine{
				{"whole", s.perMinute(func(p drill.Point) int { return p.Served })},
				{"errors", s.perMinute(func(p drill.Point) int { return p.Errors })},
			},
		},
		{
			ID: "flight", Title: "In flight", Unit: "tasks", Step: s.step, Limit: workersLimit(r.Spec.Scenario.Workers),
			Lines: []chartLine{{"in flight", s.highest(func(p drill.Point) float64 { return float64(p.InFlight) })}},
		},
	}
	bands := faultBands(r, s)
	for n := range all {
		c := &all[n]
		c.ID, c.Pool, c.From, c.To, c.Epoch, c.Bands = "run-"+c.ID, format.Truncate(r.Name, shownName), s.from, s.to, scenarioEpoch, bands
	}
	return all
}

// hypothesisLimit is the limit that a hypothesis sets for a measure, nil if none does.
func hypothesisLimit(r drill.Run, measure drill.Measure) *chartLimit {
	n := slices.IndexFunc(r.Spec.Expect, func(e drill.Expectation) bool { return e.Measure == measure && e.Limit > 0 })
	if n < 0 {
		return nil
	}
	e := r.Spec.Expect[n]
	return newLimit(e.Limit, "limit for the whole run "+formatMeasure(e.Limit, e.Unit))
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
