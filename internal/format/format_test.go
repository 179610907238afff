package format_test

import (
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"headgate/internal/format"
)

func TestDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 90 * time.Second: "90s", 5 * time.Minute: "5m", 90 * time.Minute: "1h30m", 2 * time.Hour: "2h",
		48 * time.Hour: "2d", 400 * time.Second: "6m40s", 1500 * time.Millisecond: "1.5s", -time.Hour: "-1h",
	} {
		if got := format.Duration(d); got != want {
			t.Errorf("Duration(%v) = %q, want %q", d, got, want)
		}
	}
}

func TestStyles(t *testing.T) {
	for _, c := range []struct{ name, text, table, wantText, wantTable string }{
		{"tenths", format.Text.Seconds(3.21), format.Table.Seconds(3.21), "3.2 s", "3.2s"},
		{"rounded up to ten", format.Text.Seconds(9.97), format.Table.Seconds(9.97), "10 s", "10s"},
		{"whole seconds", format.Text.Seconds(75.4), format.Table.Seconds(75.4), "75 s", "75s"},
		{"minutes", format.Text.Seconds(125), format.Table.Seconds(125), "2 min 5 s", "2m05s"},
		{"whole minutes", format.Text.Seconds(120), format.Table.Seconds(120), "2 min", "2m00s"},
		{"hours", format.Text.Seconds(7500), format.Table.Seconds(7500), "2 h 5 min", "2h05m"},
		{"days", format.Text.Duration(75 * time.Hour), format.Table.Duration(75 * time.Hour), "3 d 3 h", "3d03h"},
		{"before", format.Text.Seconds(-3.2), format.Table.Seconds(-200), "-3.2 s", "-3m20s"},
		{"not a number", format.Text.Seconds(math.NaN()), format.Table.Seconds(math.Inf(1)), "?", "?"},
		{"value in seconds", format.Text.Value(25.34, "s"), format.Table.Value(25.34, "s"), "25.3 s", "25.3s"},
		{"long value", format.Text.Value(600, "s"), format.Table.Value(600, "s"), "10 min", "10m00s"},
		{"ratio", format.Text.Value(0.051, "ratio"), format.Table.Value(0.051, "ratio"), "5.1 %", "5.1%"},
		{"factor", format.Text.Value(14.4, "burn"), format.Table.Value(2, "x"), "14.4×", "2×"},
		{"things", format.Text.Value(9, "tasks"), format.Table.Value(9, "tasks"), "9 tasks", "9 tasks"},
		{"plain", format.Text.Value(0.5, ""), format.Table.Value(1234.4, ""), "0.5", "1234"},
	} {
		if c.text != c.wantText || c.table != c.wantTable {
			t.Errorf("%s: text %q, table %q, want %q, %q", c.name, c.text, c.table, c.wantText, c.wantTable)
		}
	}
}

func TestNumbers(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 7: "7", 12.34: "12.3", 1.005: "1", 0.126: "0.13", 0.00123: "0.0012", 99.96: "100", 12345.6: "12346",
		3e15: "3e+15",
	} {
		if got := format.Number(v); got != want {
			t.Errorf("Number(%v) = %q, want %q", v, got, want)
		}
	}
	for n, want := range map[int64]string{0: "0", 999: "999", 1234: "1\u202f234", -1234567: "-1\u202f234\u202f567",
		math.MinInt64: "-9\u202f223\u202f372\u202f036\u202f854\u202f775\u202f808"} {
		if got := format.Count(n); got != want {
			t.Errorf("Count(%d) = %q, want %q", n, got, want)
		}
	}
}

func TestTimesAndCounts(t *testing.T) {
	at := time.Date(2026, 3, 1, 9, 30, 15, 0, time.FixedZone("", 3600))
	for got, want := range map[string]string{
		format.Time(at):                               "2026-03-01 08:30:15 UTC",
		format.Minute(at):                             "2026-03-01 08:30 UTC",
		format.Time(time.Time{}):                      "?",
		format.Ago(time.Second):                       "just now",
		format.Ago(3 * time.Hour):                     "3 hours ago",
		format.Plural(1, "day"):                       "1 day",
		format.Plural(2, "day"):                       "2 days",
		format.List([]string{"a", "b", "c"}, "; ", 2): "a; b; and 1 more",
		format.List(nil, ", ", 2):                     "",
		format.FirstLine("one\ntwo"):                  "one",
		format.Line(" a \n b\t"):                      "a b",
		format.Sentence("the queue is full"):          "The queue is full",
		format.Sentence("p95_turnaround is 3 s"):      "p95_turnaround is 3 s",
		format.Printable("a\x1b[2Jé"):                 "a\uFFFD[2Jé",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func FuzzTruncate(f *testing.F) {
	f.Add("grüße", 3)
	f.Add("日本語", 4)
	f.Add("", 0)
	f.Fuzz(func(t *testing.T, s string, n int) {
		if n < 0 || n > 1000 || !utf8.ValidString(s) {
			return
		}
		got := format.Truncate(s, n)
		if utf8.RuneCountInString(got) > n || !utf8.ValidString(got) ||
			!strings.HasPrefix(s, strings.TrimSuffix(got, format.Ellipsis)) {
			t.Errorf("Truncate(%q, %d) = %q", s, n, got)
		}
		got = format.TruncateBytes(s, n)
		if len(got) > n || !utf8.ValidString(got) || !strings.HasPrefix(s, strings.TrimSuffix(got, format.Ellipsis)) {
			t.Errorf("TruncateBytes(%q, %d) = %q", s, n, got)
		}
	})
}
