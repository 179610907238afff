package rules

import (
	"context"
	"errors"
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

	"headgate/engine"
	"headgate/engine/tsdb"
	"headgate/internal/strictyaml"
)

// testEpoch is the start of every test: the result must not depend on the day.
var testEpoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// TestResult is the result of a file of tests.
type TestResult struct {
	Tests    int
	Failures strictyaml.Diagnostics // expectations that were not met
}

// Test runs a file of tests. Series go in, one value for each interval; values, states and events are compared with the
// expected ones. Counters count from 0, as in a process that has just started; an omitted value (_) ends its series
// until the next value. An error means that the file is invalid. Of s, only Retention and Runbooks are used.
func Test(ctx context.Context, path string, s Settings) (TestResult, error) {
	data, err := strictyaml.ReadFile(path)
	if err != nil {
		return TestResult{}, fmt.Errorf("read the tests: %w", err)
	}
	return TestData(ctx, path, data, s)
}

// TestData runs data as the content of the file called name. Otherwise it is Test.
func TestData(ctx context.Context, name string, data []byte, s Settings) (TestResult, error) {
	l := strictyaml.NewDecoder(name)
	f := readTests(l, data)
	if err := l.Err(); err != nil {
		return TestResult{}, err
	}
	s.Pools, s.Interval, s.SlowEvery = []Pool{f.Pool}, f.Interval, max(f.Interval, engine.DefaultConfig().SlowEvery)
	all, err := f.loadRules(s)
	if err != nil {
		return TestResult{}, err
	}
	done := TestResult{}
	for _, c := range f.Tests {
		if err := runTest(ctx, l, f, c, all, s); err != nil {
			return done, err
		}
		done.Tests++
	}
	done.Failures = l.Diagnostics()
	return done, nil
}

func (f testFile) loadRules(s Settings) ([]engine.Rule, error) {
	if f.Rules == "" {
		return BuiltIn(s)
	}
	return Load(f.Rules, s)
}

// testRun is one test in progress.
type testRun struct {
	*strictyaml.Decoder
	c          testCase
	s          Settings
	pool       string
	rules      []engine.Rule
	db         *tsdb.DB
	machine    *engine.Machine
	slowValues map[engine.Key]engine.Value // of slow rules, between their evaluations
	events     []string
}

func runTest(ctx context.Context, l *strictyaml.Decoder, f testFile, c testCase, all []engine.Rule, s Settings) (err error) {
	b := &testRun{Decoder: l, c: c, s: s, pool: f.Pool.Name, slowValues: map[engine.Key]engine.Value{}}
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
		Interval: s.Interval, Retention: s.Retention, Clock: func() time.Time { return now },
		Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return err
	}
	defer b.db.Close()
	for tick := 0; time.Duration(tick)*s.Interval <= c.For; tick++ {
		now = testEpoch.Add(time.Duration(tick) * s.Interval)
		if err := b.tick(ctx, now, tick); err != nil {
			return err
		}
	}
	b.compareEvents()
	return nil
}

// selectRules returns the rules that a test evaluates.
func (c testCase) selectRules(all []engine.Rule) ([]engine.Rule, error) {
	if c.Rules == nil {
		return all, nil
	}
	for _, name := range *c.Rules {
		if !slices.ContainsFunc(all, func(r engine.Rule) bool { return r.Name == name }) {
			return nil, fmt.Errorf("there is no rule %q", name)
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(r engine.Rule) bool { return !slices.Contains(*c.Rules, r.Name) }), nil
}

// tick appends the samples of one interval, evaluates, and compares with the expectations.
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
	for _, e := range b.c.Expect {
		if e.At == now.Sub(testEpoch) {
			b.compare(e, values)
		}
	}
	return nil
}

// samples returns the samples of the series at a tick.
func (c testCase) samples(tick int) []tsdb.Sample {
	var all []tsdb.Sample
	for _, in := range c.Series {
		if tick >= len(in.values) {
			continue
		}
		if v := in.values[tick]; !v.Omitted && !value.IsStaleNaN(v.Value) {
			all = append(all, tsdb.Sample{Labels: in.labels, V: v.Value})
		}
	}
	return all
}

// evaluate queries the values that are due. All slow rules are due at once; the engine spreads them.
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

