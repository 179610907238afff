package rules

import (
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"headgate/engine"
	"headgate/engine/tsdb"
)

// minWindowIntervals fit into a scaled window: three samples, whenever it begins.
const minWindowIntervals = 4

// ForTwin returns the rules of one pool, and those of the process, for a twin whose times pass faster. Load returns the
// rules for settings; production are those of all pools, and scaled is the pool with the twin's workers and times. What
// is derived from the pool's settings is scaled with them; a literal threshold in seconds is divided here.
func ForTwin(load func(Settings) ([]engine.Rule, error), production Settings, scaled Pool, speed float64) ([]engine.Rule, error) {
	unscaled, _ := production.pool(scaled.Name)
	unscaled.Workers = scaled.Workers
	plain, err := load(production.withPool(unscaled))
	if err != nil {
		return nil, err
	}
	all, err := load(production.withPool(scaled))
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(r engine.Rule) bool { return r.Pool != "" && r.Pool != scaled.Name })
	for i := range all {
		r := &all[i]
		at := slices.IndexFunc(plain, func(p engine.Rule) bool { return p.Key() == r.Key() })
		if at < 0 || r.Unit != "s" || r.Pool == "" {
			continue
		}
		was := plain[at]
		for now, before := range map[*float64]float64{&r.Warn.At: was.Warn.At, &r.Page.At: was.Page.At, &r.Clear.Below: was.Clear.Below} {
			if *now == before {
				*now /= speed
			}
		}
	}
	return all, nil
}

// withPool returns the settings with another pool of that name.
func (s Settings) withPool(pool Pool) Settings {
	s.Pools = slices.Clone(s.Pools)
	if i := slices.IndexFunc(s.Pools, func(p Pool) bool { return p.Name == pool.Name }); i >= 0 {
		s.Pools[i] = pool
	}
	return s
}

// Scale returns rules for a scenario that is played faster, which are evaluated every interval in real time. For the
// rules of pools, the durations of breaches and the windows are divided. Thresholds stay: those in seconds come from a
// pool's settings, which have to be scaled already.
//
// Left out are rules over an hour and more, which read points of real minutes, and those on the use of the envelope,
// which looks at a real minute. The rules of the process stay as they are: headgate itself runs no faster.
func Scale(all []engine.Rule, s engine.TimeScale, interval time.Duration) ([]engine.Rule, error) {
	if s.RealTime() {
		return all, nil
	}
	scaled := make([]engine.Rule, 0, len(all))
	for _, r := range all {
		keep, err := scaleRule(&r, s, interval)
		if err != nil {
			return nil, fmt.Errorf("rule %s at time scale %v: %w", r.Name, float64(s), err)
		}
		if keep {
			scaled = append(scaled, r)
		}
	}
	return scaled, nil
}

// scaleRule scales one rule, and says whether it means anything at this scale.
func scaleRule(r *engine.Rule, s engine.TimeScale, interval time.Duration) (keep bool, err error) {
	if r.Pool == "" {
		return true, nil
	}
	for _, d := range []*time.Duration{&r.Warn.For, &r.Page.For, &r.Clear.For} {
		*d = s.Scale(*d, s.Least(interval))
	}
	for _, text := range []*string{&r.Signal, &r.Events} {
		if *text == "" {
			continue
		}
		e, err := parser.NewParser(parser.Options{}).ParseExpr(*text)
		if err != nil {
			return false, err
		}
		if selectsMetric(e, func(name string) bool { return name == envelopeMetric }) {
			return false, nil
		}
		scaleWindows(e, s, s.Interval(interval))
		*text = e.String()
	}
	return !r.Slow, nil
}

// scaleWindows scales how far an expression looks back, and how finely. Recorded series have one point a minute at any
// scale, so that windows over them stay.
func scaleWindows(e parser.Expr, s engine.TimeScale, interval time.Duration) {
	least := minWindowIntervals * interval
	parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
		switch n := n.(type) {
		case *parser.MatrixSelector:
			if !selectsMetric(n, tsdb.IsRecorded) {
				n.Range = s.Scale(n.Range, least)
			}
		case *parser.SubqueryExpr:
			if !selectsMetric(n, tsdb.IsRecorded) {
				n.Range = s.Scale(n.Range, least)
				n.Step = s.Scale(n.Step, interval)
			}
			n.OriginalOffset = s.Scale(n.OriginalOffset, 0)
		case *parser.VectorSelector:
			n.OriginalOffset = s.Scale(n.OriginalOffset, 0)
		}
		return nil
	})
}

// selectsMetric says whether an expression reads a metric that matches.
func selectsMetric(e parser.Expr, matches func(name string) bool) bool {
	return slices.ContainsFunc(parser.ExtractSelectors(e), func(selector []*labels.Matcher) bool {
		return slices.ContainsFunc(selector, func(m *labels.Matcher) bool {
			return m.Name == model.MetricNameLabel && matches(m.Value)
		})
	})
}
