package format

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Ellipsis ends a truncated text.
const Ellipsis = "…"

// Truncate shortens s to at most n characters, the ellipsis included.
func Truncate(s string, n int) string {
	if len(s) <= n || utf8.RuneCountInString(s) <= n {
		return s
	}
	if n < 1 {
		return ""
	}
	return string([]rune(s)[:n-1]) + Ellipsis
}

// TruncateBytes shortens s to at most n bytes, the ellipsis included, and never splits
// a character. For fields whose storage is bounded in bytes.
func TruncateBytes(s string, n int) string {
	if len(s) <= n {
		return s
	}
	end := n - len(Ellipsis)
	if end < 0 {
		return ""
	}
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + Ellipsis
}

// FirstLine returns the first line of s.
func FirstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

// Line joins the words of s by single spaces, so that it fits on one line.
func Line(s string) string { return strings.Join(strings.Fields(s), " ") }

// Printable replaces characters that move a cursor, hide text or are otherwise not
// printable. For text from outside that goes to a terminal or into a log.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return utf8.RuneError
		}
		return r
	}, s)
}

// List joins items by the separator and says how many it left out beyond the limit.
func List(items []string, separator string, limit int) string {
	if n := len(items) - limit; n > 0 {
		return strings.Join(items[:limit], separator) + fmt.Sprintf("%sand %d more", separator, n)
	}
	return strings.Join(items, separator)
}

// Sentence makes a clause the beginning of a sentence. A first word that names a
// setting or a measure, such as slo.turnaround, keeps its spelling.
func Sentence(clause string) string {
	if word, _, _ := strings.Cut(clause, " "); strings.ContainsAny(word, "_.:") {
		return clause
	}
	r, n := utf8.DecodeRuneInString(clause)
	if n == 0 {
		return clause
	}
	return string(unicode.ToUpper(r)) + clause[n:]
}
