package strictyaml

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

// longUnits are read before Go's own, as PromQL writes them: a year has 365 days.
var longUnits = []struct {
	suffix string
	length time.Duration
}{{"y", 365 * day}, {"w", 7 * day}, {"d", day}}

// ParseDuration reads 0, Go's durations and, before them, whole years, weeks and days: 30d, 1w, 1d12h.
func ParseDuration(text string) (time.Duration, error) {
	if text == "0" {
		return 0, nil
	}
	if BareNumber(text) {
		return 0, errDurationUnit
	}
	var sum time.Duration
	rest := text
	for _, u := range longUnits {
		number, after, found := strings.Cut(rest, u.suffix)
		if !found || !AllDigits(number) {
			continue
		}
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil || n > int64((math.MaxInt64-sum)/u.length) {
			return 0, errDurationLong
		}
		sum, rest = sum+time.Duration(n)*u.length, after
	}
	if rest == "" && text != "" {
		return sum, nil
	}
	part, err := time.ParseDuration(rest)
	switch {
	case err != nil || rest != text && !AllDigits(rest[:1]):
		return 0, errDuration
	case part > math.MaxInt64-sum:
		return 0, errDurationLong
	}
	return sum + part, nil
}

// AllDigits says whether text is one or more digits.
func AllDigits(text string) bool { return text != "" && strings.Trim(text, "0123456789") == "" }

// BareNumber says whether text is a number without a unit.
func BareNumber(text string) bool {
	_, err := strconv.ParseFloat(text, 64)
	return err == nil || errors.Is(err, strconv.ErrRange)
}
