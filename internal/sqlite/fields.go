package sqlite

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"headgate/proxy/admission"
)

// Bounds of what is kept, in bytes.
const (
	maxID     = 64
	maxName   = 255  // pools, actors, writers, words
	maxReason = 2000 // what people write
	maxSchema = maxLength
)

// maxNumber bounds numbers, so that one more is always possible, and so that
// JavaScript can hold them.
const maxNumber = 1<<53 - 1

// maxTime is the end of the year 9999, the last that RFC 3339 can write.
const maxTime = 253402300799999

// rowDecoder reads the values of one row. The first that makes no sense is kept in
// bad, which names its column but not its value.
type rowDecoder struct {
	table string
	err   error
}

func (f *rowDecoder) fail(column string) {
	if f.err == nil {
		f.err = fmt.Errorf("%w: a value of %s.%s makes no sense", ErrCorrupt, f.table, column)
	}
}

// raw reads a text as it is.
func (f *rowDecoder) raw(column string, v any) string {
	s, ok := v.(string)
	if !ok || len(s) > maxSchema {
		f.fail(column)
		return ""
	}
	return s
}

// text reads a text for people. Characters that could play tricks on a
// terminal become spaces.
func (f *rowDecoder) text(column string, v any, most int) string {
	s, ok := v.(string)
	if !ok || len(s) > most || !utf8.ValidString(s) {
		f.fail(column)
		return ""
	}
	return clean(s, most)
}

// id reads an ID.
func (f *rowDecoder) id(column string, v any) string {
	s, ok := v.(string)
	if !ok || !validID(s) {
		f.fail(column)
		return ""
	}
	return s
}

// number reads a whole number from 0 to most.
func (f *rowDecoder) number(column string, v any, most int64) int64 {
	n, ok := v.(int64)
	if !ok || n < 0 || n > most {
		f.fail(column)
		return 0
	}
	return n
}

// time reads milliseconds.
func (f *rowDecoder) time(column string, v any) time.Time {
	return time.UnixMilli(f.number(column, v, maxTime)).UTC()
}

// mode reads the name of a mode.
func (f *rowDecoder) mode(column string, v any) admission.Mode {
	m, err := admission.ParseMode(f.text(column, v, maxName))
	if err != nil {
		f.fail(column)
	}
	return m
}

// validID says whether a text can be the ID of a row and part of a key.
func validID(s string) bool {
	return s != "" && len(s) <= maxID && strings.IndexFunc(s, func(r rune) bool {
		return r != '-' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	}) < 0
}

// clean makes a text fit to be kept and shown: valid, on one line, not too long.
// Refusing it instead would keep the change that it belongs to out of the record.
func clean(s string, most int) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
	if len(s) <= most {
		return s
	}
	cut := most
	for !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut]
}
