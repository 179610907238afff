package proxy

import (
	"encoding/binary"
	"errors"
	"math/bits"
)

var (
	errNotJSON = errors.New("not valid JSON")
	errTooDeep = errors.New("nests too deep")
)

// jsonScanner checks in one pass that a text is one JSON value (RFC 8259). It does
// not recurse, so that no nesting can exhaust the stack. It does not check that
// strings are valid UTF-8.
type jsonScanner struct {
	text []byte
	pos  int
	// member is called with each member of an object at most memberDepth levels deep,
	// as written, once it has been read; the outermost object is level 1.
	member func(level int, key, value []byte)

	open    nesting
	pending [memberDepth]struct { // the members being read, by level
		key     []byte
		valueAt int
	}
}

// memberDepth is the depth of an object in an array in an object.
const memberDepth = 3

// scan reads the whole text. It may have called member even if it fails.
func (j *jsonScanner) scan() error {
	for {
		complete, err := j.beginValue()
		if err != nil {
			return err
		}
		for complete {
			if j.open.depth == 0 {
				if j.peek(); j.pos < len(j.text) { // only space may follow
					return errNotJSON
				}
				return nil
			}
			if complete, err = j.afterValue(); err != nil {
				return err
			}
		}
	}
}

// beginValue reads a complete scalar, empty array or empty object, or enters an
// array or object with content.
func (j *jsonScanner) beginValue() (complete bool, err error) {
	switch c := j.peek(); c {
	case '{', '[':
		return j.openContainer(c == '{')
	case '"':
		return true, j.scanString()
	case 't':
		return true, j.scanLiteral("true")
	case 'f':
		return true, j.scanLiteral("false")
	case 'n':
		return true, j.scanLiteral("null")
	default:
		return true, j.scanNumber()
	}
}

func (j *jsonScanner) openContainer(object bool) (complete bool, err error) {
	if !j.open.push(object) {
		return false, errTooDeep
	}
	j.pos++
	c := j.peek()
	switch {
	case object && c == '}' || !object && c == ']':
		j.open.pop()
		j.pos++
		return true, nil
	case object:
		return false, j.scanName()
	}
	return false, nil
}

// scanName reads a member's name and the colon after it.
func (j *jsonScanner) scanName() error {
	if j.peek() != '"' {
		return errNotJSON
	}
	start := j.pos
	if err := j.scanString(); err != nil {
		return err
	}
	end := j.pos
	if j.peek() != ':' {
		return errNotJSON
	}
	j.pos++
	if j.open.depth <= memberDepth {
		j.peek()
		at := &j.pending[j.open.depth-1]
		at.key, at.valueAt = j.text[start:end], j.pos
	}
	return nil
}

// afterValue reads what follows a value in an array or object: a comma, after
// which another value must begin, or the end, which completes it.
func (j *jsonScanner) afterValue() (complete bool, err error) {
	object := j.open.object()
	if object && j.open.depth <= memberDepth {
		at := &j.pending[j.open.depth-1]
		j.member(j.open.depth, at.key, j.text[at.valueAt:j.pos])
	}
	c := j.peek()
	j.pos++
	switch {
	case c == ',' && object:
		return false, j.scanName()
	case c == ',':
		return false, nil
	case object && c == '}' || !object && c == ']':
		j.open.pop()
		return true, nil
	}
	return false, errNotJSON
}

// peek skips space and returns the next byte, 0 at the end of the text.
func (j *jsonScanner) peek() byte {
	for ; j.pos < len(j.text); j.pos++ {
		switch c := j.text[j.pos]; c {
		case ' ', '\t', '\n', '\r':
		default:
			return c
		}
	}
	return 0
}

func (j *jsonScanner) scanLiteral(w string) error {
	if len(j.text)-j.pos < len(w) || string(j.text[j.pos:j.pos+len(w)]) != w {
		return errNotJSON
	}
	j.pos += len(w)
	return nil
}

// scanString reads from the opening quote to the closing one.
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

// scanNumber reads a number; the next byte may be anything.
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

// skipDigits moves past digits and reports whether there were any.
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
		// The lowest marked byte is marked correctly.
		special := ((quote - ones) &^ quote) | ((slash - ones) &^ slash) | ((w - ones*' ') &^ w)
		if special &= highs; special != 0 {
			return n + bits.TrailingZeros64(special)/8
		}
	}
	return n
}

// nesting records with one bit each which of the enclosing values are objects.
type nesting struct {
	depth int
	first uint64   // the outermost 64
	more  []uint64 // those inside
}

// push enters one level, if the limit allows it.
func (n *nesting) push(object bool) bool {
	if n.depth == maxNesting {
		return false
	}
	word, bit := n.wordOf(n.depth), uint64(1)<<(n.depth%64)
	*word &^= bit
	if object {
		*word |= bit
	}
	n.depth++
	return true
}

func (n *nesting) pop() { n.depth-- }

// object reports whether the innermost level is an object.
func (n *nesting) object() bool {
	return *n.wordOf(n.depth - 1)&(1<<((n.depth-1)%64)) != 0
}

// wordOf returns the bits that hold a level.
func (n *nesting) wordOf(level int) *uint64 {
	if level < 64 {
		return &n.first
	}
	i := level/64 - 1
	if i == len(n.more) {
		n.more = append(n.more, 0)
	}
	return &n.more[i]
}
