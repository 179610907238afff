package ui

import (
	"math"
	"testing"
	"time"

	"headgate/web/api"
)

func TestFormatValue(t *testing.T) {
	half := 0.5
	for _, c := range []struct {
		v    any
		unit string
		want string
	}{
		{41.23, "s", "41 s"}, {4.26, "s", "4.3 s"}, {0.0, "s", "0 s"}, {220.0, "s", "3 min 40 s"}, {7300.0, "s", "2 h 1 min"},
		{0.05, "ratio", "5 %"}, {0.051, "ratio", "5.1 %"}, {1.42, "ratio", "142 %"}, {-0.2, "ratio", "-20 %"}, {&half, "ratio", "50 %"},
		{212.0, "tasks", "212 tasks"}, {1234567.0, "", "1\u202f234\u202f567"}, {-1234.0, "", "-1\u202f234"}, {89.54, "/min", "89.5 /min"}, {12, "", "12"},
		{math.NaN(), "s", dash}, {math.Inf(1), "", dash}, {(*float64)(nil), "s", dash}, {"x", "s", dash},
	} {
		if got := formatValue(c.v, c.unit); got != c.want {
			t.Errorf("%v %s is shown as %q, want %q", c.v, c.unit, got, c.want)
		}
	}
}

func TestTimesCanBeReadWithoutAScript(t *testing.T) {
	got := string(fullTime(time.Date(2026, 1, 31, 13, 4, 5, 250e6, time.FixedZone("", 3600))))
	if want := `<time datetime="2026-01-31T12:04:05.250Z" data-show="full">31 Jan 2026 12:04:05 UTC</time>`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if fullTime(time.Time{}) != dash || fullTime(api.Time{}) != dash {
		t.Error("the zero time is not shown as a dash")
	}
}
