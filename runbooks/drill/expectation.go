package drill

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"headgate/internal/strictyaml"
)

// ParseExpectation reads a limit to a measure, such as "p95_turnaround <= 60s",
// "late_share <= 5%" or "pages == 1". The value is written in the measure's unit:
// a duration, a share as a percentage or a number up to 1, or a whole number.
func ParseExpectation(text string) (Expectation, error) {
	var e Expectation
	if len(text) > MaxText {
		return e, fmt.Errorf("must be at most %d characters", MaxText)
	}
	name, rest, compare, ok := splitComparison(text)
	if !ok {
		return e, errors.New("must be a measure, one of <=, >= and ==, and a value, such as p95_turnaround <= 60s")
	}
	k, known := LookupMeasure(Measure(name))
	if !known {
		return e, fmt.Errorf("unknown measure %s; known: %s", strictyaml.Quote(name), measureNames())
	}
	limit, err := parseLimit(rest, k.Unit)
	if err != nil {
		return e, fmt.Errorf("%s %w", name, err)
	}
	return Expectation{Measure: k.Measure, Compare: compare, Limit: limit, Unit: k.Unit}, nil
}

func splitComparison(text string) (name, rest string, c Compare, ok bool) {
	for _, c := range []Compare{AtMost, AtLeast, Equal} {
		if name, rest, ok := strings.Cut(text, string(c)); ok {
			return strings.TrimSpace(name), strings.TrimSpace(rest), c, true
		}
	}
	return "", "", "", false
}

func measureNames() string {
	var names []string
	for _, m := range Measures() {
		names = append(names, string(m))
	}
	return strings.Join(names, ", ")
}

func parseLimit(text, unit string) (float64, error) {
	switch unit {
	case UnitSeconds:
		d, err := ParseDuration(text)
		if err != nil {
			return 0, fmt.Errorf("is a time: %w", err)
		}
		return d.Seconds(), nil
	case UnitRatio:
		return ParseShare(text)
	}
	number := strings.TrimSpace(strings.TrimSuffix(text, unit))
	n, err := strconv.ParseUint(number, 10, 31)
	if err != nil {
		return 0, fmt.Errorf("is a number of %s: must be a whole number, is %s", unit, strictyaml.Quote(text))
	}
	return float64(n), nil
}

// ParseShare reads 5% or 0.05.
func ParseShare(text string) (float64, error) {
	number, percent := strings.CutSuffix(text, "%")
	v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if percent {
		v /= 100
	}
	if err != nil || math.IsNaN(v) || v < 0 || v > 1 {
		return 0, fmt.Errorf("is a share: must be 0 to 1 or 0%% to 100%%, is %s", strictyaml.Quote(text))
	}
	return v, nil
}

// maxDuration bounds durations in definitions.
const maxDuration = 400 * 24 * time.Hour

// ParseDuration reads 90s, 1m30s and 2d.
func ParseDuration(text string) (time.Duration, error) {
	d, err := strictyaml.ParseDuration(text)
	if err != nil || d < 0 || d > maxDuration {
		return 0, fmt.Errorf("must be a duration such as 90s, 5m or 7d, is %s", strictyaml.Quote(text))
	}
	return d, nil
}

// String writes an expectation so that ParseExpectation reads it back.
func (e Expectation) String() string {
	limit := FormatAmount(e.Limit, e.Unit)
	if back, err := parseLimit(limit, e.Unit); err != nil || back != e.Limit {
		limit = strconv.FormatFloat(e.Limit, 'f', -1, 64)
		if e.Unit == UnitSeconds {
			limit += "s"
		}
	}
	return fmt.Sprintf("%s %s %s", e.Measure, e.Compare, limit)
}

// FormatAmount writes a value with its unit, as people read it.
func FormatAmount(v float64, unit string) string {
	switch unit {
	case UnitRatio:
		return formatNumber(v*100) + "%"
	case UnitSeconds:
		return formatNumber(v) + "s"
	}
	return formatNumber(v)
}

// formatNumber writes a number with at most three decimals.
func formatNumber(v float64) string {
	return strconv.FormatFloat(math.Round(v*1000)/1000, 'f', -1, 64)
}

// Holds says whether a value keeps to its limit.
func (e Expectation) Holds(v float64) bool {
	switch e.Compare {
	case AtMost:
		return v <= e.Limit
	case AtLeast:
		return v >= e.Limit
	}
	return v == e.Limit
}

// Margin is how far a value stays from its limit, as a share of the limit: above 0
// it holds, below 0 it does not. A limit of 0 has no shares: there the distance
// itself counts. A value that has to be met exactly has no margin to spare.
func (e Expectation) Margin(v float64) float64 {
	scale := e.Limit
	if scale == 0 {
		scale = 1
	}
	switch e.Compare {
	case AtMost:
		return Finite((e.Limit - v) / scale)
	case AtLeast:
		return Finite((v - e.Limit) / scale)
	}
	return Finite(-math.Abs(v-e.Limit) / scale)
}

// Finite keeps a number writable as JSON.
func Finite(v float64) float64 {
	const most = 1e9
	if math.IsNaN(v) || v == 0 { // JSON knows -0
		return 0
	}
	return max(-most, min(most, v))
}

// Units of measures.
const (
	UnitSeconds  = "s"
	UnitRatio    = "ratio"
	UnitTasks    = "tasks"
	UnitMessages = "messages"
	UnitFaults   = "faults"
	UnitCalls    = "calls"
)

// MeasureInfo of a measure.
type MeasureInfo struct {
	Measure   Measure
	Unit      string
	Live      bool // known of a live run as well
	DuringRun bool // known while the run goes on, so that abort_if may use it
}

// measureTable is what is known of every measure, in the order in which people read them.
var measureTable = []MeasureInfo{
	{LateShare, UnitRatio, true, true},
	{P95, UnitSeconds, true, true},
	{MissingRetryAfter, UnitTasks, true, true},
	{RefusedShare, UnitRatio, true, true},
	{RefusedInBaseline, UnitTasks, true, true},
	{OverLimit, UnitCalls, true, true},
	{TimeToWarn, UnitSeconds, false, false},
	{TimeToPage, UnitSeconds, false, false},
	{TimeToResolve, UnitSeconds, false, false},
	{Pages, UnitMessages, false, true},
	{MessageFaults, UnitFaults, false, true},
	{DrainedWithin, UnitSeconds, false, false},
	{RollbackTime, UnitSeconds, false, false},
	{RestoreTime, UnitSeconds, false, false},
	{TasksLost, UnitTasks, true, false},
	{FalseCompletions, UnitTasks, true, true},
	{ErrorShare, UnitRatio, true, true},
	{ServedShare, UnitRatio, true, false},
	{ProductionDrift, UnitTasks, true, false},
	{MessagesLost, UnitMessages, false, false},
}

// Measures returns every measure, in the order in which people read them.
func Measures() []Measure {
	all := make([]Measure, 0, len(measureTable))
	for _, k := range measureTable {
		all = append(all, k.Measure)
	}
	return all
}

// Unit is the unit of a measure; empty for one that does not exist.
func (m Measure) Unit() string {
	k, _ := LookupMeasure(m)
	return k.Unit
}

// LookupMeasure returns what is known of a measure, and whether it exists.
func LookupMeasure(m Measure) (MeasureInfo, bool) {
	for _, k := range measureTable {
		if k.Measure == m {
			return k, true
		}
	}
	return MeasureInfo{}, false
}
