package spec

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"headgate/internal/format"
	"headgate/internal/strictyaml"
	"headgate/runbooks/drill"
	"headgate/runbooks/drill/schedule"
)

const (
	maxID       = 63
	maxNote     = 4000
	maxRate     = 1000 // tasks per second
	maxSlots    = 10_000
	maxSeed     = 1 << 53
	minDuration = 10 * time.Second
)

// validate checks what the settings of a definition mean together.
func validate(d *strictyaml.Decoder, path string, s *drill.Spec, set Settings) {
	c := linter{Decoder: d, path: path, spec: s, settings: set}
	c.bounds()
	c.identity()
	c.target()
	c.times()
	c.load()
	c.faults("scenario.faults", s.Scenario.Faults)
	c.faults("scenario.slack", s.Scenario.Slack)
	c.steps()
	c.checkExpectations()
}

// Validate says what is wrong with a spec that was not read from a file, as SpecErrors.
func Validate(s drill.Spec, set Settings) error {
	d := strictyaml.NewDecoder("")
	validate(d, "", &s, set)
	return d.Err()
}

type linter struct {
	*strictyaml.Decoder
	path     string
	spec     *drill.Spec
	settings Settings
}

func (c *linter) reject(path, format string, args ...any) {
	c.Reportf(strictyaml.Join(c.path, path), format, args...)
}

func (c *linter) rejectIf(wrong bool, path, format string, args ...any) {
	if wrong {
		c.reject(path, format, args...)
	}
}

// bounds checks the limits of single settings.
func (c *linter) bounds() {
	s := c.spec
	for _, t := range []struct {
		path, text string
		most       int
	}{
		{"id", s.ID, maxID}, {"name", s.Name, drill.MaxText}, {"note", s.Note, maxNote}, {"owner", s.Owner, drill.MaxText},
		{"pool", s.Pool, drill.MaxText}, {"scenario.service", s.Scenario.Service, drill.MaxText},
	} {
		c.rejectIf(utf8.RuneCountInString(t.text) > t.most, t.path, "must be at most %d characters", t.most)
	}
	c.within("speed", s.Speed, 1, drill.MaxSpeed)
	c.within("scenario.workers", float64(s.Scenario.Workers), 0, maxSlots)
	c.within("scenario.arrivals.rate", s.Scenario.Arrivals.Rate, 0, maxRate)
	c.within("scenario.arrivals.rest", s.Scenario.Arrivals.Rest, 0, maxRate)
	c.rejectIf(s.Scenario.Seed > maxSeed, "scenario.seed", "must be a whole number from 0 to %d", uint64(maxSeed))
}

func (c *linter) within(path string, v, least, most float64) {
	c.rejectIf(v < least || v > most, path, "must be a number from %v to %v, is %v", least, most, v)
}

var idPattern = regexp.MustCompile(`^[a-z][a-z0-9]*([-_][a-z0-9]+)*$`)

func (c *linter) identity() {
	s := c.spec
	c.rejectIf(!idPattern.MatchString(s.ID),
		"id", "must be a word that stays with the drill, of small letters, digits and dashes, "+
			"such as weekly-burst; is %s", strictyaml.Quote(s.ID))
	zone := s.Zone
	if _, err := schedule.ParseZone(s.Zone); err != nil {
		c.reject("zone", "must be a time zone such as Europe/Berlin or UTC, is %s", strictyaml.Quote(s.Zone))
		zone = ""
	}
	c.rejectIf(s.Zone != "" && s.Schedule == "", "zone", "has no effect without a schedule")
	if s.Schedule != "" {
		if _, err := schedule.ParseSchedule(s.Schedule, zone); err != nil {
			c.reject("schedule", "%v", err)
		}
	}
	c.rejectIf(s.CatchUp > 0 && s.Schedule == "", "catch_up", "has no effect without a schedule")
}

func (c *linter) target() {
	s := c.spec
	c.rejectIf(len(c.settings.Pools) > 0 && s.Pool != "" && !slices.Contains(c.settings.Pools, s.Pool),
		"pool", "must be one of %s, is %s", strings.Join(c.settings.Pools, ", "), strictyaml.Quote(s.Pool))
	switch s.Target {
	case drill.Twin:
		c.rejectIf(s.Share != 0 || s.Marked, "share", "and marked are for target: live; a twin is loaded as a whole")
	case drill.Live:
		c.live()
	default:
		c.reject("target", "must be twin or live, is %s", strictyaml.Quote(string(s.Target)))
	}
}

