package proxy

import "errors"

var (
	errNotJSON = errors.New("not valid JSON")
	errTooDeep = errors.New("nests too deep")
)

// jsonScanner checks that a text is one JSON value (RFC 8259) in one pass. It does
// not recurse, so that no nesting can exhaust a stack; it does not check that
// strings are valid UTF-8.
type jsonScanner struct {
	text []byte
	pos  int
	// member is told of every member of an object at most memberDepth levels deep,
	// as written, when it has been read; the outermost object is level 1.
	member func(level int, key, value []byte)

	open    nesting
	pending [memberDepth]struct { // the members that are being read, by level
		key     []byte
		valueAt int
	}
}

// memberDepth is that of an object in an array in an object.
const memberDepth = 3

// scan reads the whole text. Member may have been called even if it fails.
func (j *jsonScanner) scan() error {
	for {
		whole, err := j.beginValue()
		if err != nil {
			return err
		}
		for whole {
			if j.open.depth == 0 {
				return j.expectEnd()
			}
			if whole, err = j.afterValue(); err != nil {
				return err
			}
		}
	}
}

// expectEnd allows nothing but space after the value.
func (j *jsonScanner) expectEnd() error {
	if j.peek(); j.pos < len(j.text) {
		return errNotJSON
	}
	return nil
}

// beginValue reads a scalar or an empty array or object, which is whole then, or
// goes into one that has something in it.
func (j *jsonScanner) beginValue() (whole bool, err error) {
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

func (j *jsonScanner) openContainer(object bool) (whole bool, err error) {
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

// afterValue reads what follows a value in an array or object: a comma, and then
// another value must begin, or its end, which makes it whole.
func (j *jsonScanner) afterValue() (whole bool, err error) {
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

// peek skips space and returns the byte at hand, 0 at the end of the text.
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
