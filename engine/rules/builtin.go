package rules

import (
	"errors"
	"fmt"
	"time"

	"headgate/engine"
)

// minEvents is the number of events from which a share or a quantile means something.
const minEvents = 20

// BuiltIn returns the rules that are there without a file: those of each pool,
// with thresholds from its settings, and those of the process. It fails if a pool's
// settings leave a rule without sense, and says by which arithmetic.
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

// completeRule gives a built-in rule what follows from the settings.
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
		errs = append(errs, fmt.Errorf("built-in rule %s: %s: %s", r.Name, f.field, f.message))
	}
	return d.expand(s), errors.Join(errs...)
}

// poolRules returns the rules of a pool, $pool not filled in.
func poolRules(p Pool, interval time.Duration) []engine.Rule {
	all := queueRules(p)
	all = append(all, outcomeRules(p)...)
	all = append(all, stalledRule(p), envelopeUseRule())
	all = append(all, burnRules()...)
	all = append(all, gateRules(interval)...)
	return append(all, engine.MissingRule(p.Name))
}

func threshold(at float64, d time.Duration) engine.Threshold {
	return engine.Threshold{At: at, For: d, Set: true}
}
