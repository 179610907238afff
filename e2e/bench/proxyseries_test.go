package bench

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// series are the values of one side, one a round.
type series []float64

func (s series) median() float64 {
	if len(s) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(s))
	mid := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[mid]
	}
	return (sorted[mid-1] + sorted[mid]) / 2
}

// spread is the median with the least and the greatest value.
func (s series) spread(format string) string {
	if len(s) == 0 {
		return "-"
	}
	return fmt.Sprintf(format+" ("+format+" .. "+format+")", s.median(), slices.Min(s), slices.Max(s))
}

// against combines two sides round by round, so that what changed between
// rounds hits both.
func (s series) against(other series, f func(a, b float64) float64) series {
	var out series
	for i := range min(len(s), len(other)) {
		out = append(out, f(s[i], other[i]))
	}
	return out
}

func quotient(a, b float64) float64   { return a / b }
func difference(a, b float64) float64 { return a - b }

// logTable writes rows in columns to where benchmarks report.
func logTable(title string, rows [][]string) {
	fmt.Println("\n" + title)
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	_ = w.Flush() // a failed print changes no measurement
}

// cpuTime is the processor time that a process has used, or 0 where the system does not
// report it.
func cpuTime(pid int) time.Duration {
	const perTick = 10 * time.Millisecond // USER_HZ is 100 wherever Go runs on Linux
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), ") ") // the name before may hold spaces
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0
	}
	var ticks int64
	for _, field := range fields[11:13] { // utime and stime
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0
		}
		ticks += n
	}
	return time.Duration(ticks) * perTick
}
