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
	name   string
	path   string
	rules  []string // that are evaluated; nil: all
	length time.Duration
	series []input
	expect []expectation
	events []string // nil: not looked at
}

// input is a series in promtool's notation, one value for each interval.
type input struct {
	labels labels.Labels
	values []parser.SequenceValue
}

// expectation is what is expected of one rule at one time.
type expectation struct {
	path    string
	at      time.Duration
	rule    string
	pool    *string // nil: the pool of the file if the rule is of one
	state   string  // empty: any
	value   *engine.Value
	closely float64
}

// defaultPool is the pool of a file that says nothing about it.
func defaultPool() Pool {
	return Pool{
		Name: "default", Workers: 4, SLO: time.Minute, Objective: 0.95, Window: 30 * 24 * time.Hour,
		MaxQueueAge: 25 * time.Second, DepthMultiple: 2,
	}
}

// readTests reads a file of tests.
func (l ledger) readTests(root *yaml.Node) testFile {
	f := testFile{pool: defaultPool(), interval: time.Second}
	l.Mapping(root, "",
		strictyaml.Set("pool", func(n *yaml.Node, path string) { l.testPool(&f.pool, n, path) }),
		strictyaml.Set("rules", l.Text(&f.rules)), strictyaml.Set("interval", l.duration(&f.interval)),
		strictyaml.Set("tests", l.List(maxTests, func(n *yaml.Node, path string) { f.cases = append(f.cases, l.testCase(n, path)) })),
	)
	if f.rules != "" && !filepath.IsAbs(f.rules) {
		f.rules = filepath.Join(filepath.Dir(l.File()), f.rules)
	}
	if f.interval < time.Second {
		l.Refuse("interval", "must be at least 1s")
	}
	if err := f.pool.check(); err != nil {
		l.Refuse("pool", err.Error())
	}
	if len(f.cases) == 0 {
		l.Refuse("tests", "must have at least one test")
	}
	for i := range f.cases {
		l.checkCase(&f.cases[i], f.interval)
	}
	return f
}

func (l ledger) testPool(p *Pool, n *yaml.Node, path string) {
	workers, depth := float64(p.Workers), float64(p.DepthMultiple)
	l.Mapping(n, path,
		strictyaml.Set("name", l.Text(&p.Name)), strictyaml.Set("workers", l.number(&workers)), strictyaml.Set("slo", l.duration(&p.SLO)),
		strictyaml.Set("objective", l.number(&p.Objective)), strictyaml.Set("window", l.duration(&p.Window)),
		strictyaml.Set("max_queue_age", l.duration(&p.MaxQueueAge)), strictyaml.Set("depth_multiple", l.number(&depth)),
	)
	if workers < 1 || depth < 1 || workers > 1e6 || depth > 1e6 {
		l.Refuse(path, "workers and depth_multiple must be from 1 to 1000000")
		return
	}
	p.Workers, p.DepthMultiple = int(workers), int(depth)
}

func (l ledger) testCase(n *yaml.Node, path string) testCase {
	c := testCase{path: path}
	values := 0
	l.Mapping(n, path,
		strictyaml.Set("name", l.Text(&c.name)), strictyaml.Set("rules", l.texts(&c.rules, maxRules)), strictyaml.Set("for", l.duration(&c.length)),
		strictyaml.Set("series", l.List(maxSeries, func(n *yaml.Node, path string) {
			in := l.input(n, path)
			if values += len(in.values); values > maxValues {
				l.Refuse(path, fmt.Sprintf("the series have more than %d values", maxValues))
				return
			}
			c.series = append(c.series, in)
		})),
		strictyaml.Set("expect", l.List(maxExpects, func(n *yaml.Node, path string) { c.expect = append(c.expect, l.expectation(n, path)) })),
		strictyaml.Set("events", l.texts(&c.events, maxExpects)),
	)
	return c
}

// repeats finds the counts of a series in promtool's notation: they are checked
// before it is expanded.
var repeats = regexp.MustCompile(`x(\d+)`)

func (l ledger) input(n *yaml.Node, path string) input {
	var series, values string
	l.Mapping(n, path, strictyaml.Set("series", l.Text(&series)), strictyaml.Set("values", l.Text(&values)))
	total := 0
	for _, m := range repeats.FindAllStringSubmatch(values, -1) {
		n, err := strconv.Atoi(m[1])
		if total += n; err != nil || n > maxTicks || total > maxTicks {
			l.Refuse(strictyaml.Join(path, "values"), fmt.Sprintf("must have at most %d values", maxTicks))
			return input{}
		}
	}
	if len(values) > maxExpr {
		l.Refuse(strictyaml.Join(path, "values"), fmt.Sprintf("must have at most %d bytes", maxExpr))
		return input{}
	}
	lbls, seq, err := parser.NewParser(parser.Options{}).ParseSeriesDesc(series + " " + values)
	if err != nil {
		l.Refuse(path, "is not a series and its values in promtool's notation: "+err.Error())
		return input{}
	}
	for _, v := range seq {
		if v.Histogram != nil {
			l.Refuse(strictyaml.Join(path, "values"), "histograms are given by their _bucket, _sum and _count series")
			return input{}
		}
	}
	return input{lbls, seq}
}

func (l ledger) expectation(n *yaml.Node, path string) expectation {
	e := expectation{path: path}
	l.Mapping(n, path,
		strictyaml.Set("at", l.duration(&e.at)), strictyaml.Set("rule", l.Text(&e.rule)), strictyaml.Set("state", l.Text(&e.state)),
		strictyaml.Set("pool", func(n *yaml.Node, path string) { e.pool = new(string); l.Text(e.pool)(n, path) }),
		strictyaml.Set("value", func(n *yaml.Node, path string) { e.value = l.value(n, path) }),
		strictyaml.Set("closely", l.number(&e.closely)),
	)
	switch e.state {
	case "", "ok", "pending", "warn", "page", "recovering":
	default:
		l.Refuse(strictyaml.Join(path, "state"), "must be ok, pending, warn, page or recovering, is "+strictyaml.Quote(e.state))
	}
	if e.value == nil && e.state == "" {
		l.Refuse(path, "must have a value or a state")
	}
	return e
}

// value reads a number, idle or missing.
func (l ledger) value(n *yaml.Node, path string) *engine.Value {
	switch n.Value {
	case "idle":
		return &engine.Value{Knowing: engine.Idle}
	case "missing":
		return &engine.Value{Knowing: engine.Missing}
	}
	v, err := strconv.ParseFloat(n.Value, 64)
	if n.Kind != yaml.ScalarNode || err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		l.Refuse(path, "must be a number, idle or missing, is "+strictyaml.Shown(n))
		return &engine.Value{}
	}
	return &engine.Value{V: v}
}

// checkCase gives a test its length, and refuses what cannot be evaluated.
func (l ledger) checkCase(c *testCase, interval time.Duration) {
	if c.name == "" {
		l.Refuse(strictyaml.Join(c.path, "name"), "must say what is tested")
	}
	if len(c.expect) == 0 && c.events == nil {
		l.Refuse(c.path, "must have expect or events")
	}
	for _, e := range c.expect {
		c.length = max(c.length, e.at)
		if interval > 0 && e.at%interval != 0 {
			l.Refuse(strictyaml.Join(e.path, "at"), fmt.Sprintf("must be a multiple of the interval, %s", model.Duration(interval)))
		}
	}
	if interval > 0 && c.length/interval > maxTicks {
		l.Refuse(strictyaml.Join(c.path, "for"), fmt.Sprintf("is longer than %d intervals", maxTicks))
	}
}
