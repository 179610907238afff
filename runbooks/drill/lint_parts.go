package drill

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"headgate/internal/strictyaml"
	"headgate/proxy/fault"
)

func (c *linter) faults(path string, all []Injection) {
	for i, in := range all {
		p := fmt.Sprintf("%s[%d]", path, i)
		c.window(p, in.From, in.For)
		if in.Share == 0 {
			c.reject(p+".share", "must be above 0: a share of 0 has no effect")
		}
		c.kind(p, in.Fault)
	}
	for i, a := range all {
		for _, b := range all[i+1:] {
			if a.Kind == b.Kind && a.From < b.From+b.For && b.From < a.From+a.For {
				c.reject(path, "must not have two faults %s at the same time", a.Kind)
			}
		}
	}
}

// window checks that something lies within the scenario.
func (c *linter) window(path string, from, length time.Duration) {
	d := c.spec.Scenario.Duration
	switch {
	case length <= 0:
		c.reject(path+".for", "must be above 0: a fault ends by itself")
	case from+length > d:
		c.reject(path, "must end within the duration, %s, ends at %s", formatDuration(d), formatDuration(from+length))
	}
}

func (c *linter) kind(path string, f fault.Fault) {
	if !slices.Contains(fault.Kinds(), f.Kind) {
		names := make([]string, 0, len(fault.Kinds()))
		for _, k := range fault.Kinds() {
			names = append(names, string(k))
		}
		c.reject(path+".kind", "must be one of %s, is %s", strings.Join(names, ", "), strictyaml.Quote(string(f.Kind)))
		return
	}
	slow := f.Kind == fault.Latency || f.Kind == fault.Drip
	switch {
	case slow && f.Delay <= 0:
		c.reject(path+".delay", "must be above 0 for %s", f.Kind)
	case !slow && (f.Delay != 0 || f.Jitter != 0):
		c.reject(path+".delay", "has no effect on %s, only on latency and drip", f.Kind)
	case f.Jitter > f.Delay:
		c.reject(path+".jitter", "must be at most the delay, %s, is %s", formatDuration(f.Delay), formatDuration(f.Jitter))
	}
	switch {
	case f.Kind == fault.Status && f.Code == 0:
		c.reject(path+".code", "must say which status from 400 to 599 is answered")
	case f.Kind != fault.Status && f.Code != 0:
		c.reject(path+".code", "has no effect on %s, only on status", f.Kind)
	}
}

func (c *linter) steps() {
	steps := c.spec.Scenario.Steps
	for i, s := range steps {
		p := fmt.Sprintf("scenario.steps[%d]", i)
		switch s.Kind {
		case StepRollback, StepRestore, StepLockRecord, StepLoseSlots:
		default:
			c.reject(p+".do", "must be one of rollback, restore, lock_record and lose_slots, is %s", strictyaml.Quote(string(s.Kind)))
			continue
		}
		if s.At+s.For > c.spec.Scenario.Duration {
			c.reject(p, "must end within the duration, %s, ends at %s", formatDuration(c.spec.Scenario.Duration), formatDuration(s.At+s.For))
		}
		if (s.Kind == StepLoseSlots) != (s.Count > 0) {
			c.reject(p+".count", "must say how many slots are lost, for lose_slots only")
		}
		if s.Kind == StepRestore && !slices.ContainsFunc(steps, func(o Step) bool { return o.Kind == StepRollback && o.At < s.At && o.For == 0 }) {
			c.reject(p, "has nothing to restore: a rollback without for has to come before")
		}
	}
}

// checkExpectations refuses a drill that proves nothing or cannot be stopped.
func (c *linter) checkExpectations() {
	s := c.spec
	if len(s.Expect) == 0 {
		c.reject("expect", "must have at least one expectation, such as late_share <= 5%%: a drill without one proves nothing")
	}
	if len(s.AbortIf) == 0 {
		c.reject("abort_if", "must say when the drill is to stop, such as error_share >= 50%%")
	}
	c.checkUnique("expect", s.Expect)
	c.checkUnique("abort_if", s.AbortIf)
	for i, e := range s.AbortIf {
		if k, _ := lookupMeasure(e.Measure); !k.duringRun {
			c.reject(fmt.Sprintf("abort_if[%d]", i), "%s is known only at the end, when there is nothing to stop", e.Measure)
		}
		if e.Compare == AtLeast && e.Limit == 0 {
			c.reject(fmt.Sprintf("abort_if[%d]", i), "%s holds at once: the drill would always stop", e)
		}
		if e.Compare == AtMost {
			c.reject(fmt.Sprintf("abort_if[%d]", i), "must be written with >=: it says from which value on the drill stops")
		}
	}
	for i, e := range s.Expect {
		if e.Compare == AtLeast && e.Limit == 0 || e.Compare == AtMost && e.Unit == UnitRatio && e.Limit >= 1 {
			c.reject(fmt.Sprintf("expect[%d]", i), "%s always holds: it proves nothing", e)
		}
		c.checkPossible(i, e)
	}
}

// checkUnique refuses the same limit twice.
func (c *linter) checkUnique(path string, all []Expectation) {
	for i, e := range all {
		for _, before := range all[:i] {
			if before.Measure == e.Measure && before.Compare == e.Compare {
				c.reject(fmt.Sprintf("%s[%d]", path, i), "sets %s %s twice", e.Measure, e.Compare)
			}
		}
	}
}

// checkPossible refuses an expectation of something that the scenario does not do.
func (c *linter) checkPossible(i int, e Expectation) {
	s := c.spec.Scenario
	has := func(k StepKind) bool {
		return slices.ContainsFunc(s.Steps, func(st Step) bool { return st.Kind == k })
	}
	p := fmt.Sprintf("expect[%d]", i)
	switch e.Measure {
	case RollbackTime:
		if !has(StepRollback) {
			c.reject(p, "flip_time needs a step rollback")
		}
	case RestoreTime:
		if !has(StepRestore) && !slices.ContainsFunc(s.Steps, func(st Step) bool { return st.Kind == StepRollback && st.For > 0 }) {
			c.reject(p, "restore_time needs a step restore, or a rollback that ends")
		}
	case RefusedInBaseline:
		if s.Baseline == 0 {
			c.reject(p, "refused_in_baseline needs scenario.baseline")
		}
	}
}
