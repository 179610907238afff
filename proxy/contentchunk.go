package proxy

import "bytes"

// contentChunk recognises the chunks that most of a stream is made of: those that
// bring text for a choice that is known already, and end nothing. It looks once
// and allocates nothing; what it does not recognise is looked at closely.
type contentChunk struct {
	text     jsonScanner
	open     uint64
	mismatch bool
}

// matches tells whether a chunk is surely dull while these choices are open.
func (d *contentChunk) matches(data []byte, open uint64) bool {
	if open&1 == 0 { // what names no choice means the first
		return false
	}
	note := d.text.member
	if note == nil {
		note = d.visit
	}
	d.text = jsonScanner{text: data, member: note}
	d.open, d.mismatch = open, false
	return d.text.scan() == nil && !d.mismatch
}

// visit looks at the members of the chunk (level 1) and of its choices (level 3;
// that others are on it too does no harm).
func (d *contentChunk) visit(level int, key, value []byte) {
	switch {
	case bytes.IndexByte(key, '\\') >= 0:
		d.mismatch = true // may be any of those below
	case level == 1:
		d.mismatch = d.mismatch || string(key) == `"error"`
	case level == 3 && string(key) == `"finish_reason"`:
		d.mismatch = d.mismatch || string(value) != "null"
	case level == 3 && string(key) == `"index"`:
		d.mismatch = d.mismatch || len(value) != 1 || !isDigit(value[0]) || d.open&(1<<(value[0]-'0')) == 0
	}
}
