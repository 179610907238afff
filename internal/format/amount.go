package format

import (
	"math"
	"strconv"
	"strings"
)

// Value writes an amount with its unit. Unlike Seconds it keeps three digits,
// because a value is read beside the limit that it is compared with.
func (s Style) Value(v float64, unit string) string {
	switch unit {
	case "":
		return Number(v)
	case "ratio":
		return s.Percent(v)
	case "s", "seconds":
		if math.Abs(v) >= 100 {
			return s.Seconds(v)
		}
		return s.unit(Number(v), "s")
	case "burn", "x", "×":
		return Number(v) + "×"
	default:
		return Number(v) + " " + Printable(Truncate(unit, 30))
	}
}

// Percent writes a share of 1 as a percentage with three digits at most.
func (s Style) Percent(share float64) string { return s.unit(Number(share*100), "%") }

func (s Style) unit(number, unit string) string {
	if s == Table {
		return number + unit
	}
	return number + " " + unit
}

// Number writes three digits, or all digits before the decimal point.
func Number(v float64) string {
	switch a := math.Abs(v); {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return Unknown
	case a >= 1e15:
		return strconv.FormatFloat(v, 'g', 3, 64)
	case a >= 100 || v == math.Trunc(v):
		return strconv.FormatFloat(v, 'f', 0, 64)
	case a >= 10:
		return trimZeros(strconv.FormatFloat(v, 'f', 1, 64))
	case a >= 0.01:
		return trimZeros(strconv.FormatFloat(v, 'f', 2, 64))
	default:
		return strconv.FormatFloat(v, 'g', 2, 64)
	}
}

func trimZeros(s string) string {
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
}

// Count writes a whole number with a thin space between thousands.
func Count(n int64) string {
	digits := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, digits = "-", digits[1:]
	}
	out := ""
	for len(digits) > 3 {
		out = "\u202f" + digits[len(digits)-3:] + out
		digits = digits[:len(digits)-3]
	}
	return sign + digits + out
}

// Plural writes a number of things: "1 task", "3 tasks", "2 replies".
func Plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	if stem, ok := strings.CutSuffix(noun, "y"); ok && stem != "" && !strings.ContainsAny(stem[len(stem)-1:], "aeou") {
		noun = stem + "ie"
	}
	return Count(int64(n)) + " " + noun + "s"
}
