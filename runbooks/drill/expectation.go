package drill

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"headgate/internal/strictyaml"
)

// ParseExpectation reads a limit to a measure, such as "p95_turnaround <= 60s", "late_share <= 5%" or "pages == 1". The
// value is in the measure's unit: a duration, a share as a percentage or a number up to 1, or a whole number.
func ParseExpectation(text string) (Expectation, error) {
	var e Expectation
	if len(text) > MaxText {
		return e, fmt.Errorf("must be at most %d characters", MaxText)
	}
	name, rest, compare, ok := splitComparison(text)
	if !ok {
		return e, errors.New("must be a measure, one of <=, >= and ==, and a value, such as p95_turnaround <= 60s")
	}
	k, ok := LookupMeasure(Measure(name))
	if !ok {
		known := strings.Trim(fmt.Sprint(Measures()), "[]")
		return e, fmt.Errorf("unknown measure %s; known: %s", strictyaml.Quote(name), known)
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

// String writes an expectation so that ParseExpectation can read it.
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

// Holds says whether a value satisfies the limit.
func (e Expectation) Holds(v float64) bool {
	switch e.Compare {
	case AtMost:
		return v <= e.Limit
	case AtLeast:
		return v >= e.Limit
	}
	return v == e.Limit
}

// Margin is how far a value is from its limit, as a share of the limit: above 0 it holds, below 0 it does not. For a
// limit of 0 it is the distance itself. A value that has to be met exactly has a margin of at most 0.
func (e Expectation) Margin(v float64) float64 {
	scale := cmp.Or(e.Limit, 1)
	switch e.Compare {
	case AtMost:
		return Finite((e.Limit - v) / scale)
	case AtLeast:
		return Finite((v - e.Limit) / scale)
	}
	return Finite(-math.Abs(v-e.Limit) / scale)
}

// Finite returns a number that JSON can represent.
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

// MeasureInfo describes a measure.
type MeasureInfo struct {
	Measure   Measure
	Unit      string
	Live      bool // known of a live run too
	DuringRun bool // known during the run, so that abort_if may use it
}

// measureTable describes every measure, in the order in which people read them.
var measureTable = []MeasureInfo{
	{LateShare, UnitRatio, true, true},
	{P95, UnitSeconds, true, true},
	{BadRetryAfter, UnitTasks, true, true},
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

// LookupMeasure returns the description of a measure, and whether it exists.
func LookupMeasure(m Measure) (MeasureInfo, bool) {
	i := slices.IndexFunc(measureTable, func(k MeasureInfo) bool { return k.Measure == m })
	if i < 0 {
		return MeasureInfo{}, false
	}
	return measureTable[i], true
}
