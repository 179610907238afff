package proxy

import "errors"

var (
	errNotJSON = errors.New("not valid JSON")
	errTooDeep = errors.New("nests too deep")
)

// jsonText checks that a text is one JSON value (RFC 8259) in one pass. It does
// not recurse, so that no nesting can exhaust a stack; it does not check that
// strings are valid UTF-8.
type jsonText struct {
	text []byte
	pos  int
	// member is told of every member of an object at most toldDepth levels deep,
	// as written, when it has been read; the outermost object is level 1.
	member func(level int, key, value []byte)

	open    nesting
	reading [toldDepth]struct { // the members that are being read, by level
		key     []byte
		valueAt int
	}
}

// toldDepth is that of an object in an array in an object.
const toldDepth = 3

// check reads the whole text. Member may have been called even if it fails.
func (j *jsonText) check() error {
	for {
		whole, err := j.begin()
		if err != nil {
			return err
		}
		for whole {
			if j.open.depth == 0 {
				return j.end()
			}
			if whole, err = j.after(); err != nil {
				return err
			}
		}
	}
}

// end allows nothing but space after the value.
func (j *jsonText) end() error {
	if j.next(); j.pos < len(j.text) {
		return errNotJSON
	}
	return nil
}

// begin reads a scalar or an empty array or object, which is whole then, or
// goes into one that has something in it.
func (j *jsonText) begin() (whole bool, err error) {
	switch c := j.next(); c {
	case '{', '[':
		return j.enter(c == '{')
	case '"':
		return true, j.string()
	case 't':
		return true, j.word("true")
	case 'f':
		return true, j.word("false")
	case 'n':
		return true, j.word("null")
	default:
		return true, j.number()
	}
}

func (j *jsonText) enter(object bool) (whole bool, err error) {
	if !j.open.push(object) {
		return false, errTooDeep
	}
	j.pos++
	c := j.next()
	switch {
	case object && c == '}' || !object && c == ']':
		j.open.pop()
		j.pos++
		return true, nil
	case object:
		return false, j.name()
	}
	return false, nil
}

// name reads a member's name and the colon after it.
func (j *jsonText) name() error {
	if j.next() != '"' {
		return errNotJSON
	}
	start := j.pos
	if err := j.string(); err != nil {
		return err
	}
	end := j.pos
	if j.next() != ':' {
		return errNotJSON
	}
	j.pos++
	if j.open.depth <= toldDepth {
		j.next()
		at := &j.reading[j.open.depth-1]
		at.key, at.valueAt = j.text[start:end], j.pos
	}
	return nil
}

// after reads what follows a value in an array or object: a comma, and then
// another value must begin, or its end, which makes it whole.
func (j *jsonText) after() (whole bool, err error) {
	object := j.open.object()
	if object && j.open.depth <= toldDepth {
		at := &j.reading[j.open.depth-1]
		j.member(j.open.depth, at.key, j.text[at.valueAt:j.pos])
	}
	c := j.next()
	j.pos++
	switch {
	case c == ',' && object:
		return false, j.name()
	case c == ',':
		return false, nil
	case object && c == '}' || !object && c == ']':
		j.open.pop()
		return true, nil
	}
	return false, errNotJSON
}

// next skips space and returns the byte at hand, 0 at the end of the text.
func (j *jsonText) next() byte {
	for ; j.pos < len(j.text); j.pos++ {
		switch c := j.text[j.pos]; c {
		case ' ', '\t', '\n', '\r':
		default:
			return c
		}
	}
	return 0
}
