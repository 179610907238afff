package rules

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Pool is what thresholds are derived from.
type Pool struct {
	Name          string        `yaml:"name"`
	Workers       int           `yaml:"workers" min:"1" max:"1000000"`
	SLO           time.Duration `yaml:"slo"`                                  // on turnaround
	Objective     float64       `yaml:"objective"`                            // share of tasks that meet the SLO, between 0 and 1
	Window        time.Duration `yaml:"window"`                               // over which the objective is counted
	MaxQueueAge   time.Duration `yaml:"max_queue_age"`                        // above which arrivals are refused
	DepthMultiple int           `yaml:"depth_multiple" min:"1" max:"1000000"` // of Workers, above which arrivals are refused
}

// Settings are what rules are checked against and expanded for.
type Settings struct {
	Pools     []Pool
	Interval  time.Duration // between evaluations
	SlowEvery time.Duration // between evaluations of a slow rule
	Retention time.Duration // of samples
	Runbooks  []string      // names of existing pages
}

// minEvaluations is how many evaluations a breach has to last, at least.
const minEvaluations = 5

// minFor returns the shortest duration that a threshold may have.
func (s Settings) minFor(slow bool) time.Duration {
	if slow {
		return minEvaluations * max(s.SlowEvery, s.Interval)
	}
	return minEvaluations * s.Interval
}

func (s Settings) pool(name string) (Pool, bool) {
	i := slices.IndexFunc(s.Pools, func(p Pool) bool { return p.Name == name })
	if i < 0 {
		return Pool{}, false
	}
	return s.Pools[i], true
}

func (s Settings) poolNames() string {
	var names []string
	for _, p := range s.Pools {
		names = append(names, p.Name)
	}
	return strings.Join(names, ", ")
}

var variablePattern = regexp.MustCompile(`\$[A-Za-z_][A-Za-z0-9_]*|\$`)

// variables are the values that an expression may refer to.
func (p Pool) variables() map[string]string {
	return map[string]string{
		"$pool":          p.Name,
		"$workers":       strconv.Itoa(p.Workers),
		"$slo":           formatNumber(p.SLO.Seconds()),
		"$budget":        formatNumber(p.budget()),
		"$max_queue_age": formatNumber(p.MaxQueueAge.Seconds()),
	}
}

// substitute replaces variables by the pool's values.
func (p Pool) substitute(expr string) string {
	known := p.variables()
	return variablePattern.ReplaceAllStringFunc(expr, func(name string) string {
		if v, ok := known[name]; ok {
			return v
		}
		return name
	})
}

// budget is the share of tasks that may be bad, without the rounding error of the subtraction.
func (p Pool) budget() float64 { return math.Round((1-p.Objective)*1e15) / 1e15 }

// unknownVariable returns the first unknown variable, or "".
func unknownVariable(expr string) string {
	known := Pool{}.variables()
	for _, name := range variablePattern.FindAllString(expr, -1) {
		if _, ok := known[name]; !ok {
			return name
		}
	}
	return ""
}

// usesPoolVariables says whether an expression differs between pools.
func usesPoolVariables(exprs ...string) bool {
	return slices.ContainsFunc(exprs, func(e string) bool { return variablePattern.MatchString(e) })
}

func formatNumber(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// check refuses impossible values of a pool.
func (p Pool) check() error {
	switch {
	case p.Name == "":
		return fmt.Errorf("a pool has no name")
	case p.Workers < 1 || p.DepthMultiple < 1:
		return fmt.Errorf("pool %s: workers %d and depth multiple %d must be at least 1", p.Name, p.Workers,
			p.DepthMultiple)
	case p.SLO <= 0 || p.MaxQueueAge <= 0 || p.Window <= 0:
		return fmt.Errorf("pool %s: SLO %s, its window %s and the queue age %s must be above 0", p.Name, p.SLO,
			p.Window, p.MaxQueueAge)
	case !(p.Objective > 0 && p.Objective < 1):
		return fmt.Errorf("pool %s: the objective is %v: it must be between 0 and 1", p.Name, p.Objective)
	}
	return nil
}
