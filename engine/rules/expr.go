package rules

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"headgate/engine/tsdb"
)

const (
	maxExpr    = 4 << 10 // bytes
	longWindow = tsdb.LongWindow * time.Second
)

// expr describes a PromQL expression.
type expr struct {
	selectors []selector
	window    time.Duration // the longest
}

// selector is one vector selector of an expression.
type selector struct {
	metric string
	span   time.Duration // how far back it looks: range, subqueries and offset
	width  time.Duration // of its range; 0: it reads the latest sample
}

// parse parses an expression, and checks it as a signal.
func parse(text string) (expr, error) {
	if len(text) > maxExpr {
		return expr{}, fmt.Errorf("must have at most %d bytes, has %d", maxExpr, len(text))
	}
	if name := unknownVariable(text); name != "" {
		return expr{}, fmt.Errorf("there is no variable %s; known here: $pool, $workers, $slo, $budget, $max_queue_age", name)
	}
	// Any pool does: its values have the same types.
	sample := Pool{Name: "x", Workers: 1, SLO: time.Minute, Objective: .5, MaxQueueAge: time.Minute}
	parsed, err := parser.NewParser(parser.Options{}).ParseExpr(sample.substitute(text))
	if err != nil {
		return expr{}, fmt.Errorf("is not valid PromQL: %w", err)
	}
	if t := parsed.Type(); t != parser.ValueTypeVector && t != parser.ValueTypeScalar {
		return expr{}, fmt.Errorf("must be a number or an instant vector, is a %s", parser.DocumentedType(t))
	}
	var e expr
	parser.Inspect(parsed, func(node parser.Node, path []parser.Node) error {
		if err == nil {
			err = e.add(node, path)
		}
		return nil
	})
	return e, err
}

var errNotRelative = errors.New("must look back from now: @ and negative offsets are not for rules")

// add adds the selector that a node is, and refuses what has another reference than now.
func (e *expr) add(node parser.Node, path []parser.Node) error {
	if q, ok := node.(*parser.SubqueryExpr); ok && (q.Timestamp != nil || q.StartOrEnd != 0 || q.OriginalOffset < 0) {
		return errNotRelative
	}
	v, ok := node.(*parser.VectorSelector)
	if !ok {
		return nil
	}
	if v.Timestamp != nil || v.StartOrEnd != 0 || v.OriginalOffset < 0 {
		return errNotRelative
	}
	s := selector{metric: metricOf(v), span: v.OriginalOffset}
	for _, p := range path {
		switch p := p.(type) {
		case *parser.MatrixSelector:
			s.width = p.Range
			s.span += p.Range
		case *parser.SubqueryExpr:
			s.span += p.Range + p.OriginalOffset
		}
	}
	e.selectors = append(e.selectors, s)
	e.window = max(e.window, s.span)
	return s.check(v)
}

func metricOf(v *parser.VectorSelector) string {
	for _, m := range v.LabelMatchers {
		if m.Name == model.MetricNameLabel && m.Type == labels.MatchEqual {
			return m.Value
		}
	}
	return ""
}

// check refuses a selector that can never find samples.
func (s selector) check(v *parser.VectorSelector) error {
	recorded := tsdb.IsRecorded(s.metric)
	switch {
	case s.metric == "":
		return fmt.Errorf("%s must name its metric", v)
	case !strings.HasPrefix(s.metric, "headgate_") && !recorded:
		return fmt.Errorf("there are no samples of %s: only headgate_* and what is recorded of it is kept%s", s.metric,
			didYouMean(s.metric))
	case s.span >= longWindow && !recorded:
		return fmt.Errorf("looks back %s over %s: from 1h on it must read a recorded series%s", model.Duration(s.span),
			s.metric, suggestRecorded(s))
	case recorded && s.width < 2*time.Minute:
		return fmt.Errorf("%s has one point a minute: it needs a range of at least 2m, such as sum_over_time(%s[5m])",
			s.metric, s.metric)
	}
	return nil
}

func suggestRecorded(s selector) string {
	name, ok := tsdb.RecordedName(s.metric)
	if !ok {
		return ", and there is none of it"
	}
	return fmt.Sprintf("; instead of its increase take sum_over_time(%s[%s])", name, model.Duration(cmp.Or(s.width, s.span)))
}

func didYouMean(metric string) string {
	if _, ok := tsdb.RecordedName("headgate_" + metric); ok {
		return "; did you mean headgate_" + metric + "?"
	}
	return ""
}

// metrics returns the metrics that an expression reads, recorded series by their counter.
func (e expr) metrics() []string {
	var all []string
	for _, s := range e.selectors {
		name := s.metric
		if counter, ok := tsdb.CounterName(name); ok {
			name = counter
		}
		if !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all
}

// tooNarrow returns the first range that is too narrow for two samples.
func (e expr) tooNarrow(interval time.Duration) (selector, bool) {
	for _, s := range e.selectors {
		if s.width > 0 && s.width < 2*interval {
			return s, true
		}
	}
	return selector{}, false
}

// loadPrefixes are the prefixes of metrics that worsen with more work or a slow endpoint. Rolling the gate back because
// of them makes the queue longer, not shorter.
var loadPrefixes = []string{
	"headgate_queue_", "headgate_in_flight", "headgate_arrivals_", "headgate_refusals_", "headgate_would_refuse_",
	"headgate_tasks_", "headgate_turnaround_", "headgate_service_", "headgate_first_byte_", "headgate_envelope_",
	"headgate_slo_", "headgate_upstream_refusals_", "headgate_announced_retries_",
	"headgate_last_completion_",
}

// loadMetric returns a load metric that an expression reads, or "".
func (e expr) loadMetric() string {
	for _, m := range e.metrics() {
		if slices.ContainsFunc(loadPrefixes, func(prefix string) bool { return strings.HasPrefix(m, prefix) }) {
			return m
		}
	}
	return ""
}
