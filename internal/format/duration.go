package format

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

const day = 24 * time.Hour

// Unknown is shown for a number that is not finite.
const Unknown = "?"

// Duration writes d exactly, in the form that settings, drills and command flags
// accept: 90s, 5m, 1h30m, 2d. Whole seconds below five minutes stay seconds,
// because limits such as 60s and 90s are usually written so.
func Duration(d time.Duration) string {
	switch {
	case d > 0 && d%day == 0:
		return strconv.FormatInt(int64(d/day), 10) + "d"
	case d >= 0 && d < 5*time.Minute && d%time.Second == 0:
		return strconv.FormatInt(int64(d/time.Second), 10) + "s"
	}
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// Style selects how tightly units are written.
type Style int

const (
	// Text separates numbers and units: "2 min 5 s", "12 %". For sentences, messages and pages.
	Text Style = iota
	// Table leaves no spaces and keeps columns even: "2m05s", "12%". For terminals.
	Table
)

// Duration writes a duration in its two largest units, to the second.
func (s Style) Duration(d time.Duration) string {
	if d < 0 {
		return "-" + s.Duration(-d)
	}
	d = d.Round(time.Second)
	switch {
	case d < time.Minute:
		return s.unit(strconv.Itoa(int(d/time.Second)), "s")
	case d < time.Hour:
		return s.pair(d, time.Minute, time.Second, "min", "s")
	case d < 2*day:
		return s.pair(d, time.Hour, time.Minute, "h", "min")
	default:
		return s.pair(d, day, time.Hour, "d", "h")
	}
}

// pair writes d in a large and a small unit. Text leaves out a small part of zero.
func (s Style) pair(d, large, small time.Duration, largeName, smallName string) string {
	a, b := int(d/large), int(d%large/small)
	if s == Table {
		return fmt.Sprintf("%d%c%02d%c", a, largeName[0], b, smallName[0])
	}
	if b == 0 {
		return fmt.Sprintf("%d %s", a, largeName)
	}
	return fmt.Sprintf("%d %s %d %s", a, largeName, b, smallName)
}

// Seconds writes a duration given in seconds at a glance: one decimal below 10 s,
// whole seconds below 100 s, then the two largest units.
func (s Style) Seconds(v float64) string {
	a := math.Abs(v)
	switch {
	case !(a <= math.MaxInt32): // NaN too
		return Unknown
	case a < 9.95:
		return s.unit(strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64), "s")
	case a < 99.5:
		return s.unit(strconv.FormatFloat(v, 'f', 0, 64), "s")
	}
	return s.Duration(time.Duration(v * float64(time.Second)))
}

// Ago writes how long ago something was, in its largest unit: "5 minutes ago".
func Ago(d time.Duration) string {
	switch {
	case d < time.Minute:
		return "just now"
	case d < time.Hour:
		return Plural(int(d/time.Minute), "minute") + " ago"
	case d < day:
		return Plural(int(d/time.Hour), "hour") + " ago"
	default:
		return Plural(int(d/day), "day") + " ago"
	}
}

// Time writes a time to the second, in UTC: "2006-01-02 15:04:05 UTC". The zero time is "?".
func Time(t time.Time) string { return utc(t, "2006-01-02 15:04:05 UTC") }

// Minute writes a time to the minute, in UTC: "2006-01-02 15:04 UTC". The zero time is "?".
func Minute(t time.Time) string { return utc(t, "2006-01-02 15:04 UTC") }

func utc(t time.Time, layout string) string {
	if t.IsZero() {
		return Unknown
	}
	return t.UTC().Format(layout)
}
