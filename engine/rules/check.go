package rules

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"

	"headgate/engine"
)

// UnitBurn is the unit of signals that are a burn; see the package comment. Only such thresholds are checked for being
// reachable.
const UnitBurn = "burn"

const (
	maxText        = 300 // characters of a summary or an impact
	maxForDuration = 30 * 24 * time.Hour
)

var ruleNamePattern = regexp.MustCompile(`^[a-z][a-z0-9_]{0,62}$`)

// fieldErrors collects the problems of a rule.
type fieldErrors []engine.FieldProblem

func (f *fieldErrors) add(field, format string, a ...any) {
	*f = append(*f, engine.FieldProblem{Field: field, Message: fmt.Sprintf(format, a...)})
}

// ruleTemplate is a rule before it is expanded for each pool.
type ruleTemplate struct {
	engine.Rule
	confirmed bool     // i_understand
	pools     []string // nil: all
}

// check returns the problems of a template, and the template with what follows from its expressions.
func (d ruleTemplate) check(s Settings) (ruleTemplate, fieldErrors) {
	var f fieldErrors
	d.checkTexts(s, &f)
	signal, signalOK := d.checkSignal(s, &f)
	d.Slow = signalOK && signal.window >= longWindow
	d.checkEvents(s, &f)
	f = append(f, d.ThresholdProblems()...)
	if d.Warn.Set || d.Page.Set {
		d.checkDurations(s, &f)
	}
	d.checkAction(signal, &f)
	if signalOK && d.Unit == UnitBurn {
		d.checkBurn(s, signal, &f)
	}
	slices.SortStableFunc(f, func(a, b engine.FieldProblem) int {
		return cmp.Or(cmp.Compare(a.Field, b.Field), cmp.Compare(a.Message, b.Message))
	})
	return d, f
}

func (d ruleTemplate) checkTexts(s Settings, f *fieldErrors) {
	if !ruleNamePattern.MatchString(d.Name) {
		f.add("name", "must be 1 to 63 of a-z, 0-9 and _, beginning with a letter")
	}
	if d.Summary == "" {
		f.add("summary", "must say in plain words what is wrong")
	}
	for field, text := range map[string]string{"summary": d.Summary, "impact": d.Impact} {
		if n := len([]rune(text)); n > maxText {
			f.add(field, "must have at most %d characters, has %d", maxText, n)
		}
	}
	if len(d.Unit) > 20 {
		f.add("unit", "must have at most 20 characters")
	}
	if !slices.Contains(s.Runbooks, d.Runbook) {
		f.add("runbook", "there is no page %q; known here: %s", d.Runbook, strings.Join(s.Runbooks, ", "))
	}
	for i, name := range d.pools {
		if _, ok := s.pool(name); !ok {
			f.add(fmt.Sprintf("pools[%d]", i), "there is no pool %q; known here: %s", name, s.poolNames())
		}
	}
	if d.pools != nil && !usesPoolVariables(d.Signal, d.Events) && d.Name != engine.SignalMissing {
		f.add("pools", "is for rules with $pool in their signal, and this one has none")
	}
}

// checkSignal returns the parsed signal, and whether it is valid.
func (d ruleTemplate) checkSignal(s Settings, f *fieldErrors) (expr, bool) {
	if d.Name == engine.SignalMissing {
		if d.Signal != "" {
			f.add("signal", "must be left out: %s counts the signals that are missing", engine.SignalMissing)
		}
		return expr{}, false
	}
	if d.Signal == "" {
		f.add("signal", "must be PromQL, such as headgate_queue_depth{pool=\"$pool\"}")
		return expr{}, false
	}
	return checkExpr("signal", d.Signal, s, f)
}

func checkExpr(field, text string, s Settings, f *fieldErrors) (expr, bool) {
	e, err := parse(text)
	if err != nil {
		f.add(field, "%s", err)
		return e, false
	}
	if e.window > s.Retention {
		f.add(field, "looks back %s, and samples are kept for %s", model.Duration(e.window),
			model.Duration(s.Retention))
		return e, false
	}
	if n, bad := e.tooNarrow(s.Interval); bad {
		f.add(field, "the range [%s] of %s must hold two samples: at least %s", model.Duration(n.width), n.metric,
			model.Duration(2*s.Interval))
		return e, false
	}
	return e, true
}