// live checks what may touch production.
func (c *linter) live() {
	s := c.spec
	switch {
	case !c.settings.AllowLive:
		c.reject("target", "must be twin: live touches production, and needs allow_live: true in the settings")
	case s.Share == 0 && !s.Marked:
		c.reject("share", "must say how much of production may be touched, at most %v, or use marked: true",
			drill.MaxLiveShare)
	}
	c.rejectIf(s.Share > drill.MaxLiveShare, "share", "must be at most %v, is %v", drill.MaxLiveShare, s.Share)
	c.rejectIf(s.Speed != 1, "speed", "must be 1 for a live drill: production runs no faster")
	c.rejectIf(len(s.Scenario.Slack) > 0 || len(s.Scenario.Steps) > 0,
		"scenario", "must have only faults for a live drill: steps and faults to Slack are for a twin")
	sc := s.Scenario
	c.rejectIf(sc.Workers != 0 || sc.Service != "" || sc.Arrivals.Rate != 0 || len(sc.Arrivals.Bursts) > 0,
		"scenario", "must leave out workers, service and arrivals for a live drill: they are production's own")
	c.rejectIf(len(s.Scenario.Faults) == 0, "scenario.faults", "must name at least one fault for a live drill")
	for i, e := range slices.Concat(s.Expect, s.AbortIf) {
		if k, _ := drill.LookupMeasure(e.Measure); !k.Live {
			c.reject("expect", "%s cannot be seen by a live drill (expectation %d)", e.Measure, i+1)
		}
	}
}

func (c *linter) times() {
	s := c.spec
	d, least, whole := s.Scenario.Duration, format.Duration(minDuration), s.TotalDuration()
	c.rejectIf(d < minDuration, "scenario.duration", "must be at least %s, is %s", least, format.Duration(d))
	c.rejectIf(s.Recovery < minDuration,
		"recovery", "must be at least %s: the time limit for the steady state to return; is %s",
		least, format.Duration(s.Recovery))
	c.rejectIf(whole > drill.MaxDuration,
		"scenario.duration", "must be at most %s together with baseline and recovery, is %s",
		format.Duration(drill.MaxDuration), format.Duration(whole))
}

func (c *linter) load() {
	s := c.spec.Scenario
	if c.spec.Target == drill.Live {
		return
	}
	c.rejectIf(s.Arrivals.Rate <= 0, "scenario.arrivals.rate", "must be above 0: without load nothing can be seen")
	if !servicePattern.MatchString(s.Service) {
		c.reject("scenario.service", "must be the time that calls take, such as uniform:5s-30s, lognormal:10s,0.6 "+
			"or fixed:10s; is %s", strictyaml.Quote(s.Service))
	} else if c.settings.Service != nil {
		if err := c.settings.Service(s.Service); err != nil {
			c.reject("scenario.service", "%v", err)
		}
	}
	bursts := slices.Clone(s.Arrivals.Bursts)
	for i, b := range bursts {
		p := fmt.Sprintf("scenario.arrivals.bursts[%d]", i)
		c.within(p+".times", b.Multiple, 0, maxRate)
		switch {
		case b.To <= b.From:
			c.reject(p, "must end after it begins: to is %s, from %s", format.Duration(b.To), format.Duration(b.From))
		case b.To > s.Duration:
			c.reject(p+".to", "must be at most the duration, %s, is %s", format.Duration(s.Duration), format.Duration(b.To))
		}
	}
	slices.SortFunc(bursts, func(a, b drill.Burst) int { return int(a.From - b.From) })
	for i := 1; i < len(bursts); i++ {
		if bursts[i].From < bursts[i-1].To {
			c.reject("scenario.arrivals.bursts", "must not overlap: one is from %s to %s, the next begins at %s",
				format.Duration(bursts[i-1].From), format.Duration(bursts[i-1].To), format.Duration(bursts[i].From))
		}
	}
	if n := s.ExpectedTasks(c.spec.Recovery); n > drill.MaxTasks {
		c.reject("scenario.arrivals", "must send at most %d tasks in all, sends %.0f", drill.MaxTasks, n)
	}
}

var servicePattern = regexp.MustCompile(`^(fixed|uniform|lognormal|bimodal|tokens):[0-9a-z.,µ-]+$`)

func (c *linter) faults(path string, all []drill.Injection) {
	for i, in := range all {
		p := fmt.Sprintf("%s[%d]", path, i)
		c.window(p, in.From, in.For)
		c.rejectIf(in.Share == 0, p+".share", "must be above 0: a share of 0 has no effect")
		if err := in.Fault.Validate(); err != nil { // which begins with the name of the setting
			field, why, _ := strings.Cut(err.Error(), ": ")
			c.reject(p+"."+field, "%s", why)
		}
	}
	for i, a := range all {
		for _, b := range all[i+1:] {
			c.rejectIf(a.Kind == b.Kind && a.From < b.From+b.For && b.From < a.From+a.For,
				path, "must not have two faults %s at the same time", a.Kind)
		}
	}
}

