package loadgen

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestTraceReads(t *testing.T) {
	for name, rows := range map[string]string{
		"plain":             "0,1,2\n0.5,3,4\n0.5,0,0\n10.123456789,1048576,1048576\n",
		"no last line end":  "0,1,2\n0.5,3,4\n0.5,0,0\n10.123456789,1048576,1048576",
		"carriage returns":  "0,1,2\r\n0.5,3,4\r\n0.5,0,0\r\n10.123456789,1048576,1048576\r\n",
		"leading zeros too": "00.000,01,2\n0.50,3,04\n0.5,0,0\n10.123456789,1048576,1048576\n",
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Trace(strings.NewReader(traceHeader + "\n" + rows))
			if err != nil {
				t.Fatal(err)
			}
			want := Arrivals{
				{At: 0, PromptTokens: 1, OutputTokens: 2},
				{At: 500 * time.Millisecond, PromptTokens: 3, OutputTokens: 4},
				{At: 500 * time.Millisecond},
				{At: 10_123_456_789, PromptTokens: MaxTokens, OutputTokens: MaxTokens},
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestTraceRefuses(t *testing.T) {
	h := traceHeader + "\n"
	for name, c := range map[string]struct {
		in   string
		says []string
	}{
		"nothing":            {"", []string{"empty", traceHeader}},
		"no header":          {"0,1,2\n", []string{"line 1", `"0,1,2"`, traceHeader}},
		"byte order mark":    {"\ufeff" + h + "0,1,2\n", []string{"line 1", `\ufeff`}},
		"other columns":      {"time,prompt,output\n", []string{"line 1"}},
		"header only":        {h, []string{"no arrivals"}},
		"long header":        {strings.Repeat("a", 1000), []string{"line 1", "at most 255 bytes"}},
		"empty line":         {h + "\n0,1,2\n", []string{"line 2", "1 fields"}},
		"two fields":         {h + "0,1\n", []string{"line 2", "2 fields"}},
		"four fields":        {h + "0,1,2,3\n", []string{"line 2", "4 fields"}},
		"quoted":             {h + "\"0\",1,2\n", []string{"line 2", "arrival_s"}},
		"NaN":                {h + "0,1,2\nNaN,1,2\n", []string{"line 3", "arrival_s", `"NaN"`}},
		"infinite":           {h + "Inf,1,2\n", []string{"line 2", "arrival_s"}},
		"exponent":           {h + "1e3,1,2\n", []string{"line 2", "arrival_s"}},
		"hexadecimal":        {h + "0x10,1,2\n", []string{"line 2", "arrival_s"}},
		"underscore":         {h + "1_0,1,2\n", []string{"line 2", "arrival_s"}},
		"sign":               {h + "+1,1,2\n", []string{"line 2", "arrival_s"}},
		"negative":           {h + "-1,1,2\n", []string{"line 2", "arrival_s"}},
		"space":              {h + " 1,1,2\n", []string{"line 2", "arrival_s"}},
		"no whole part":      {h + ".5,1,2\n", []string{"line 2", "arrival_s"}},
		"no fraction":        {h + "1.,1,2\n", []string{"line 2", "arrival_s"}},
		"two points":         {h + "1.2.3,1,2\n", []string{"line 2", "arrival_s"}},
		"too exact":          {h + "1.0123456789,1,2\n", []string{"line 2", "arrival_s"}},
		"other digits":       {h + "١,1,2\n", []string{"line 2", "arrival_s"}},
		"too late":           {h + "999999999,1,2\n", []string{"line 2", "want at most"}},
		"overflow":           {h + "99999999999999999999,1,2\n", []string{"line 2", "arrival_s"}},
		"backwards":          {h + "2,1,2\n1.999,1,2\n", []string{"line 3", "never decrease"}},
		"fractional tokens":  {h + "0,1.5,2\n", []string{"line 2", "prompt_tokens"}},
		"negative tokens":    {h + "0,-1,2\n", []string{"line 2", "prompt_tokens"}},
		"no output":          {h + "0,1,\n", []string{"line 2", "output_tokens"}},
		"too many tokens":    {h + "0,1048577,2\n", []string{"line 2", "prompt tokens"}},
		"overflowing tokens": {h + "0,1,99999999999999999999\n", []string{"line 2", "output_tokens"}},
		"long line":          {h + "0,1,2\n" + strings.Repeat("0", 10_000), []string{"line 3", "at most 255 bytes"}},
		"NUL":                {h + "0,1,2\x00\n", []string{"line 2", "output_tokens"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Trace(strings.NewReader(c.in))
			wantError(t, err, c.says...)
			if got != nil {
				t.Errorf("got %d arrivals beside the error, want none", len(got))
			}
		})
	}
}

func TestTraceIsBoundedInRows(t *testing.T) {
	rows := strings.Repeat("0,1,2\n", 4)
	_, err := traceRows(bufio.NewScanner(strings.NewReader(rows)), 3)
	wantError(t, err, "line 5", "at most 3 arrivals")
	if got, err := traceRows(bufio.NewScanner(strings.NewReader(rows)), 4); err != nil || len(got) != 4 {
		t.Errorf("got %d arrivals and %v, want the four that are allowed", len(got), err)
	}
}

func TestTracePassesOnReadErrors(t *testing.T) {
	broken := errors.New("disk fell off")
	_, err := Trace(io.MultiReader(strings.NewReader(traceHeader+"\n0,1,2\n"), iotest.ErrReader(broken)))
	if !errors.Is(err, broken) {
		t.Errorf("got %v, want it to wrap the read error", err)
	}
	wantError(t, err, "line 3")
}

func TestRecordedTracesComplete(t *testing.T) {
	for name, c := range map[string]struct {
		read           func() (Arrivals, error)
		rows           int
		span           time.Duration
		mean, peak, cv float64
		prompt, output sizes
		fullest, empty int // minutes
	}{
		"code": {CodeTrace, 8819, 3435_948 * time.Millisecond, 2.57, 12.7, 13.15, sizes{1469, 7315, 7437}, sizes{13, 90, 1899}, 632, 12},
		"conv": {ConvTrace, 19366, 3501_722 * time.Millisecond, 5.53, 1.8, 1.09, sizes{1020, 4083, 14050}, sizes{129, 451, 1000}, 507, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := c.read()
			if err != nil {
				t.Fatal(err)
			}
			st := s.stats()
			if st.Count != c.rows || st.Span != c.span || s[0].At != 0 {
				t.Errorf("%d rows over %v from %v, want %d over %v from 0", st.Count, st.Span, s[0].At, c.rows, c.span)
			}
			approxEqual(t, "mean rate", st.MeanRate, c.mean, 0.005)
			approxEqual(t, "peak ÷ mean", st.PeakRate/st.MeanRate, c.peak, 0.05)
			approxEqual(t, "gap variation", st.GapVariation, c.cv, 0.005)
			if st.Prompt != c.prompt || st.Output != c.output {
				t.Errorf("prompt %v, output %v, want %v and %v", st.Prompt, st.Output, c.prompt, c.output)
			}
			if fullest, empty := minutes(s); fullest != c.fullest || empty != c.empty {
				t.Errorf("fullest minute %d, %d empty, want %d and %d", fullest, empty, c.fullest, c.empty)
			}
		})
	}
}

func approxEqual(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tolerance) {
		t.Errorf("%s: got %v, want %v ± %v", what, got, want, tolerance)
	}
}

func minutes(s Arrivals) (fullest, empty int) {
	counts := make([]int, s[len(s)-1].At/time.Minute+1)
	for _, a := range s {
		counts[a.At/time.Minute]++
	}
	for _, c := range counts {
		fullest = max(fullest, c)
		if c == 0 {
			empty++
		}
	}
	return fullest, empty
}

func TestLongestSilenceOfTheCodeTrace(t *testing.T) {
	s, err := CodeTrace()
	if err != nil {
		t.Fatal(err)
	}
	approxEqual(t, "longest gap in seconds", s.stats().LongestGap.Seconds(), 217, 0.5)
}

func TestTraceNoticeTravelsWithTheTraces(t *testing.T) {
	var text string
	for _, name := range []string{"traces/README.md", "traces/LICENSE-Azure-CC-BY-4.0.txt"} {
		part, err := traceFiles.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		text += string(part)
	}
	for _, want := range []string{"Azure LLM inference trace 2023", "CC BY 4.0", "Patel et al.", "Changes:", "Creative Commons Attribution 4.0 International"} {
		if !strings.Contains(text, want) {
			t.Errorf("the notice does not say %q", want)
		}
	}
}

func FuzzTrace(f *testing.F) {
	f.Add(traceHeader + "\n0.000,4808,10\n0.052,3180,8\n")
	f.Add(traceHeader + "\r\n1,2,3")
	f.Add(traceHeader + "\n1e9,2,3\n")
	f.Add("\x00\n\n,,,")
	f.Fuzz(func(t *testing.T, in string) {
		got, err := Trace(strings.NewReader(in))
		if err != nil {
			if got != nil {
				t.Fatal("arrivals beside an error")
			}
			return
		}
		again, err := Collect(got.Source())
		if err != nil || len(again) == 0 {
			t.Fatalf("an accepted trace is no good source: %v, %d arrivals", err, len(again))
		}
		if back, err := Trace(strings.NewReader(write(got))); err != nil || !cmp.Equal(got, back) {
			t.Fatalf("written and read again it differs: %v", err)
		}
	})
}

// write gives the text that reads as s.
func write(s Arrivals) string {
	var b strings.Builder
	b.WriteString(traceHeader + "\n")
	for _, a := range s {
		fmt.Fprintf(&b, "%d.%09d,%d,%d\n", a.At/time.Second, a.At%time.Second, a.PromptTokens, a.OutputTokens)
	}
	return b.String()
}
