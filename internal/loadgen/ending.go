package loadgen

import (
	"bytes"
	"encoding/json"
)

// maxEvent bounds what is kept of one server-sent event, in bytes. A longer
// event passes unread; only its name can then end the stream.
const maxEvent = 64 << 10

// ending judges whether a response body came to its proper end. It is fed the
// body as it comes and keeps little of it.
type ending interface {
	Write(p []byte) (int, error)
	// Close is called once, after the last byte.
	Close() verdict
}

// verdict on a body that ended cleanly on the wire.
type verdict int

const (
	unfinished verdict = iota // the proper end is missing
	finished
	failed // the body itself reports an error
)

// documentEnd follows one JSON object. It does not validate: the question is
// only whether the end is there.
type documentEnd struct {
	depth             int
	started           bool
	inString, escaped bool
}

func (d *documentEnd) Write(p []byte) (int, error) {
	for _, b := range p {
		switch {
		case d.escaped:
			d.escaped = false
		case d.inString:
			d.escaped = b == '\\'
			d.inString = b != '"'
		case b == '"':
			d.inString = true
		case b == '{' || b == '[':
			d.depth++
			d.started = true
		case b == '}' || b == ']':
			d.depth--
		}
	}
	return len(p), nil
}

func (d *documentEnd) Close() verdict {
	if d.started && d.depth == 0 && !d.inString {
		return finished
	}
	return unfinished
}

// streamEnd follows server-sent events (WHATWG HTML, "Server-sent events") and
// looks for a terminal one: [DONE], a finish_reason, or the last event of a
// response. Lines end in LF, CR or both. The last event counts without its
// blank line too, since clients read [DONE] from its line.
type streamEnd struct {
	line    []byte // the part of a line that has come so far
	skip    bool   // the line is too long: forget it
	afterCR bool
	name    string // of the event so far
	data    []byte
	result  verdict
}

func (s *streamEnd) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		if s.afterCR && p[0] == '\n' {
			p = p[1:]
		}
		s.afterCR = false
		end := bytes.IndexAny(p, "\r\n")
		if end < 0 {
			s.keep(p)
			break
		}
		s.keep(p[:end])
		s.endLine()
		s.afterCR = p[end] == '\r'
		p = p[end+1:]
	}
	return n, nil
}

func (s *streamEnd) Close() verdict {
	s.endLine()
	s.endEvent()
	return s.result
}

func (s *streamEnd) keep(p []byte) {
	if s.skip || len(s.line)+len(p) > maxEvent {
		s.skip = true
		return
	}
	s.line = append(s.line, p...)
}

func (s *streamEnd) endLine() {
	line, skip := s.line, s.skip
	s.line, s.skip = s.line[:0], false
	if skip {
		return
	}
	if len(line) == 0 {
		s.endEvent()
		return
	}
	field, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(field) {
	case "event":
		s.name = string(value)
	case "data":
		if len(s.data)+len(value) < maxEvent {
			s.data = append(append(s.data, value...), '\n')
		}
	}
}

func (s *streamEnd) endEvent() {
	s.note(named(s.name))
	s.note(judge(bytes.TrimSpace(s.data)))
	s.name, s.data = "", s.data[:0]
}

// note keeps the gravest verdict: what has failed stays failed.
func (s *streamEnd) note(v verdict) { s.result = max(s.result, v) }

// named is the verdict of an event's name or type.
func named(name string) verdict {
	switch name {
	case "response.completed", "response.incomplete":
		return finished
	case "response.failed", "error":
		return failed
	}
	return unfinished
}

// judge is the verdict of an event's data.
func judge(data []byte) verdict {
	if string(data) == "[DONE]" {
		return finished
	}
	if !mayEnd(data) {
		return unfinished
	}
	var event struct {
		Type    string          `json:"type"`
		Error   json.RawMessage `json:"error"`
		Choices []struct {
			FinishReason *string `json:"finish_reason"`
		} `json:"choices"`
	}
	if json.Unmarshal(data, &event) != nil {
		return unfinished
	}
	if len(event.Error) > 0 && string(event.Error) != "null" {
		return failed
	}
	v := named(event.Type)
	for _, c := range event.Choices {
		if c.FinishReason != nil && *c.FinishReason != "" {
			v = max(v, finished)
		}
	}
	return v
}

// mayEnd sorts out, without parsing, nearly all events that end nothing. Inside
// a JSON string the quotes would be escaped, so text cannot look like a key.
func mayEnd(data []byte) bool {
	for _, mark := range []string{`"error"`, `"response.completed"`, `"response.incomplete"`, `"response.failed"`} {
		if bytes.Contains(data, []byte(mark)) {
			return true
		}
	}
	for {
		_, rest, found := bytes.Cut(data, []byte(`"finish_reason"`))
		if !found {
			return false
		}
		value := bytes.TrimLeft(rest, ": \t\n")
		if bytes.HasPrefix(value, []byte(`"`)) {
			return true
		}
		data = rest
	}
}