// recordEvents records one line for each event.
func (b *testRun) recordEvents(now time.Time, batch engine.Batch) {
	incidents := map[string]engine.Incident{} // an event changes its incident, so each is in the batch
	for _, i := range batch.Incidents {
		incidents[i.ID] = i
	}
	for _, e := range batch.Events {
		inc := incidents[e.Incident]
		line := fmt.Sprintf("%s %s %s %s", model.Duration(now.Sub(testEpoch)), inc.Rule, e.Kind, e.Level)
		if e.Kind == engine.EventResolved {
			line += " " + string(inc.Resolution)
		}
		b.events = append(b.events, line)
	}
}

func (b *testRun) compareEvents() {
	if b.c.Events == nil || slices.Equal(*b.c.Events, b.events) {
		return
	}
	b.Report(strictyaml.Join(b.c.path, "events"), fmt.Sprintf("%s: events are [%s], want [%s]", b.c.Name,
		strings.Join(b.events, ", "), strings.Join(*b.c.Events, ", ")))
}

// compare checks one expectation.
func (b *testRun) compare(e expectation, values map[engine.Key]engine.Value) {
	status, ok := b.status(e)
	if !ok {
		b.Report(strictyaml.Join(e.path, "rule"), fmt.Sprintf("%s: there is no rule %q in that pool", b.c.Name, e.Rule))
		return
	}
	got := status.Value
	if v, ok := values[status.Rule.Key()]; ok {
		got = v
	}
	if e.Value != nil && !equalValues(engine.Value(*e.Value), got, e.Tolerance) {
		b.Report(e.path, fmt.Sprintf("%s: at %s the value of %s is %s, want %s", b.c.Name, model.Duration(e.At),
			e.Rule, formatValue(got), formatValue(engine.Value(*e.Value))))
	}
	if state := status.State.Label(); e.State != "" && state != e.State {
		b.Report(e.path, fmt.Sprintf("%s: at %s %s is %s, want %s; its value is %s", b.c.Name, model.Duration(e.At),
			e.Rule, state, e.State, formatValue(got)))
	}
}

