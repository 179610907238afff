package loadgen

import (
	"bytes"

	"github.com/tidwall/gjson"
)

// maxEvent bounds the buffer for one server-sent event, in bytes. Of a longer event
// only the name is inspected.
const maxEvent = 64 << 10

// completionDetector detects whether a response body reached its proper end. It gets
// the body as it arrives and keeps little of it.
type completionDetector interface {
	Write(p []byte) (int, error)
	// Close is called once, after the last byte.
	Close() verdict
}

// verdict on a body that ended cleanly on the wire.
type verdict int

const (
	incomplete verdict = iota // the proper end is missing
	complete
	reportedError // the body itself reports an error
)

// jsonCompletion follows one JSON object to its end, without validating it.
type jsonCompletion struct {
	depth             int
	started           bool
	inString, escaped bool
}

func (d *jsonCompletion) Write(p []byte) (int, error) {
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

func (d *jsonCompletion) Close() verdict {
	if d.started && d.depth == 0 && !d.inString {
		return complete
	}
	return incomplete
}

// sseCompletion follows server-sent events (WHATWG HTML, "Server-sent events") and
// looks for a terminal one: [DONE], a finish_reason, or the last event of a
// response. Lines end in LF, CR or both. The last event counts without its
// blank line too, since clients read [DONE] from its line.
type sseCompletion struct {
	line        []byte // the part of a line that has come so far
	lineTooLong bool   // the line is too long: forget it
	afterCR     bool
	name        string // of the event so far
	data        []byte
	result      verdict
}

func (s *sseCompletion) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		if s.afterCR && p[0] == '\n' {
			p = p[1:]
		}
		s.afterCR = false
		end := bytes.IndexAny(p, "\r\n")
		if end < 0 {
			s.appendLine(p)
			break
		}
		s.appendLine(p[:end])
		s.endLine()
		s.afterCR = p[end] == '\r'
		p = p[end+1:]
	}
	return n, nil
}

func (s *sseCompletion) Close() verdict {
	s.endLine()
	s.endEvent()
	return s.result
}

func (s *sseCompletion) appendLine(p []byte) {
	if s.lineTooLong || len(s.line)+len(p) > maxEvent {
		s.lineTooLong = true
		return
	}
	s.line = append(s.line, p...)
}

func (s *sseCompletion) endLine() {
	line, skip := s.line, s.lineTooLong
	s.line, s.lineTooLong = s.line[:0], false
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

func (s *sseCompletion) endEvent() {
	s.raise(verdictOfName(s.name))
	s.raise(verdictOfData(bytes.TrimSpace(s.data)))
	s.name, s.data = "", s.data[:0]
}

// raise keeps the most severe verdict.
func (s *sseCompletion) raise(v verdict) { s.result = max(s.result, v) }

// verdictOfName is the verdict of an event's name or type.
func verdictOfName(name string) verdict {
	switch name {
	case "response.completed", "response.incomplete":
		return complete
	case "response.failed", "error":
		return reportedError
	}
	return incomplete
}

// verdictOfData is the verdict of an event's data.
func verdictOfData(data []byte) verdict {
	if string(data) == "[DONE]" {
		return complete
	}
	if !gjson.ValidBytes(data) {
		return incomplete
	}
	fields := gjson.GetManyBytes(data, "error", "type", "choices.#.finish_reason")
	if fields[0].Exists() && fields[0].Type != gjson.Null {
		return reportedError
	}
	v := verdictOfName(fields[1].String())
	for _, reason := range fields[2].Array() {
		if reason.String() != "" { // null is empty too
			v = max(v, complete)
		}
	}
	return v
}
