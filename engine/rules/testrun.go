package rules

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql/parser"
	"go.yaml.in/yaml/v3"

	"headgate/engine"
	"headgate/engine/tsdb"
	"headgate/internal/strictyaml"
)

// testEpoch is when every test begins: the result must not depend on the day.
var testEpoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// TestResult is what a file of tests came to.
type TestResult struct {
	Tests    int
	Failures Diagnostics // expectations that were not met
}

// Test runs a file of tests. Series go in, one value for each interval; values,
// states and events are compared with what is expected. Counters count from 0, as
// in a process that has just begun; a value left out (_) ends its series until the
// next. An error says that the file is not right; of s only Retention and Runbooks
// count.
func Test(ctx context.Context, path string, s Settings) (TestResult, error) {
	data, err := readFile(path)
	if err != nil {
		return TestResult{}, fmt.Errorf("read the tests: %w", err)
	}
	return TestData(ctx, path, data, s)
}

// TestData runs data as the content of the file called name. Otherwise it is Test.
func TestData(ctx context.Context, name string, data []byte, s Settings) (TestResult, error) {
	l := newDecoder(name)
	root := l.Document(data, "tests of rules")
	if root == nil {
		return TestResult{}, l.Err()
	}
	f := l.readTests(root)
	if err := l.Err(); err != nil {
		return TestResult{}, err
	}
	s.Pools, s.Interval, s.SlowEvery = []Pool{f.pool}, f.interval, max(f.interval, engine.DefaultConfig().SlowEvery)
	all, err := f.loadRules(s)
	if err != nil {
		return TestResult{}, err
	}
	done := TestResult{}
	for _, c := range f.cases {
		if err := l.runTest(ctx, f, c, all, s); err != nil {
			return done, err
		}
		done.Tests++
	}
	done.Failures = l.Diagnostics()
	return done, nil
}

func (f testFile) loadRules(s Settings) ([]engine.Rule, error) {
	if f.rules == "" {
		return BuiltIn(s)
	}
	return Load(f.rules, s)
}

// testRun runs one test.
type testRun struct {
	decoder
	c          testCase
	s          Settings
	pool       string
	rules      []engine.Rule
	db         *tsdb.DB
	machine    *engine.Machine
	slowValues map[engine.Key]engine.Value // of slow rules, between their evaluations
	keys       map[string]engine.Key       // by incident
	events     []string
}

