package proxy

import (
	"bytes"

	"github.com/tidwall/gjson"
)

// protocol is what an endpoint's answers look like.
type protocol uint8

const (
	protocolOther     protocol = iota // nothing is known
	protocolChoices                   // chat completions and completions: choices, [DONE]
	protocolResponses                 // responses: typed events
	protocolJSON                      // one JSON body
)

// maxLineBytes is how much of one line of a stream is looked at. Longer ones pass
// just the same.
const maxLineBytes = 1 << 20

// sseEnd finds the terminal event of an SSE stream (WHATWG HTML, 9.2). Lines
// may end in CR, LF or both and may be split anywhere between writes.
type sseEnd struct {
	protocol    protocol
	partial     []byte // of a line that has not ended yet
	lineTooLong bool
	done        bool
	failureSeen bool
	open        uint64 // choices seen, by index
	finished    uint64 // choices with a finish_reason, by index
	content     contentChunk
}

func (s *sseEnd) complete() bool {
	return s.done || s.finished != 0 && s.open&^s.finished == 0
}

func (s *sseEnd) upstreamFailed() bool { return s.failureSeen }

func (s *sseEnd) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		end := lineEnd(p)
		if end < 0 {
			s.bufferPartial(p)
			break
		}
		s.endLine(p[:end])
		p = p[end+1:]
	}
	return n, nil
}

// lineEnd returns where the first CR or LF is, -1 if there is none.
func lineEnd(p []byte) int {
	lf := bytes.IndexByte(p, '\n')
	if lf >= 0 {
		p = p[:lf]
	}
	if cr := bytes.IndexByte(p, '\r'); cr >= 0 {
		return cr
	}
	return lf
}

func (s *sseEnd) bufferPartial(p []byte) {
	if len(s.partial)+len(p) > maxLineBytes {
		s.lineTooLong = true
		p = p[:max(maxLineBytes-len(s.partial), 0)]
	}
	s.partial = append(s.partial, p...)
}

func (s *sseEnd) endLine(rest []byte) {
	line := rest
	if len(s.partial) > 0 {
		s.bufferPartial(rest)
		line = s.partial
	}
	s.inspectLine(line)
	s.partial, s.lineTooLong = s.partial[:0], false
	if cap(s.partial) > initialBuffer {
		s.partial = nil
	}
}

func (s *sseEnd) inspectLine(line []byte) {
	if event, ok := sseField(line, "event"); ok && s.protocol == protocolResponses {
		s.typedEvent(string(event))
		return
	}
	data, ok := sseField(line, "data")
	data = bytes.TrimLeft(data, " \t") // JSON may begin with space
	if !ok || len(data) == 0 {
		return
	}
	switch {
	case bytes.Equal(bytes.TrimSpace(data), []byte("[DONE]")):
		s.done = true
	case s.protocol == protocolResponses:
		s.typedEvent(gjson.GetBytes(data, "type").Str)
	case s.protocol == protocolChoices:
		s.choicesChunk(data)
	}
}

// sseField returns the value of a line that sets that field.
func sseField(line []byte, name string) ([]byte, bool) {
	value, ok := bytes.CutPrefix(line, []byte(name))
	if !ok {
		return nil, false
	}
	if value, ok = bytes.CutPrefix(value, []byte(":")); !ok {
		return nil, false
	}
	return bytes.TrimPrefix(value, []byte(" ")), true
}

// typedEvent handles the events of the responses endpoint.
func (s *sseEnd) typedEvent(event string) {
	switch event {
	case "response.completed", "response.incomplete":
		s.done = true
	case "response.failed", "error":
		s.done, s.failureSeen = true, true
	}
}

// choicesChunk handles one chunk of a (chat) completion.
func (s *sseEnd) choicesChunk(data []byte) {
	if !s.lineTooLong && data[0] == '{' && !s.content.matches(data, s.open) {
		s.inspectChunk(data)
	}
}

// inspectChunk looks at one chunk closely.
func (s *sseEnd) inspectChunk(data []byte) {
	// An upstream that gives up mid-stream says so in the stream; its client
	// sees an error in any case.
	if e := gjson.GetBytes(data, "error"); e.Exists() && e.Type != gjson.Null {
		s.done, s.failureSeen = true, true
		return
	}
	gjson.GetBytes(data, "choices").ForEach(func(_, choice gjson.Result) bool {
		index := choice.Get("index").Uint()
		if index >= 64 {
			return true
		}
		s.open |= 1 << index
		if r := choice.Get("finish_reason"); r.Exists() && r.Type != gjson.Null {
			s.finished |= 1 << index
		}
		return true
	})
}
