package proxy

import "bytes"

// dullChunk recognises the chunks that most of a stream is made of: those that
// bring text for a choice that is known already, and end nothing. It looks once
// and allocates nothing; what it does not recognise is looked at closely.
type dullChunk struct {
	text jsonText
	open uint64
	no   bool
}

// is tells whether a chunk is surely dull while these choices are open.
func (d *dullChunk) is(data []byte, open uint64) bool {
	if open&1 == 0 { // what names no choice means the first
		return false
	}
	note := d.text.member
	if note == nil {
		note = d.note
	}
	d.text = jsonText{text: data, member: note}
	d.open, d.no = open, false
	return d.text.check() == nil && !d.no
}

// note looks at the members of the chunk (level 1) and of its choices (level 3;
// that others are on it too does no harm).
func (d *dullChunk) note(level int, key, value []byte) {
	switch {
	case bytes.IndexByte(key, '\\') >= 0:
		d.no = true // may be any of those below
	case level == 1:
		d.no = d.no || string(key) == `"error"`
	case level == 3 && string(key) == `"finish_reason"`:
		d.no = d.no || string(value) != "null"
	case level == 3 && string(key) == `"index"`:
		d.no = d.no || len(value) != 1 || !isDigit(value[0]) || d.open&(1<<(value[0]-'0')) == 0
	}
}
