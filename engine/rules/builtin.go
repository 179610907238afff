package rules

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"headgate/engine"
)

// minEvents is the number of events from which a share or a quantile is meaningful.
const minEvents = 20

// BuiltIn returns the rules that apply without a file: those of each pool, with thresholds from its settings, and those
// of the process. It fails if a pool's settings make a rule impossible, and shows the calculation.
func BuiltIn(s Settings) ([]engine.Rule, error) {
	var errs []error
	var all []engine.Rule
	for _, p := range s.Pools {
		if err := p.check(); err != nil {
			errs = append(errs, err)
			continue
		}
		one := s
		one.Pools = []Pool{p}
		for _, r := range poolRules(p, s.Interval) {
			rules, err := completeRule(r, one)
			errs, all = append(errs, err), append(all, rules...)
		}
	}
	alone := s
	alone.Pools = nil
	for _, r := range append(processRules(), drillOverdueRule(), engine.MissingRule("")) {
		rules, err := completeRule(r, alone)
		errs, all = append(errs, err), append(all, rules...)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return all, nil
}

// completeRule adds to a built-in rule what follows from the settings, and checks it.
func completeRule(r engine.Rule, s Settings) ([]engine.Rule, error) {
	r.Pool = ""
	if r.Runbook == "" {
		r.Runbook = r.Name
	}
	s.Runbooks = []string{r.Runbook}
	e, err := parse(r.Signal)
	if err != nil && r.Name != engine.SignalMissing {
		return nil, fmt.Errorf("built-in rule %s: signal: %w", r.Name, err)
	}
	least := s.minFor(e.window >= longWindow)
	for _, d := range []*time.Duration{&r.Warn.For, &r.Page.For, &r.Clear.For} {
		if *d > 0 {
			*d = max(*d, least)
		}
	}
	d := ruleTemplate{Rule: r}
	for _, p := range s.Pools {
		d.pools = append(d.pools, p.Name)
	}
	d, faults := d.check(s)
	var errs []error
	for _, f := range faults {
		errs = append(errs, fmt.Errorf("built-in rule %s: %s: %s", r.Name, f.Field, f.Message))
	}
	return d.expand(s), errors.Join(errs...)
}

// poolRules returns the rules of a pool, $pool not filled in.
func poolRules(p Pool, interval time.Duration) []engine.Rule {
	return slices.Concat(queueRules(p), outcomeRules(p), []engine.Rule{stalledRule(p), envelopeUseRule()}, burnRules(),
		gateRules(interval), []engine.Rule{engine.MissingRule(p.Name)})
}

func threshold(at float64, d time.Duration) engine.Threshold {
	return engine.Threshold{At: at, For: d, Set: true}
}

// processRules returns the rules by which headgate watches itself.
func processRules() []engine.Rule {
	return []engine.Rule{
		{
			Name: "delivery_stuck", Unit: "s",
			Signal:  `headgate_delivery_oldest_pending_seconds`,
			Warn:    threshold(60, 30*time.Second),
			Page:    threshold(300, time.Minute),
			Clear:   engine.Clear{Below: 30, For: time.Minute},
			Summary: "notifications are not delivered",
			Impact:  "none directly, but you may not be notified of problems",
		},
		{
			Name: "delivery_dead", Unit: "messages",
			Signal:  `round(sum(increase(headgate_deliveries_total{result=~"dead|lost"}[15m])))`,
			Warn:    threshold(1, 10*time.Second),
			Clear:   engine.Clear{Below: 1, For: time.Minute},
			Summary: "a notification permanently failed",
			Impact:  "none directly, but you were not notified of something",
		},
		{
			Name: "evaluation_late", Unit: "ratio",
			Signal: `round((rate(headgate_evaluations_late_total[2m]) + rate(headgate_evaluations_skipped_total[2m]))` +
				` / (rate(headgate_evaluation_seconds_count[2m]) + rate(headgate_evaluations_skipped_total[2m])), 0.0001)`,
			Warn:    threshold(0.1, 2*time.Minute),
			Page:    threshold(0.5, 5*time.Minute),
			Clear:   engine.Clear{Below: 0.05, For: 2 * time.Minute},
			Summary: "rules are evaluated late",
			Impact:  "none directly, but problems are noticed late, and the machine is probably overloaded",
		},
		{
			Name: "journal_failing", Unit: "errors",
			Signal: `round(sum(increase(headgate_journal_errors_total[2m]))` +
				` + (sum(increase(headgate_outbox_errors_total[2m])) or vector(0)))`,
			Warn:    threshold(3, 10*time.Second),
			Page:    threshold(15, time.Minute),
			Clear:   engine.Clear{Below: 1, For: 2 * time.Minute},
			Summary: "the database cannot be written or read",
			Impact:  "none directly, but recent events may be lost at the next restart",
		},
	}
}

// drillOverdueRule watches that scheduled drills keep passing: the age of the oldest last pass, in periods of the
// drill's schedule. A drill that never passed counts from when it was first due. Without schedules the value is 0.
func drillOverdueRule() engine.Rule {
	return engine.Rule{
		Name: "drill_overdue", Unit: "periods",
		Signal: `round(max((time() - (headgate_drill_last_pass_timestamp_seconds or headgate_drill_first_due_timestamp_seconds))` +
			` / on (drill) headgate_drill_period_seconds) or vector(0), 0.01)`,
		Warn:    threshold(1.5, time.Minute),
		Clear:   engine.Clear{Below: 1.5, For: time.Minute},
		Summary: "a drill has not passed for too long",
		Impact:  "none directly, but it is unproven that gate, alerts and rollback still work",
	}
}
