package loadgen

import (
	"bufio"
	"embed"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// traceHeader is the first line of every trace.
const traceHeader = "arrival_s,prompt_tokens,output_tokens"

// maxTraceLine bounds a line of a trace, in bytes.
const maxTraceLine = 256

// Trace reads recorded arrivals: the header line, then one line for each with
// its time in seconds from the start (plain decimals, at most nine digits after
// the point) and two token counts. Times never decrease. Errors name the line.
// The input may be hostile: lines, rows and numbers are bounded.
func Trace(r io.Reader) (Arrivals, error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, maxTraceLine), maxTraceLine)
	if !lines.Scan() {
		return nil, scanError(lines.Err(), 1, "trace is empty: want the header "+traceHeader)
	}
	if got := lines.Text(); got != traceHeader {
		return nil, fmt.Errorf("trace line 1: got %q, want the header %s", got, traceHeader)
	}
	out, err := traceRows(lines, MaxArrivals)
	if err != nil {
		return nil, err
	}
	if len(out) == 0 {
		return nil, errors.New("trace has a header and no arrivals: want at least one")
	}
	return out, nil
}

func traceRows(lines *bufio.Scanner, limit int) (Arrivals, error) {
	var out Arrivals
	var last time.Duration
	number := 1
	for lines.Scan() {
		number++
		if len(out) == limit {
			return nil, fmt.Errorf("trace line %d: want at most %d arrivals", number, limit)
		}
		a, err := traceRow(lines.Text())
		if err == nil {
			err = a.check(last)
		}
		if err != nil {
			return nil, fmt.Errorf("trace line %d: %w", number, err)
		}
		last = a.At
		out = append(out, a)
	}
	return out, scanError(lines.Err(), number+1, "")
}

// scanError returns the error that ended a scan, or one with the given text if there
// was none.
func scanError(err error, line int, otherwise string) error {
	switch {
	case errors.Is(err, bufio.ErrTooLong):
		return fmt.Errorf("trace line %d: want at most %d bytes", line, maxTraceLine-1)
	case err != nil:
		return fmt.Errorf("read trace line %d: %w", line, err)
	case otherwise != "":
		return errors.New(otherwise)
	}
	return nil
}

func traceRow(line string) (Arrival, error) {
	fields := strings.Split(line, ",")
	if len(fields) != 3 {
		return Arrival{}, fmt.Errorf("got %d fields in %q, want 3: %s", len(fields), line, traceHeader)
	}
	at, err := parseSeconds(fields[0])
	if err != nil {
		return Arrival{}, fmt.Errorf("arrival_s: %w", err)
	}
	prompt, err := parseTokens(fields[1])
	if err != nil {
		return Arrival{}, fmt.Errorf("prompt_tokens: %w", err)
	}
	output, err := parseTokens(fields[2])
	if err != nil {
		return Arrival{}, fmt.Errorf("output_tokens: %w", err)
	}
	return Arrival{At: at, PromptTokens: prompt, OutputTokens: output}, nil
}

// parseSeconds reads plain decimal seconds exactly, and no other form of a duration.
func parseSeconds(s string) (time.Duration, error) {
	whole, fraction, point := strings.Cut(s, ".")
	d, err := time.ParseDuration(s + "s")
	if err != nil || !digits(whole, 9) || point && !digits(fraction, 9) {
		return 0, fmt.Errorf("got %q, want seconds such as 12.345", s)
	}
	return d, nil
}

func parseTokens(s string) (int, error) {
	if !digits(s, 9) {
		return 0, fmt.Errorf("got %q, want a whole number from 0 to %d", s, MaxTokens)
	}
	return strconv.Atoi(s)
}

// digits reports whether s is one to limit decimal digits and nothing else.
func digits(s string, limit int) bool {
	if s == "" || len(s) > limit {
		return false
	}
	return strings.Trim(s, "0123456789") == ""
}

// The recorded traces. Their licence and notice lie beside them, and are
// embedded too so that they travel with the binary.
//
//go:embed traces/code.csv traces/conv.csv traces/README.md traces/LICENSE-Azure-CC-BY-4.0.txt
var traceFiles embed.FS

// CodeTrace returns the recorded arrivals of a coding service: 8,819 in 57
// minutes, on and off, with a peak of 12.7 times the mean. Source and licence
// are in traces/README.md.
func CodeTrace() (Arrivals, error) { return embeddedTrace("traces/code.csv") }

// ConvTrace returns the recorded arrivals of a chat service: 19,366 in 58
// minutes, swelling slowly. Source and licence are as for [CodeTrace].
func ConvTrace() (Arrivals, error) { return embeddedTrace("traces/conv.csv") }

func embeddedTrace(name string) (Arrivals, error) {
	f, err := traceFiles.Open(name)
	if err != nil {
		return nil, fmt.Errorf("recorded traces: %w", err)
	}
	defer f.Close()
	return Trace(f)
}
