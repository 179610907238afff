package sqlite

import (
	"math"
	"slices"
	"strings"
	"time"

	"headgate/engine"
)

// maxWord bounds words that the program itself makes, such as kinds of events.
const maxWord = 32

// ms writes a time that may be missing: 0 while it is.
func ms(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return min(max(t.UnixMilli(), 1), maxTime)
}

// btoi writes a flag.
func btoi(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// countValue writes a number of things.
func countValue(n int) int64 { return int64(clampCount(n)) }

// finiteOrZero writes a number that need not be whole. SQL and JSON know no others than
// finite ones.
func finiteOrZero(v float64) float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return 0
	}
	return v
}

// cleanName writes a name.
func cleanName(s string) string { return clean(s, maxName) }

// optionalTime reads a time that may be missing.
func (f *rowDecoder) optionalTime(column string, v any) time.Time {
	if n := f.number(column, v, maxTime); n > 0 {
		return time.UnixMilli(n).UTC()
	}
	return time.Time{}
}

// flag reads 0 or 1.
func (f *rowDecoder) flag(column string, v any) bool { return f.number(column, v, 1) == 1 }

// count reads a number of things.
func (f *rowDecoder) count(column string, v any) int { return int(f.number(column, v, math.MaxInt32)) }

// duration reads a length of time, in nanoseconds.
func (f *rowDecoder) duration(column string, v any) time.Duration {
	return time.Duration(f.number(column, v, math.MaxInt64))
}

// finite reads a finite number. One without a fraction may come as a whole one.
func (f *rowDecoder) finite(column string, v any) float64 {
	switch n := v.(type) {
	case int64:
		return float64(n)
	case float64:
		if n == finiteOrZero(n) {
			return n
		}
	}
	f.fail(column)
	return 0
}

// optionalID reads an ID, or the empty text.
func (f *rowDecoder) optionalID(column string, v any) string {
	if v == "" {
		return ""
	}
	return f.id(column, v)
}

// keyName reads a name that is part of a key: it must not have to be altered.
func (f *rowDecoder) keyName(column string, v any) string {
	s, ok := v.(string)
	if !ok || !isName(s) {
		f.fail(column)
		return ""
	}
	return s
}

// word reads a word that the program has made, or the empty text. Which words
// there are is not asked: later versions may know more.
func (f *rowDecoder) word(column string, v any) string {
	s, ok := v.(string)
	if !ok || !isWord(s) {
		f.fail(column)
		return ""
	}
	return s
}

func isWord(s string) bool {
	return len(s) <= maxWord && strings.IndexFunc(s, func(r rune) bool { return r != '_' && (r < 'a' || r > 'z') }) < 0
}

// isName says whether a text can be a name that is part of a key.
func isName(s string) bool { return s != "" && cleanName(s) == s }

// oneOf reads a word that must be one of those given.
func (f *rowDecoder) oneOf(column string, v any, words []string) string {
	s, _ := v.(string)
	if !slices.Contains(words, s) {
		f.fail(column)
		return ""
	}
	return s
}

// level reads a level.
func (f *rowDecoder) level(column string, v any) engine.Level {
	for _, l := range []engine.Level{engine.LevelNone, engine.LevelWarn, engine.LevelPage} {
		if v == l.String() {
			return l
		}
	}
	f.fail(column)
	return engine.LevelNone
}
