package drill

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"headgate/internal/strictyaml"
	"headgate/proxy/fault"
)

// Bounds of a drill.
const (
	MaxSpeed     = 100           // beyond it rules cannot be evaluated often enough
	MaxDuration  = 2 * time.Hour // of baseline, scenario and recovery together: Run.Series holds a point for each second
	MaxLiveShare = 0.25          // of production's tasks
	MaxLiveTasks = 200           // of production that a run touches, whatever its share
	maxID        = 63
	minDuration  = 10 * time.Second
)

func faultKind(text string) fault.Kind { return fault.Kind(text) }

// validate checks what the settings of a definition mean together.
func (l specReader) validate(path string, s *Spec, set Settings) {
	c := linter{specReader: l, path: path, spec: s, settings: set}
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
func Validate(s Spec, set Settings) error {
	l := newSpecReader("")
	l.validate("", &s, set)
	return l.Err()
}

type linter struct {
	specReader
	path     string
	spec     *Spec
	settings Settings
}

func (c *linter) reject(path, format string, args ...any) {
	c.Reportf(strictyaml.Join(c.path, path), format, args...)
}

var idPattern = regexp.MustCompile(`^[a-z][a-z0-9]*([-_][a-z0-9]+)*$`)

func (c *linter) identity() {
	s := c.spec
	if !idPattern.MatchString(s.ID) {
		c.reject("id", "must be a word that stays with the drill, of small letters, digits and dashes, such as weekly-burst; is %s", strictyaml.Quote(s.ID))
	}
	zone := s.Zone
	if s.Zone != "" {
		if _, err := ParseZone(s.Zone); err != nil {
			c.reject("zone", "must be a time zone such as Europe/Berlin or UTC, is %s", strictyaml.Quote(s.Zone))
			zone = ""
		}
		if s.Schedule == "" {
			c.reject("zone", "has no effect without a schedule")
		}
	}
	if s.Schedule != "" {
		if _, err := ParseSchedule(s.Schedule, zone); err != nil {
			c.reject("schedule", "%v", err)
		}
	}
	if s.CatchUp > 0 && s.Schedule == "" {
		c.reject("catch_up", "has no effect without a schedule")
	}
}

func (c *linter) target() {
	s := c.spec
	if len(c.settings.Pools) > 0 && s.Pool != "" && !slices.Contains(c.settings.Pools, s.Pool) {
		c.reject("pool", "must be one of %s, is %s", strings.Join(c.settings.Pools, ", "), strictyaml.Quote(s.Pool))
	}
	switch s.Target {
	case Twin:
		if s.Share != 0 || s.Marked {
			c.reject("share", "and marked are for target: live; a twin is loaded as a whole")
		}
	case Live:
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
		c.reject("share", "must say how much of production may be touched, at most %v, or use marked: true", MaxLiveShare)
	}
	if s.Share > MaxLiveShare {
		c.reject("share", "must be at most %v, is %v", MaxLiveShare, s.Share)
	}
	if s.Speed != 1 {
		c.reject("speed", "must be 1 for a live drill: production runs no faster")
	}
	if len(s.Scenario.Slack) > 0 || len(s.Scenario.Steps) > 0 {
		c.reject("scenario", "must have only faults for a live drill: steps and faults to Slack are for a twin")
	}
	if s.Scenario.Workers != 0 || s.Scenario.Service != "" || s.Scenario.Arrivals.Rate != 0 || len(s.Scenario.Arrivals.Bursts) > 0 {
		c.reject("scenario", "must leave out workers, service and arrivals for a live drill: they are production's own")
	}
	if len(s.Scenario.Faults) == 0 {
		c.reject("scenario.faults", "must name at least one fault for a live drill")
	}
	for i, e := range slices.Concat(s.Expect, s.AbortIf) {
		if k, _ := lookupMeasure(e.Measure); !k.live {
			c.reject("expect", "%s cannot be seen by a live drill (expectation %d)", e.Measure, i+1)
		}
	}
}

func (c *linter) times() {
	s := c.spec
	d := s.Scenario.Duration
	if d < minDuration {
		c.reject("scenario.duration", "must be at least %s, is %s", formatDuration(minDuration), formatDuration(d))
	}
	if s.Recovery < minDuration {
		c.reject("recovery", "must be at least %s: how long it may take until all is as before; is %s", formatDuration(minDuration), formatDuration(s.Recovery))
	}
	if whole := d + s.Scenario.Baseline + s.Recovery; whole > MaxDuration {
		c.reject("scenario.duration", "must be at most %s together with baseline and recovery, is %s", formatDuration(MaxDuration), formatDuration(whole))
	}
}

func (c *linter) load() {
	s := c.spec.Scenario
	if c.spec.Target == Live {
		return
	}
	if s.Arrivals.Rate <= 0 {
		c.reject("scenario.arrivals.rate", "must be above 0: without load nothing can be seen")
	}
	if !servicePattern.MatchString(s.Service) {
		c.reject("scenario.service", "must be the time that calls take, such as uniform:5s-30s, lognormal:10s,0.6 or fixed:10s; is %s", strictyaml.Quote(s.Service))
	} else if c.settings.Service != nil {
		if err := c.settings.Service(s.Service); err != nil {
			c.reject("scenario.service", "%v", err)
		}
	}
	bursts := slices.Clone(s.Arrivals.Bursts)
	for i, b := range bursts {
		p := fmt.Sprintf("scenario.arrivals.bursts[%d]", i)
		switch {
		case b.To <= b.From:
			c.reject(p, "must end after it begins: to is %s, from %s", formatDuration(b.To), formatDuration(b.From))
		case b.To > s.Duration:
			c.reject(p+".to", "must be at most the duration, %s, is %s", formatDuration(s.Duration), formatDuration(b.To))
		}
	}
	slices.SortFunc(bursts, func(a, b Burst) int { return int(a.From - b.From) })
	for i := 1; i < len(bursts); i++ {
		if bursts[i].From < bursts[i-1].To {
			c.reject("scenario.arrivals.bursts", "must not overlap: one is from %s to %s, the next begins at %s",
				formatDuration(bursts[i-1].From), formatDuration(bursts[i-1].To), formatDuration(bursts[i].From))
		}
	}
	if n := s.expectedTasks(c.spec.Recovery); n > MaxTasks {
		c.reject("scenario.arrivals", "must come to at most %d tasks, comes to %.0f", MaxTasks, n)
	}
}

// expectedTasks is how many are expected.
func (s Scenario) expectedTasks(recovery time.Duration) float64 {
	n := s.Arrivals.Rate*(s.Baseline+s.Duration).Seconds() + s.Arrivals.Rest*recovery.Seconds()
	for _, b := range s.Arrivals.Bursts {
		n += s.Arrivals.Rate * (b.Multiple - 1) * (b.To - b.From).Seconds()
	}
	return n
}

var servicePattern = regexp.MustCompile(`^(fixed|uniform|lognormal|bimodal|tokens):[0-9a-z.,µ-]+$`)
