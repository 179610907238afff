package config

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

var (
	errWhole  = errors.New("must be a whole number")
	errNumber = errors.New("must be a number such as 0.95")
	errBool   = errors.New("must be true or false")
)

// isText reports whether v is one of our types that are written as text.
func isText(v reflect.Value) bool {
	switch v.Interface().(type) {
	case time.Duration, Bytes:
		return true
	}
	return false
}

// scalar fills references in and sets target to what the text then says.
func (d *decoder) scalar(n *yaml.Node, target any, path string) {
	if n.Kind != yaml.ScalarNode {
		d.report(path, fmt.Sprintf("must be a single value, is %s", kindOf(n)))
		return
	}
	text, refs, err := d.expander.expand(n.Value)
	if err != nil {
		d.report(path, err.Error())
		return
	}
	if refs != "" {
		d.source.references[path] = refs
	} else if needsQuotes(n, target) {
		d.report(path, "must be text, is "+kindOf(n)+": put it in quotes")
		return
	}
	if err := setScalar(target, text); err != nil {
		d.report(path, d.withActual(path, err.Error(), quote(text)))
	}
}

// needsQuotes reports whether YAML takes n for something else than the text that
// is wanted. Numbers in quotes where a number is wanted do no harm.
func needsQuotes(n *yaml.Node, target any) bool {
	switch target.(type) {
	case *string, *Secret:
		return n.ShortTag() != "!!str"
	}
	return false
}

func setScalar(target any, text string) (err error) {
	switch t := target.(type) {
	case *string:
		*t = text
	case *Secret:
		*t = NewSecret(text)
	case *bool:
		err = setParsed(t, text, parseBool, nil)
	case *int:
		err = setParsed(t, text, strconv.Atoi, errWhole)
	case *float64:
		err = setParsed(t, text, func(s string) (float64, error) { return strconv.ParseFloat(s, 64) }, errNumber)
	case *time.Duration:
		err = setParsed(t, text, parseDuration, nil)
	case *Bytes:
		err = setParsed(t, text, parseBytes, nil)
	default:
		err = fmt.Errorf("cannot be set: no rule reads a %T", target)
	}
	return err
}

// parseBool takes the two words of YAML 1.2 and no others.
func parseBool(text string) (bool, error) {
	switch text {
	case "true", "false":
		return text == "true", nil
	}
	return false, errBool
}

// setParsed leaves target alone when text cannot be parsed, so that its default
// stays and no second problem follows. A non-nil instead replaces the error.
func setParsed[T any](target *T, text string, parse func(string) (T, error), instead error) error {
	value, err := parse(text)
	switch {
	case err != nil && instead != nil:
		return instead
	case err != nil:
		return err
	}
	*target = value
	return nil
}

// kindOf names what a node is, in words for people. It never shows its content.
func kindOf(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	switch n.ShortTag() {
	case "!!int", "!!float":
		return "a number"
	case "!!bool":
		return "true or false"
	case "!!timestamp":
		return "a date"
	}
	return "text"
}

// withActual adds to a rule what was found instead, unless it was filled in: that may be
// secret, so only its origin is named.
func (l *checker) withActual(path, rule, shown string) string {
	if origin := l.source.reference(path); origin != "" {
		return rule + ", unlike what comes from " + origin
	}
	return rule + ", is " + shown + l.defaultSuffix(path)
}

// defaultSuffix tells that nobody wrote the setting at path, if so.
func (l *checker) defaultSuffix(path string) string {
	if l.source.isSet(path) {
		return ""
	}
	return " by default"
}

// quote shows text on one line and not at length.
func quote(text string) string {
	const most = 60
	if runes := []rune(text); len(runes) > most {
		text = string(runes[:most]) + "..."
	}
	return strconv.Quote(text)
}

// Bytes is a size in bytes. In a file it is a whole number with a unit: B, kB,
// MB, GB (powers of 1000) or KiB, MiB, GiB, TiB (powers of 1024).
type Bytes int64

var (
	errBytes     = errors.New("must be a size such as 32MiB, 512KiB or 64MB")
	errBytesUnit = errors.New("must have a unit, such as 32MiB or 64kB")
	errBytesBig  = errors.New("must be a smaller size, less than 8388608TiB")
)

// sizeUnits runs from long to short suffixes, so that B comes last.
var sizeUnits = []struct {
	suffix string
	factor int64
}{
	{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", mib}, {"KiB", kib},
	{"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}, {"B", 1},
}

// String writes the size in the largest binary unit that divides it, so that it
// reads back as the same number.
func (b Bytes) String() string {
	for _, u := range sizeUnits {
		if binary := len(u.suffix) == 3; binary && b != 0 && int64(b)%u.factor == 0 {
			return strconv.FormatInt(int64(b)/u.factor, 10) + u.suffix
		}
	}
	return strconv.FormatInt(int64(b), 10) + "B"
}

func parseBytes(text string) (Bytes, error) {
	if bareNumber(text) {
		return 0, errBytesUnit
	}
	for _, u := range sizeUnits {
		number, found := strings.CutSuffix(text, u.suffix)
		if !found {
			continue
		}
		number = strings.TrimSuffix(number, " ")
		if !allDigits(number) {
			return 0, errBytes
		}
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil || n > math.MaxInt64/u.factor {
			return 0, errBytesBig
		}
		return Bytes(n * u.factor), nil
	}
	return 0, errBytes
}

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
