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
	"headgate/runbooks/control"
)

const (
	chartTimeout  = 3 * time.Second // for all charts of a pool
	chartCacheTTL = 4 * time.Second // for so long charts are shown again as they are
	maxCharts     = 64              // pools and windows that are remembered
)

// chartCache makes charts of samples. Many viewers cost no more than one: what was
// made a moment ago is shown again, and one pool is read at a time.
type chartCache struct {
	samples SampleReader
	log     *slog.Logger

	mu      sync.Mutex
	entries map[chartKey]cachedCharts
}

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
	limit           func(control.PoolStatus, PoolFacts) (float64, string) // 0: none
}

func chartPlans() []chartPlan {
	return []chartPlan{
		{"p95", "Turnaround p95", "s",
			[]chartQuery{{"p95", `histogram_quantile(0.95, rate(headgate_turnaround_seconds_bucket{pool="$pool"}[$rate]))`}},
			func(s control.PoolStatus, _ PoolFacts) (float64, string) {
				return s.SLOS, "promise " + formatSeconds(s.SLOS)
			}},
		{"age", "Oldest waiting task", "s",
			[]chartQuery{{"age", `max_over_time(headgate_queue_oldest_age_seconds{pool="$pool"}[$step])`}},
			func(_ control.PoolStatus, f PoolFacts) (float64, string) {
				return f.MaxAge.Seconds(), "refuses above " + formatSeconds(f.MaxAge.Seconds())
			}},
		{"depth", "Waiting tasks", "tasks",
			[]chartQuery{{"waiting", `max_over_time(headgate_queue_depth{pool="$pool"}[$step])`}},
			func(_ control.PoolStatus, f PoolFacts) (float64, string) {
				return float64(f.MaxDepth), fmt.Sprintf("refuses above %d", f.MaxDepth)
			}},
		{"rate", "Requests", "/min",
			[]chartQuery{{"arrived", `60 * rate(headgate_arrivals_total{pool="$pool"}[$rate])`},
				{"refused", `60 * sum(rate(headgate_refusals_total{pool="$pool"}[$rate]))`}}, nil},
		{"use", "Envelope use", "ratio",
			[]chartQuery{{"use", `max_over_time(headgate_envelope_use_ratio{pool="$pool"}[$step])`}},
			func(control.PoolStatus, PoolFacts) (float64, string) { return 1, "full" }},
		{"flight", "In flight", "tasks",
			[]chartQuery{{"in flight", `max_over_time(headgate_in_flight{pool="$pool"}[$step])`}},
			func(s control.PoolStatus, _ PoolFacts) (float64, string) {
				return float64(s.Workers), fmt.Sprintf("%d workers", s.Workers)
			}},
	}
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
		all[i].Bands = bands
		if plan.limit == nil {
			continue
		}
		if v, name := plan.limit(s, f); v > 0 {
			all[i].Limit = &chartLimit{V: v, Name: name, Capacity: plan.id == "flight"}
		}
	}
	return all
}

// reasons returns how often work was refused, by reason, most often first.
func (c *chartCache) reasons(ctx context.Context, now time.Time, pool string, w windowView) []reason {
	return c.load(ctx, now, pool, w).reasons
}

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
		if n := lastCount(l); n > 0 {
			all = append(all, reason{Name: l.Labels["reason"], Count: n})
		}
	}
	slices.SortFunc(all, func(a, b reason) int { return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Name, b.Name)) })
	return all
}

func lastCount(l tsdb.Series) int {
	if len(l.Points) == 0 {
		return 0
	}
	return int(math.Round(l.Points[len(l.Points)-1].V))
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

// windowView is the time that charts show.
type windowView struct {
	Name    string // in the address
	Long    string // for people
	Length  time.Duration
	Step    time.Duration
	Choices []windowChoice
}

type windowChoice struct {
	Name, Long string
	Current    bool
}

// pointsPerLine is how many points a line of a chart has, at most one more.
const pointsPerLine = 120

// windows are those that can be chosen; the first one counts if none is.
var windows = []struct {
	name, long string
	length     time.Duration
}{
	{"1h", "1 hour", time.Hour}, {"15m", "15 minutes", 15 * time.Minute}, {"6h", "6 hours", 6 * time.Hour}, {"24h", "24 hours", 24 * time.Hour},
}

func windowOf(r *http.Request) windowView {
	asked := r.URL.Query().Get("last")
	chosen := 0
	for i, w := range windows {
		if w.name == asked {
			chosen = i
		}
	}
	v := windowView{Name: windows[chosen].name, Long: windows[chosen].long, Length: windows[chosen].length}
	v.Step = v.Length / pointsPerLine
	for _, i := range []int{1, 0, 2, 3} {
		v.Choices = append(v.Choices, windowChoice{windows[i].name, windows[i].long, i == chosen})
	}
	return v
}