func (l decoder) runTest(ctx context.Context, f testFile, c testCase, all []engine.Rule, s Settings) (err error) {
	b := &testRun{decoder: l, c: c, s: s, pool: f.pool.Name, slowValues: map[engine.Key]engine.Value{}, keys: map[string]engine.Key{}}
	if b.rules, err = c.selectRules(all); err != nil {
		l.Report(strictyaml.Join(c.path, "rules"), err.Error())
		return nil
	}
	config := engine.DefaultConfig()
	config.Interval, config.SlowEvery = s.Interval, s.SlowEvery
	if b.machine, err = engine.NewMachine(config); err != nil {
		return err
	}
	now := testEpoch
	b.db, err = tsdb.Open(tsdb.Options{
		Interval: s.Interval, Retention: s.Retention, Clock: func() time.Time { return now }, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return err
	}
	defer b.db.Close()
	for tick := 0; time.Duration(tick)*s.Interval <= c.duration; tick++ {
		now = testEpoch.Add(time.Duration(tick) * s.Interval)
		if err := b.tick(ctx, now, tick); err != nil {
			return err
		}
	}
	b.compareEvents()
	return nil
}

// selectRules returns the rules that a test is about.
func (c testCase) selectRules(all []engine.Rule) ([]engine.Rule, error) {
	if c.rules == nil {
		return all, nil
	}
	var some []engine.Rule
	for _, name := range c.rules {
		n := len(some)
		for _, r := range all {
			if r.Name == name {
				some = append(some, r)
			}
		}
		if len(some) == n {
			return nil, fmt.Errorf("there is no rule %q", name)
		}
	}
	return some, nil
}

// tick writes the samples of one moment, evaluates, and looks at what is expected.
func (b *testRun) tick(ctx context.Context, now time.Time, tick int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := b.db.Append(ctx, now, b.c.samples(tick)); err != nil {
		return err
	}
	elapsed := b.s.Interval
	if tick == 0 {
		elapsed = 0
	}
	values := b.evaluate(ctx, now)
	b.recordEvents(now, b.machine.Step(now, elapsed, b.rules, values))
	for _, e := range b.c.expect {
		if e.at == now.Sub(testEpoch) {
			b.compare(e, values)
		}
	}
	return nil
}

// samples returns what the series have at a tick.
func (c testCase) samples(tick int) []tsdb.Sample {
	var all []tsdb.Sample
	for _, in := range c.series {
		if tick >= len(in.values) {
			continue
		}
		if v := in.values[tick]; !v.Omitted && !value.IsStaleNaN(v.Value) {
			all = append(all, tsdb.Sample{Labels: in.labels, V: v.Value})
		}
	}
	return all
}

// evaluate asks for the values that are due, as the engine does.
func (b *testRun) evaluate(ctx context.Context, now time.Time) map[engine.Key]engine.Value {
	slowDue := now.Sub(testEpoch)%b.s.SlowEvery < b.s.Interval
	var due []engine.Rule
	for _, r := range b.rules {
		if r.Name != engine.SignalMissing && (!r.Slow || slowDue) {
			due = append(due, r)
		}
	}
	values := b.db.Values(ctx, now, due)
	for _, r := range b.rules {
		if v, ok := values[r.Key()]; ok && r.Slow {
			b.slowValues[r.Key()] = v
		} else if held, ok := b.slowValues[r.Key()]; ok {
			values[r.Key()] = held
		}
	}
	return values
}

// recordEvents writes down what happened, one line for each event.
func (b *testRun) recordEvents(now time.Time, batch engine.Batch) {
	why := map[string]engine.Resolution{}
	for _, i := range batch.Incidents {
		b.keys[i.ID], why[i.ID] = i.Key, i.Resolution
	}
	for _, e := range batch.Events {
		line := fmt.Sprintf("%s %s %s %s", model.Duration(now.Sub(testEpoch)), b.keys[e.Incident].Rule, e.Kind, e.Level)
		if e.Kind == engine.EventResolved {
			line += " " + string(why[e.Incident])
		}
		b.events = append(b.events, line)
	}
}

func (b *testRun) compareEvents() {
	if b.c.events == nil || slices.Equal(b.c.events, b.events) {
		return
	}
	b.Report(strictyaml.Join(b.c.path, "events"), fmt.Sprintf("%s: what happened was [%s], want [%s]", b.c.name, strings.Join(b.events, ", "), strings.Join(b.c.events, ", ")))
}

// compare looks at one expectation.
func (b *testRun) compare(e expectation, values map[engine.Key]engine.Value) {
	status, ok := b.status(e)
	if !ok {
		b.Report(strictyaml.Join(e.path, "rule"), fmt.Sprintf("%s: there is no rule %q in that pool", b.c.name, e.rule))
		return
	}
	got := status.Value
	if v, ok := values[status.Rule.Key()]; ok {
		got = v
	}
	if e.value != nil && !equalValues(*e.value, got, e.tolerance) {
		b.Report(e.path, fmt.Sprintf("%s: at %s the value of %s is %s, want %s", b.c.name, model.Duration(e.at), e.rule, formatValue(got), formatValue(*e.value)))
	}
	if state := stateLabel(status.State); e.state != "" && state != e.state {
		b.Report(e.path, fmt.Sprintf("%s: at %s %s is %s, want %s; its value is %s", b.c.name, model.Duration(e.at), e.rule, state, e.state, formatValue(got)))
	}
}

// status finds the rule that an expectation is about.
func (b *testRun) status(e expectation) (engine.RuleStatus, bool) {
	all := b.machine.Statuses(b.rules)
	for _, pool := range []string{b.pool, ""} {
		if e.pool != nil {
			pool = *e.pool
		}
		for _, s := range all {
			if s.Rule.Name == e.rule && s.Rule.Pool == pool {
				return s, true
			}
		}
	}
	return engine.RuleStatus{}, false
}

func equalValues(want, got engine.Value, tolerance float64) bool {
	if want.Quality != got.Quality {
		return false
	}
	return want.Quality != engine.Valid || math.Abs(want.V-got.V) <= math.Max(tolerance, 1e-9)
}

func formatValue(v engine.Value) string {
	switch v.Quality {
	case engine.Idle:
		return "idle"
	case engine.Missing:
		return "missing"
	default:
		return formatNumber(v.V)
	}
}

func stateLabel(s engine.State) string {
	switch s.Phase {
	case engine.Pending:
		return "pending"
	case engine.Firing:
		return s.Level.String()
	case engine.Recovering:
		return "recovering"
	default:
		return "ok"
	}
}

const (
	maxTests   = 500
	maxSeries  = 500
	maxExpects = 1000
	maxTicks   = 100_000 // evaluations of one test
	maxValues  = 2_000_000
)

// testFile is a file of tests of rules.
type testFile struct {
	pool     Pool
	rules    string // a file; empty: the built-in ones
	interval time.Duration
	cases    []testCase
}

// testCase is one test: series go in, and states and events are expected.
type testCase struct {
	name     string
	path     string
	rules    []string // that are evaluated; nil: all
	duration time.Duration
	series   []inputSeries
	expect   []expectation
	events   []string // nil: not looked at
}

// inputSeries is a series in promtool's notation, one value for each interval.
type inputSeries struct {
	labels labels.Labels
	values []parser.SequenceValue
}

// expectation is what is expected of one rule at one time.
type expectation struct {
	path      string
	at        time.Duration
	rule      string
	pool      *string // nil: the pool of the file if the rule is of one
	state     string  // empty: any
	value     *engine.Value
	tolerance float64
}

// defaultPool is the pool of a file that says nothing about it.
func defaultPool() Pool {
	return Pool{
		Name: "default", Workers: 4, SLO: time.Minute, Objective: 0.95, Window: 30 * 24 * time.Hour,
		MaxQueueAge: 25 * time.Second, DepthMultiple: 2,
	}
}

// readTests reads a file of tests.
func (l decoder) readTests(root *yaml.Node) testFile {
	f := testFile{pool: defaultPool(), interval: time.Second}
	l.Mapping(root, "",
		strictyaml.Key("pool", func(n *yaml.Node, path string) { l.testPool(&f.pool, n, path) }),
		strictyaml.Key("rules", l.Text(&f.rules)), strictyaml.Key("interval", l.duration(&f.interval)),
		strictyaml.Key("tests", l.List(maxTests, func(n *yaml.Node, path string) { f.cases = append(f.cases, l.testCase(n, path)) })),
	)
	if f.rules != "" && !filepath.IsAbs(f.rules) {
		f.rules = filepath.Join(filepath.Dir(l.File()), f.rules)
	}
	if f.interval < time.Second {
		l.Report("interval", "must be at least 1s")
	}
	if err := f.pool.check(); err != nil {
		l.Report("pool", err.Error())
	}
	if len(f.cases) == 0 {
		l.Report("tests", "must have at least one test")
	}
	for i := range f.cases {
		l.checkCase(&f.cases[i], f.interval)
	}
	return f
}

func (l decoder) testPool(p *Pool, n *yaml.Node, path string) {
	workers, depth := float64(p.Workers), float64(p.DepthMultiple)
	l.Mapping(n, path,
		strictyaml.Key("name", l.Text(&p.Name)), strictyaml.Key("workers", l.number(&workers)), strictyaml.Key("slo", l.duration(&p.SLO)),
		strictyaml.Key("objective", l.number(&p.Objective)), strictyaml.Key("window", l.duration(&p.Window)),
		strictyaml.Key("max_queue_age", l.duration(&p.MaxQueueAge)), strictyaml.Key("depth_multiple", l.number(&depth)),
	)
	if workers < 1 || depth < 1 || workers > 1e6 || depth > 1e6 {
		l.Report(path, "workers and depth_multiple must be from 1 to 1000000")
		return
	}
	p.Workers, p.DepthMultiple = int(workers), int(depth)
}

func (l decoder) testCase(n *yaml.Node, path string) testCase {
	c := testCase{path: path}
	values := 0
	l.Mapping(n, path,
		strictyaml.Key("name", l.Text(&c.name)), strictyaml.Key("rules", l.textList(&c.rules, maxRules)), strictyaml.Key("for", l.duration(&c.duration)),
		strictyaml.Key("series", l.List(maxSeries, func(n *yaml.Node, path string) {
			in := l.inputSeries(n, path)
			if values += len(in.values); values > maxValues {
				l.Report(path, fmt.Sprintf("the series have more than %d values", maxValues))
				return
			}
			c.series = append(c.series, in)
		})),
		strictyaml.Key("expect", l.List(maxExpects, func(n *yaml.Node, path string) { c.expect = append(c.expect, l.expectation(n, path)) })),
		strictyaml.Key("events", l.textList(&c.events, maxExpects)),
	)
	return c
}

// repeatPattern finds the counts of a series in promtool's notation: they are checked
// before it is expanded.
var repeatPattern = regexp.MustCompile(`x(\d+)`)

func (l decoder) inputSeries(n *yaml.Node, path string) inputSeries {
	var series, values string
	l.Mapping(n, path, strictyaml.Key("series", l.Text(&series)), strictyaml.Key("values", l.Text(&values)))
	total := 0
	for _, m := range repeatPattern.FindAllStringSubmatch(values, -1) {
		n, err := strconv.Atoi(m[1])
		if total += n; err != nil || n > maxTicks || total > maxTicks {
			l.Report(strictyaml.Join(path, "values"), fmt.Sprintf("must have at most %d values", maxTicks))
			return inputSeries{}
		}
	}
	if len(values) > maxExpr {
		l.Report(strictyaml.Join(path, "values"), fmt.Sprintf("must have at most %d bytes", maxExpr))
		return inputSeries{}
	}
	lbls, seq, err := parser.NewParser(parser.Options{}).ParseSeriesDesc(series + " " + values)
	if err != nil {
		l.Report(path, "is not a series and its values in promtool's notation: "+err.Error())
		return inputSeries{}
	}
	for _, v := range seq {
		if v.Histogram != nil {
			l.Report(strictyaml.Join(path, "values"), "histograms are given by their _bucket, _sum and _count series")
			return inputSeries{}
		}
	}
	return inputSeries{lbls, seq}
}

func (l decoder) expectation(n *yaml.Node, path string) expectation {
	e := expectation{path: path}
	l.Mapping(n, path,
		strictyaml.Key("at", l.duration(&e.at)), strictyaml.Key("rule", l.Text(&e.rule)), strictyaml.Key("state", l.Text(&e.state)),
		strictyaml.Key("pool", func(n *yaml.Node, path string) { e.pool = new(string); l.Text(e.pool)(n, path) }),
		strictyaml.Key("value", func(n *yaml.Node, path string) { e.value = l.value(n, path) }),
		strictyaml.Key("tolerance", l.number(&e.tolerance)),
	)
	switch e.state {
	case "", "ok", "pending", "warn", "page", "recovering":
	default:
		l.Report(strictyaml.Join(path, "state"), "must be ok, pending, warn, page or recovering, is "+strictyaml.Quote(e.state))
	}
	if e.value == nil && e.state == "" {
		l.Report(path, "must have a value or a state")
	}
	return e
}

// value reads a number, idle or missing.
func (l decoder) value(n *yaml.Node, path string) *engine.Value {
	switch n.Value {
	case "idle":
		return &engine.Value{Quality: engine.Idle}
	case "missing":
		return &engine.Value{Quality: engine.Missing}
	}
	v, err := strconv.ParseFloat(n.Value, 64)
	if n.Kind != yaml.ScalarNode || err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		l.Report(path, "must be a number, idle or missing, is "+strictyaml.Display(n))
		return &engine.Value{}
	}
	return &engine.Value{V: v}
}

// checkCase gives a test its length, and refuses what cannot be evaluated.
func (l decoder) checkCase(c *testCase, interval time.Duration) {
	if c.name == "" {
		l.Report(strictyaml.Join(c.path, "name"), "must say what is tested")
	}
	if len(c.expect) == 0 && c.events == nil {
		l.Report(c.path, "must have expect or events")
	}
	for _, e := range c.expect {
		c.duration = max(c.duration, e.at)
		if interval > 0 && e.at%interval != 0 {
			l.Report(strictyaml.Join(e.path, "at"), fmt.Sprintf("must be a multiple of the interval, %s", model.Duration(interval)))
		}
	}
	if interval > 0 && c.duration/interval > maxTicks {
		l.Report(strictyaml.Join(c.path, "for"), fmt.Sprintf("is longer than %d intervals", maxTicks))
	}
}
