package config

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"
)

const day = 24 * time.Hour

var (
	errDuration     = errors.New("must be a duration such as 25s, 1m30s or 30d")
	errDurationUnit = errors.New("must have a unit, such as 30s or 5m")
	errDurationLong = errors.New("must be a shorter duration, at most 290 years")
)

// parseDuration reads Go's durations and, before them, whole days of 24 hours.
func parseDuration(text string) (time.Duration, error) {
	if bareNumber(text) {
		return 0, errDurationUnit
	}
	days, rest := splitDays(text)
	if rest == text {
		return goDuration(text)
	}
	n, err := strconv.ParseInt(days, 10, 64)
	if err != nil || n > int64(math.MaxInt64/day) {
		return 0, errDurationLong
	}
	whole := time.Duration(n) * day
	if rest == "" {
		return whole, nil
	}
	part, err := goDuration(rest)
	switch {
	case err != nil:
		return 0, err
	case rest[0] == '-' || rest[0] == '+':
		return 0, errDuration
	case part > math.MaxInt64-whole:
		return 0, errDurationLong
	}
	return whole + part, nil
}

func goDuration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, errDuration
	}
	return d, nil
}

// splitDays cuts "30d12h" into "30" and "12h". Without days, rest is text.
func splitDays(text string) (days, rest string) {
	days, rest, found := strings.Cut(text, "d")
	if !found || !allDigits(days) {
		return "", text
	}
	return days, rest
}

// formatDuration writes d so that parseDuration reads it back: whole days as
// days, short spans in seconds, the rest as Go does without its zero parts.
func formatDuration(d time.Duration) string {
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

func allDigits(text string) bool {
	return text != "" && strings.Trim(text, "0123456789") == ""
}

// bareNumber reports whether text is a number that lacks a unit.
func bareNumber(text string) bool {
	_, err := strconv.ParseFloat(text, 64)
	return err == nil || errors.Is(err, strconv.ErrRange)
}
