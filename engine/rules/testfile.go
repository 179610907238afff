package rules

import (
	"fmt"
	"math"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"go.yaml.in/yaml/v3"

	"headgate/engine"
	"headgate/internal/strictyaml"
)

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
		strictyaml.Key("closely", l.number(&e.tolerance)),
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
