package engine

import (
	"errors"
	"fmt"
	"math"
)

// CheckRules says what is wrong with rules, all of it at once. It knows nothing
// of the language of signals.
func CheckRules(rules []Rule) error {
	var errs []error
	seen := make(map[Key]bool, len(rules))
	for _, r := range rules {
		if r.Name == "" {
			errs = append(errs, errors.New("a rule has no name"))
		}
		if seen[r.Key()] {
			errs = append(errs, fmt.Errorf("rule %q is there twice for pool %q", r.Name, r.Pool))
		}
		seen[r.Key()] = true
		if err := r.check(); err != nil {
			errs = append(errs, fmt.Errorf("rule %q of pool %q: %w", r.Name, r.Pool, err))
		}
	}
	return errors.Join(errs...)
}

func (r Rule) check() error {
	if !r.Warn.Set && !r.Page.Set {
		return errors.New("it has neither a warn nor a page threshold")
	}
	for _, v := range []float64{r.Warn.At, r.Page.At, r.Clear.Below} {
		if !finite(v) {
			return fmt.Errorf("%v is no threshold: it must be a finite number", v)
		}
	}
	if r.Warn.For < 0 || r.Page.For < 0 || r.Clear.For < 0 {
		return errors.New("for must not be negative")
	}
	if r.Warn.Set && r.Page.Set && r.Warn.At > r.Page.At {
		return fmt.Errorf("warn at %v is above page at %v", r.Warn.At, r.Page.At)
	}
	if r.Clear.Below > r.lowestThreshold().At {
		return fmt.Errorf("clear below %v is above the first threshold, %v", r.Clear.Below, r.lowestThreshold().At)
	}
	return nil
}

// lowestThreshold returns the lower threshold.
func (r Rule) lowestThreshold() Threshold {
	if r.Warn.Set {
		return r.Warn
	}
	return r.Page
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
