package loadgen

import (
	_ "embed"
	"encoding/csv"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Bounds on a profile. They keep a mistyped number from using all memory.
const (
	// MaxArrivals is the largest expected number of arrivals.
	MaxArrivals = 2_000_000
	// MaxTokens is the largest prompt or output of one arrival, in tokens.
	MaxTokens = 1 << 20
	// MaxSpan is the latest time of an arrival.
	MaxSpan = 366 * 24 * time.Hour
)

// Arrival is one request of a load.
type Arrival struct {
	At           time.Duration // intended time, scenario time from the start
	PromptTokens int           // size of the prompt
	OutputTokens int           // sent as max_tokens; 0 leaves it to the endpoint
	Large        bool          // the large prompt of a profile; false for recorded arrivals
}

// Arrivals is a load held in memory, in order of time.
type Arrivals []Arrival

// Source yields the arrivals in order.
func (s Arrivals) Source() iter.Seq[Arrival] { return slices.Values(s) }

// The recorded arrivals. Their licence and notice lie beside them.
//
//go:embed traces/code.csv
var codeTrace string

// CodeTrace returns the recorded arrivals of a coding service: 8,819 in 57
// minutes, on and off, with a peak of 12.7 times the mean. Source and licence
// are in traces/README.md.
func CodeTrace() (Arrivals, error) {
	rows, err := csv.NewReader(strings.NewReader(codeTrace)).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("recorded arrivals: %w", err)
	}
	var out Arrivals
	for _, row := range rows[1:] { // the first has the names of the columns
		at, timeErr := time.ParseDuration(row[0] + "s")
		prompt, promptErr := strconv.Atoi(row[1])
		output, outputErr := strconv.Atoi(row[2])
		if err := errors.Join(timeErr, promptErr, outputErr); err != nil {
			return nil, fmt.Errorf("recorded arrivals: %w", err)
		}
		out = append(out, Arrival{At: at, PromptTokens: prompt, OutputTokens: output})
	}
	return out, nil
}
