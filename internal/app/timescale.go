package app

import (
	"fmt"
	"math"
	"slices"
	"time"

	prom "github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"headgate/engine"
	"headgate/engine/tsdb"
)

const (
	maxTimeScale = 1000
	// minInterval is the shortest time between two evaluations: below it a small
	// machine does nothing else.
	minInterval = 50 * time.Millisecond
	// minMissingGrace is how long a signal may be missing at any pace: a machine that is
	// busy for a moment is no part of a scenario.
	minMissingGrace = 10 * time.Second

	minEvaluations     = 5 // in the time that something has to last
	minWindowIntervals = 4 // intervals in a window: three samples, whenever it begins
)

// TimeScale watches a scenario that is played so many times faster than it is told, 1
// to 1000. What the rules of pools say of time is divided by it: how long a breach
// has to last, windows, the interval, and the engine's own patience. Each keeps
// enough evaluations and samples to mean something, so that a high pace makes it
// longer than the scenario would have it. Thresholds stay: those in seconds come
// from a pool's settings, which have to be scaled already.
//
// Left out are rules over an hour and more, which read points of real minutes, and
// those on the use of the envelope, which looks at a real minute. The rules of the
// process stay as they are: headgate itself runs no faster.
func TimeScale(speed float64) Option { return func(a *App) { a.timeScale = timeScale(speed) } }

// timeScale is a speed; 0 and 1 leave everything as it is.
type timeScale float64

// isRealTime says that there is nothing to scale.
func (p timeScale) isRealTime() bool { return p == 0 || p == 1 }

func (p timeScale) validate() error {
	if v := float64(p); v != 0 && !(v >= 1 && v <= maxTimeScale) {
		return fmt.Errorf("the pace must be 1 to %d, is %v", maxTimeScale, v)
	}
	return nil
}

// scale divides a time, and keeps it at or above least. It is in whole
// milliseconds, as PromQL has them.
func (p timeScale) scale(d, least time.Duration) time.Duration {
	if p.isRealTime() || d <= 0 {
		return d
	}
	scaled := time.Duration(math.Round(float64(d)/float64(p))) / time.Millisecond * time.Millisecond
	return max(scaled, min(least, d))
}

func (p timeScale) interval(d time.Duration) time.Duration { return p.scale(d, minInterval) }

// engineConfig scales the patience of the engine. What waits for people or for disks
// stays.
func (p timeScale) engineConfig(c engine.Config, interval time.Duration) engine.Config {
	c.Interval = p.interval(interval)
	least := minEvaluations * c.Interval
	for _, d := range []*time.Duration{&c.IdleClose, &c.ReopenWindow, &c.Flap.Window, &c.Flap.Digest, &c.Remind.Warn, &c.Remind.Page} {
		*d = p.scale(*d, least)
	}
	c.MissingGrace = p.scale(c.MissingGrace, minMissingGrace)
	return c
}

// scaleRules scales rules that are evaluated every interval at pace 1.
func (p timeScale) scaleRules(all []engine.Rule, interval time.Duration) ([]engine.Rule, error) {
	if p.isRealTime() {
		return all, nil
	}
	interval = p.interval(interval)
	paced := make([]engine.Rule, 0, len(all))
	for _, r := range all {
		keep, err := p.scaleRule(&r, interval)
		if err != nil {
			return nil, fmt.Errorf("rule %s at pace %v: %w", r.Name, float64(p), err)
		}
		if keep {
			paced = append(paced, r)
		}
	}
	return paced, nil
}

// scaleRule scales one rule, and says whether it means anything at this pace.
func (p timeScale) scaleRule(r *engine.Rule, interval time.Duration) (keep bool, err error) {
	if r.Pool == "" {
		return true, nil
	}
	for _, d := range []*time.Duration{&r.Warn.For, &r.Page.For, &r.Clear.For} {
		*d = p.scale(*d, minEvaluations*interval)
	}
	for _, text := range []*string{&r.Signal, &r.Events} {
		if *text == "" {
			continue
		}
		e, err := parser.NewParser(parser.Options{}).ParseExpr(*text)
		if err != nil {
			return false, err
		}
		if readsEnvelopeUse(e) {
			return false, nil
		}
		p.scaleWindows(e, minWindowIntervals*interval)
		*text = e.String()
	}
	return !r.Slow, nil
}

// scaleWindows scales how far an expression looks back, and how finely. Recorded series
// have one point a minute at any pace, so that windows over them stay.
func (p timeScale) scaleWindows(e parser.Expr, least time.Duration) {
	parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
		switch n := n.(type) {
		case *parser.MatrixSelector:
			if !readsRecordedSeries(n) {
				n.Range = p.scale(n.Range, least)
			}
		case *parser.SubqueryExpr:
			if !readsRecordedSeries(n) {
				n.Range = p.scale(n.Range, least)
				n.Step = p.scale(n.Step, least/minWindowIntervals)
			}
			n.OriginalOffset = p.scale(n.OriginalOffset, 0)
		case *parser.VectorSelector:
			n.OriginalOffset = p.scale(n.OriginalOffset, 0)
		}
		return nil
	})
}

// readsRecordedSeries says whether an expression reads recorded series.
func readsRecordedSeries(e parser.Node) bool { return selectsMetric(e, tsdb.IsRecorded) }

func readsEnvelopeUse(e parser.Node) bool {
	return selectsMetric(e, func(name string) bool { return name == envelopeMetric })
}

func selectsMetric(e parser.Node, what func(name string) bool) (found bool) {
	parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
		if v, ok := n.(*parser.VectorSelector); ok {
			found = found || slices.ContainsFunc(v.LabelMatchers, func(m *labels.Matcher) bool {
				return m.Name == prom.MetricNameLabel && what(m.Value)
			})
		}
		return nil
	})
	return found
}