// window checks that something lies within the scenario.
func (c *linter) window(path string, from, length time.Duration) {
	d := c.spec.Scenario.Duration
	switch {
	case length <= 0:
		c.reject(path+".for", "must be above 0: every fault has a time limit")
	case from+length > d:
		c.reject(path, "must end within the duration, %s, ends at %s", format.Duration(d), format.Duration(from+length))
	}
}

func (c *linter) steps() {
	steps, duration := c.spec.Scenario.Steps, c.spec.Scenario.Duration
	for i, s := range steps {
		p := fmt.Sprintf("scenario.steps[%d]", i)
		switch s.Kind {
		case drill.StepRollback, drill.StepRestore, drill.StepLockRecord, drill.StepLoseSlots:
		default:
			c.reject(p+".do", "must be one of rollback, restore, lock_record and lose_slots, is %s",
				strictyaml.Quote(string(s.Kind)))
			continue
		}
		c.rejectIf(s.At+s.For > duration,
			p, "must end within the duration, %s, ends at %s", format.Duration(duration), format.Duration(s.At+s.For))
		c.within(p+".count", float64(s.Count), 0, maxSlots)
		c.rejectIf((s.Kind == drill.StepLoseSlots) != (s.Count > 0),
			p+".count", "must say how many slots are lost, for lose_slots only")
		rollback := func(o drill.Step) bool { return o.Kind == drill.StepRollback && o.At < s.At && o.For == 0 }
		c.rejectIf(s.Kind == drill.StepRestore && !slices.ContainsFunc(steps, rollback),
			p, "has nothing to restore: a rollback without for has to come before")
	}
}

// checkExpectations refuses a drill that proves nothing or cannot be stopped.
func (c *linter) checkExpectations() {
	s := c.spec
	c.rejectIf(len(s.Expect) == 0,
		"expect", "must have at least one expectation, such as late_share <= 5%%: "+
			"a drill without one proves nothing")
	c.rejectIf(len(s.AbortIf) == 0, "abort_if", "must say when the drill is to stop, such as error_share >= 50%%")
	c.checkUnique("expect", s.Expect)
	c.checkUnique("abort_if", s.AbortIf)
	for i, e := range s.AbortIf {
		if k, _ := drill.LookupMeasure(e.Measure); !k.DuringRun {
			c.reject(fmt.Sprintf("abort_if[%d]", i), "%s is known only at the end, too late to stop the drill", e.Measure)
		}
		c.rejectIf(e.Compare == drill.AtLeast && e.Limit == 0,
			fmt.Sprintf("abort_if[%d]", i), "%s holds at once: the drill would always stop", e)
		c.rejectIf(e.Compare == drill.AtMost,
			fmt.Sprintf("abort_if[%d]", i), "must be written with >=: it says from which value on the drill stops")
	}
	for i, e := range s.Expect {
		whole := e.Compare == drill.AtMost && e.Unit == drill.UnitRatio && e.Limit >= 1
		c.rejectIf(e.Compare == drill.AtLeast && e.Limit == 0 || whole,
			fmt.Sprintf("expect[%d]", i), "%s always holds: it proves nothing", e)
		c.checkPossible(i, e)
	}
}

// checkUnique refuses the same limit twice.
func (c *linter) checkUnique(path string, all []drill.Expectation) {
	for i, e := range all {
		for _, before := range all[:i] {
			c.rejectIf(before.Measure == e.Measure && before.Compare == e.Compare,
				fmt.Sprintf("%s[%d]", path, i), "sets %s %s twice", e.Measure, e.Compare)
		}
	}
}

// checkPossible refuses an expectation of something that the scenario does not do.
func (c *linter) checkPossible(i int, e drill.Expectation) {
	s := c.spec.Scenario
	has := func(k drill.StepKind, ends bool) bool {
		return slices.ContainsFunc(s.Steps, func(st drill.Step) bool { return st.Kind == k && (st.For > 0 || !ends) })
	}
	p := fmt.Sprintf("expect[%d]", i)
	switch {
	case e.Measure == drill.RollbackTime && !has(drill.StepRollback, false):
		c.reject(p, "flip_time needs a step rollback")
	case e.Measure == drill.RestoreTime && !has(drill.StepRestore, false) && !has(drill.StepRollback, true):
		c.reject(p, "restore_time needs a step restore, or a rollback that ends")
	case e.Measure == drill.RefusedInBaseline && s.Baseline == 0:
		c.reject(p, "refused_in_baseline needs scenario.baseline")
	}
}