func (d ruleTemplate) checkEvents(s Settings, f *fieldErrors) {
	switch {
	case d.Events == "" && d.MinEvents != 0:
		f.add("min_events", "needs events: PromQL that counts them")
	case d.Events != "" && !(d.MinEvents >= 1 && d.MinEvents <= 1e9):
		f.add("min_events", "must be from 1 to 1000000000, as there are events")
	}
	if d.Events == "" {
		return
	}
	if e, ok := checkExpr("events", d.Events, s, f); ok && e.window >= longWindow && !d.Slow {
		f.add("events", "looks back %s, and the signal less than 1h: take the window of the signal",
			model.Duration(e.window))
	}
}

func (d ruleTemplate) checkDurations(s Settings, f *fieldErrors) {
	least := s.minFor(d.Slow)
	check := func(field string, v time.Duration, set bool) {
		switch {
		case !set || d.Name == engine.SignalMissing && v == 0:
		case v < least:
			f.add(field, "must be at least %s, %d evaluations; is %s", model.Duration(least), minEvaluations,
				model.Duration(v))
		case v > maxForDuration:
			f.add(field, "must be at most 30d")
		}
	}
	check("warn.for", d.Warn.For, d.Warn.Set)
	check("page.for", d.Page.For, d.Page.Set)
	check("clear.for", d.Clear.For, true)
}

func (d ruleTemplate) checkAction(signal expr, f *fieldErrors) {
	switch {
	case d.Action == "" && d.confirmed:
		f.add("i_understand", "does nothing without an action: remove it")
	case d.Action == "":
	case d.Action != actionRollback:
		f.add("action", "must be rollback, or left out; is %q", d.Action)
	case !d.Page.Set:
		f.add("action", "is for a page, and this rule has none")
	case signal.loadMetric() != "" && !d.confirmed:
		f.add("action", "%s is a load signal: rolling the gate back under overload makes the queue longer; "+
			"if that is intended, add i_understand: true", signal.loadMetric())
	}
}

// checkBurn refuses factors that can never be reached, and windows that are too long for the budget.
func (d ruleTemplate) checkBurn(s Settings, signal expr, f *fieldErrors) {
	for _, p := range d.targetPools(s) {
		if p.check() != nil {
			continue // reported by BuiltIn
		}
		for field, t := range map[string]engine.Threshold{"warn.at": d.Warn, "page.at": d.Page} {
			if !t.Set {
				continue
			}
			if share := t.At * p.budget(); share >= 1 {
				f.add(field,
					"can never be reached in pool %s: %v × (1 − %v) = %s of all tasks would have to be bad; it must be below %s",
					p.Name, t.At, p.Objective, formatShort(share), formatShort(1/p.budget()))
			}
			if used := t.At * signal.window.Seconds() / p.Window.Seconds(); used >= 1 {
				f.add(field,
					"fires too late in pool %s: %v × %s ÷ %s = %s of the budget would be gone; the window of the SLO must be longer than %s",
					p.Name, t.At, model.Duration(signal.window), model.Duration(p.Window), formatShort(used),
					model.Duration(time.Duration(t.At*float64(signal.window))))
			}
		}
	}
}

func formatShort(v float64) string { return fmt.Sprintf("%.3g", v) }

// targetPools returns the pools that a template applies to.
func (d ruleTemplate) targetPools(s Settings) []Pool {
	if d.pools == nil {
		return s.Pools
	}
	var all []Pool
	for _, name := range d.pools {
		if p, ok := s.pool(name); ok {
			all = append(all, p)
		}
	}
	return all
}

// expand returns the rules of a template, one for each pool.
func (d ruleTemplate) expand(s Settings) []engine.Rule {
	if !usesPoolVariables(d.Signal, d.Events) && d.Name != engine.SignalMissing {
		return []engine.Rule{d.Rule}
	}
	var all []engine.Rule
	for _, p := range d.targetPools(s) {
		r := d.Rule
		r.Pool, r.Signal, r.Events = p.Name, p.substitute(r.Signal), p.substitute(r.Events)
		all = append(all, r)
	}
	if d.Name == engine.SignalMissing && d.pools == nil {
		all = append(all, d.Rule) // of the process
	}
	return all
}
