package proxy

import (
	"encoding/binary"
	"math/bits"
)

func (j *jsonScanner) scanLiteral(w string) error {
	if len(j.text)-j.pos < len(w) || string(j.text[j.pos:j.pos+len(w)]) != w {
		return errNotJSON
	}
	j.pos += len(w)
	return nil
}

// scanString reads from one quote to the other.
func (j *jsonScanner) scanString() error {
	j.pos++
	for {
		j.pos += plainPrefix(j.text[j.pos:])
		if j.pos >= len(j.text) {
			return errNotJSON
		}
		switch c := j.text[j.pos]; {
		case c == '"':
			j.pos++
			return nil
		case c < ' ':
			return errNotJSON
		case c == '\\':
			if err := j.scanEscape(); err != nil {
				return err
			}
		default:
			j.pos++
		}
	}
}

func (j *jsonScanner) scanEscape() error {
	const unicode = len(`\u0000`)
	rest := j.text[j.pos:]
	if len(rest) < 2 {
		return errNotJSON
	}
	switch rest[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		j.pos += 2
		return nil
	case 'u':
		if len(rest) < unicode {
			return errNotJSON
		}
		for _, c := range rest[2:unicode] {
			if !isHex(c) {
				return errNotJSON
			}
		}
		j.pos += unicode
		return nil
	}
	return errNotJSON
}

func isHex(c byte) bool { return isDigit(c) || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F' }

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// scanNumber reads a number; what is at hand may be anything.
func (j *jsonScanner) scanNumber() error {
	j.skipOneOf('-', '-')
	if !j.skipOneOf('0', '0') && !j.skipDigits() {
		return errNotJSON
	}
	if j.skipOneOf('.', '.') && !j.skipDigits() {
		return errNotJSON
	}
	if j.skipOneOf('e', 'E') {
		j.skipOneOf('+', '-')
		if !j.skipDigits() {
			return errNotJSON
		}
	}
	return nil
}

// skipOneOf moves past one byte if it is one of the two.
func (j *jsonScanner) skipOneOf(a, b byte) bool {
	if j.pos < len(j.text) && (j.text[j.pos] == a || j.text[j.pos] == b) {
		j.pos++
		return true
	}
	return false
}

// skipDigits moves past digits and tells whether there were any.
func (j *jsonScanner) skipDigits() bool {
	start := j.pos
	for j.pos < len(j.text) && isDigit(j.text[j.pos]) {
		j.pos++
	}
	return j.pos > start
}

// plainPrefix returns how many bytes at the beginning of p are surely neither a
// quote, nor a backslash, nor a control character. It looks at eight at a time
// (the tricks are in H. S. Warren, Hacker's Delight, 2012, section 6-1), since
// prompts are long strings, and it may stop up to seven bytes early at the end.
func plainPrefix(p []byte) int {
	const (
		ones  = 0x0101010101010101
		highs = 0x8080808080808080
	)
	n := 0
	for ; len(p)-n >= 8; n += 8 {
		w := binary.LittleEndian.Uint64(p[n:])
		quote, slash := w^ones*'"', w^ones*'\\'
		// The lowest byte that is marked is marked rightly.
		special := ((quote - ones) &^ quote) | ((slash - ones) &^ slash) | ((w - ones*' ') &^ w)
		if special &= highs; special != 0 {
			return n + bits.TrailingZeros64(special)/8
		}
	}
	return n
}