// status finds the rule that an expectation is about.
func (b *testRun) status(e expectation) (engine.RuleStatus, bool) {
	all := b.machine.Statuses(b.rules)
	for _, pool := range []string{b.pool, ""} {
		if e.Pool != nil {
			pool = *e.Pool
		}
		for _, s := range all {
			if s.Rule.Name == e.Rule && s.Rule.Pool == pool {
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

const (
	maxTicks  = 100_000 // evaluations of one test
	maxValues = 2_000_000
)

// testFile is a file of tests of rules.
type testFile struct {
	Pool     Pool          `yaml:"pool"`
	Rules    string        `yaml:"rules"` // a file; empty: the built-in ones
	Interval time.Duration `yaml:"interval"`
	Tests    []testCase    `yaml:"tests" items:"500"`
}

// testCase is one test: series go in, and states and events are expected.
type testCase struct {
	Name   string        `yaml:"name" required:"what is tested"`
	Rules  *[]string     `yaml:"rules" items:"500"` // that are evaluated; nil: all
	For    time.Duration `yaml:"for"`
	Series []inputSeries `yaml:"series" items:"500"`
	Expect []expectation `yaml:"expect" items:"1000"`
	Events *[]string     `yaml:"events" items:"1000"` // nil: not compared

	path string
}

// inputSeries is a series in promtool's notation, one value for each interval.
type inputSeries struct {
	Series string `yaml:"series"`
	Values string `yaml:"values"`

	labels labels.Labels
	values []parser.SequenceValue
}

// expectation is what is expected of one rule at one time.
type expectation struct {
	At        time.Duration `yaml:"at"`
	Rule      string        `yaml:"rule"`
	Pool      *string       `yaml:"pool"` // nil: the pool of the file if the rule is of one
	State     string        `yaml:"state"`
	Value     *wantedValue  `yaml:"value"`
	Tolerance float64       `yaml:"tolerance"`

	path string
}

// wantedValue reads a number, idle or missing.
type wantedValue engine.Value

// UnmarshalText reads a value.
func (w *wantedValue) UnmarshalText(text []byte) error {
	v, err := strconv.ParseFloat(string(text), 64)
	switch {
	case string(text) == "idle":
		*w = wantedValue{Quality: engine.Idle}
	case string(text) == "missing":
		*w = wantedValue{Quality: engine.Missing}
	case err != nil || math.IsNaN(v) || math.IsInf(v, 0):
		return errors.New("must be a number, idle or missing")
	default:
		*w = wantedValue{V: v}
	}
	return nil
}

// defaultPool is the pool of a file that does not set one.
func defaultPool() Pool {
	return Pool{
		Name: "default", Workers: 4, SLO: time.Minute, Objective: 0.95, Window: 30 * 24 * time.Hour,
		MaxQueueAge: 25 * time.Second, DepthMultiple: 2,
	}
}

// readTests reads a file of tests.
func readTests(l *strictyaml.Decoder, data []byte) testFile {
	f := testFile{Pool: defaultPool(), Interval: time.Second}
	l.Decode(l.Document(data, "tests of rules"), &f)
	l.CheckTags(&f)
	if !l.OK() {
		return f
	}
	if f.Rules != "" && !filepath.IsAbs(f.Rules) {
		f.Rules = filepath.Join(filepath.Dir(l.File()), f.Rules)
	}
	if f.Interval < time.Second {
		l.Report("interval", "must be at least 1s")
		return f
	}
	if err := f.Pool.check(); err != nil {
		l.Report("pool", err.Error())
	}
	if len(f.Tests) == 0 {
		l.Report("tests", "must have at least one test")
	}
	for i := range f.Tests {
		f.Tests[i].path = fmt.Sprintf("tests[%d]", i)
		f.Tests[i].complete(l, f.Interval)
	}
	return f
}

// complete parses the series of a test, gives it its length, and refuses what cannot be evaluated.
func (c *testCase) complete(l *strictyaml.Decoder, interval time.Duration) {
	values := 0
	for i := range c.Series {
		path := fmt.Sprintf("%s.series[%d]", c.path, i)
		c.Series[i].parse(l, path)
		if values += len(c.Series[i].values); values > maxValues {
			l.Reportf(path, "the series have more than %d values", maxValues)
			return
		}
	}
	if len(c.Expect) == 0 && c.Events == nil {
		l.Report(c.path, "must have expect or events")
	}
	for i := range c.Expect {
		e := &c.Expect[i]
		e.path = fmt.Sprintf("%s.expect[%d]", c.path, i)
		c.For = max(c.For, e.At)
		if e.At%interval != 0 {
			l.Reportf(e.path+".at", "must be a multiple of the interval, %s", model.Duration(interval))
		}
		if e.State != "" && !slices.Contains(engine.StateLabels(), e.State) {
			l.Reportf(e.path+".state", "must be one of %s, is %s", strings.Join(engine.StateLabels(), ", "),
				strictyaml.Quote(e.State))
		}
		if e.Value == nil && e.State == "" {
			l.Report(e.path, "must have a value or a state")
		}
	}
	if c.For/interval > maxTicks {
		l.Reportf(c.path+".for", "is longer than %d intervals", maxTicks)
	}
}

// repeatPattern finds the counts of a series in promtool's notation: they are checked before it is expanded.
var repeatPattern = regexp.MustCompile(`x(\d+)`)

func (in *inputSeries) parse(l *strictyaml.Decoder, path string) {
	total := 0
	for _, m := range repeatPattern.FindAllStringSubmatch(in.Values, -1) {
		n, err := strconv.Atoi(m[1])
		if total += n; err != nil || n > maxTicks || total > maxTicks {
			l.Reportf(path+".values", "must have at most %d values", maxTicks)
			return
		}
	}
	if len(in.Values) > maxExpr {
		l.Reportf(path+".values", "must have at most %d bytes", maxExpr)
		return
	}
	var err error
	if in.labels, in.values, err = parser.NewParser(parser.Options{}).ParseSeriesDesc(in.Series + " " + in.Values); err != nil {
		l.Report(path, "is not a series and its values in promtool's notation: "+err.Error())
		return
	}
	if slices.ContainsFunc(in.values, func(v parser.SequenceValue) bool { return v.Histogram != nil }) {
		l.Report(path+".values", "histograms are given by their _bucket, _sum and _count series")
	}
}
