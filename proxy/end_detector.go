package proxy

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
	"github.com/tidwall/gjson"
)

// endDetector inspects an answer as it is relayed and detects whether it has reached
// its proper end. It never changes a byte. It is not for concurrent use.
type endDetector interface {
	io.Writer             // never fails
	complete() bool       // if the answer ended now, that would be its proper end
	whole() bool          // an end has been seen: nothing that matters can follow
	terminated() bool     // a terminal event has been seen: the upstream should close
	upstreamFailed() bool // the answer itself reports that the upstream failed
}

// answerDetector is an endDetector, with a decoder before it if the answer is
// compressed. The decoder lags behind: until the end of the answer, whole and
// terminated may be late for a compressed one.
type answerDetector struct {
	plain           endDetector
	pipe            *io.PipeWriter // to the decoder; nil for an uncompressed answer
	decoded         chan struct{}  // closed when the decoder has returned
	unknownEncoding bool           // valid once decoded is closed
	// What plain has detected, written by the decoder.
	seenWhole, seenTerminated atomic.Bool
}

// detectEnd chooses how to detect the end of the task's answer. The detector is a
// part of the task, which saves an allocation.
func (t *task) detectEnd(res *http.Response) *answerDetector {
	d := &t.end
	d.plain = t.newDetector(res)
	encoding := res.Header.Get("Content-Encoding")
	if _, opaque := d.plain.(opaqueEnd); opaque || isIdentity(encoding) {
		return d
	}
	r, pipe := io.Pipe()
	d.pipe, d.decoded = pipe, make(chan struct{})
	go func() {
		defer close(d.decoded)
		dec, err := newDecoder(encoding, r)
		if err == nil {
			_, err = io.Copy(decodedWriter{d}, dec)
			_ = dec.Close()
		}
		d.unknownEncoding = errors.Is(err, errUnknownEncoding)
		_ = r.CloseWithError(err)
	}()
	return d
}

func (t *task) newDetector(res *http.Response) endDetector {
	if res.StatusCode >= 300 || res.ContentLength == 0 || t.proto == protocolOther && !t.endpoint.Gate {
		return opaqueEnd{} // files may be anything, whatever their type says
	}
	contentType := res.Header.Get("Content-Type")
	switch mediaType, _, _ := mime.ParseMediaType(contentType); {
	case t.proto == protocolOllama && (mediaType == "application/x-ndjson" || isJSON(contentType)),
		t.proto != protocolOther && mediaType == "text/event-stream":
		return &streamEnd{protocol: t.proto}
	case isJSON(contentType):
		return &jsonEnd{}
	case t.proto == protocolOther:
		return opaqueEnd{}
	case mediaType == "" || mediaType == "text/plain" || mediaType == "application/octet-stream":
		return &sniffedEnd{protocol: t.proto, streams: t.info.stream}
	}
	return opaqueEnd{}
}

// observe passes the next bytes to the detector.
func (d *answerDetector) observe(p []byte) {
	if d.pipe == nil {
		_, _ = d.plain.Write(p) // never fails
		return
	}
	_, _ = d.pipe.Write(p) // fails only if the decoder has failed, which complete detects
}

// decodedWriter passes decoded bytes to the detector.
type decodedWriter struct{ d *answerDetector }

func (w decodedWriter) Write(p []byte) (int, error) {
	n, err := w.d.plain.Write(p)
	w.d.seenWhole.Store(w.d.plain.whole())
	w.d.seenTerminated.Store(w.d.plain.terminated())
	return n, err
}

func (d *answerDetector) whole() bool {
	if d.pipe == nil {
		return d.plain.whole()
	}
	return d.seenWhole.Load()
}

func (d *answerDetector) terminated() bool {
	if d.pipe == nil {
		return d.plain.terminated()
	}
	return d.seenTerminated.Load()
}

// complete reports whether all observed bytes are a complete answer. An unknown
// encoding cannot be checked and counts as complete.
func (d *answerDetector) complete() bool {
	d.close()
	return d.unknownEncoding || d.plain.complete()
}

// upstreamFailed is for the end of the answer.
func (d *answerDetector) upstreamFailed() bool {
	d.close()
	return d.plain.upstreamFailed()
}

// close waits for the decoder, if there is one.
func (d *answerDetector) close() {
	if d.pipe != nil {
		_ = d.pipe.Close()
		<-d.decoded
	}
}

const (
	supportedEncodings = "gzip, deflate, br, zstd"
	maxZstdWindow      = 8 << 20 // bytes that a zstd frame may request
)

var errUnknownEncoding = errors.New("unknown content encoding")

func isIdentity(encoding string) bool {
	return encoding == "" || strings.EqualFold(encoding, "identity")
}

// newDecoder decodes one content encoding.
func newDecoder(encoding string, r io.Reader) (io.ReadCloser, error) {
	switch strings.ToLower(strings.TrimSpace(encoding)) {
	case "gzip", "x-gzip":
		return gzip.NewReader(r)
	case "deflate":
		return zlib.NewReader(r)
	case "br":
		return io.NopCloser(brotli.NewReader(r)), nil
	case "zstd":
		d, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1),
			zstd.WithDecoderMaxWindow(maxZstdWindow), zstd.WithDecoderLowmem(true))
		if err != nil {
			return nil, err
		}
		return d.IOReadCloser(), nil
	default:
		return nil, errUnknownEncoding
	}
}

// opaqueEnd is for answers of unknown form: any end is proper.
type opaqueEnd struct{}

func (opaqueEnd) Write(p []byte) (int, error) { return len(p), nil }
func (opaqueEnd) complete() bool              { return true }
func (opaqueEnd) whole() bool                 { return false }
func (opaqueEnd) terminated() bool            { return false }
func (opaqueEnd) upstreamFailed() bool        { return false }

// jsonEnd detects whether the one JSON value of a body has been closed. It balances
// brackets outside strings and checks no more than that. For a body that is not an
// object or array, any end is proper.
type jsonEnd struct {
	depth    int
	inString bool
	escaped  bool
	started  bool
	scalar   bool
}

func (j *jsonEnd) Write(p []byte) (int, error) {
	for _, c := range p {
		j.step(c)
	}
	return len(p), nil
}

func (j *jsonEnd) step(c byte) {
	if j.inString {
		switch {
		case j.escaped:
			j.escaped = false
		case c == '\\':
			j.escaped = true
		case c == '"':
			j.inString = false
		}
		return
	}
	switch c {
	case ' ', '\t', '\r', '\n':
		return
	case '"':
		j.inString = true
	case '{', '[':
		j.depth++
	case '}', ']':
		j.depth--
	}
	if !j.started {
		j.started = true
		j.scalar = j.depth == 0 && !j.inString
	}
}

func (j *jsonEnd) complete() bool       { return j.whole() || j.started && j.scalar && !j.inString }
func (j *jsonEnd) whole() bool          { return j.started && !j.scalar && !j.inString && j.depth <= 0 }
func (j *jsonEnd) terminated() bool     { return false }
func (j *jsonEnd) upstreamFailed() bool { return false }

// sniffedEnd is for the answer of an endpoint whose protocol is known when its
// Content-Type does not say what it is: the first byte decides.
type sniffedEnd struct {
	protocol protocol
	streams  bool        // the request asked for a stream
	found    endDetector // nil before the first byte
}

func (s *sniffedEnd) Write(p []byte) (int, error) {
	n := len(p)
	if s.found == nil {
		if p = bytes.TrimLeft(p, " \t\r\n"); len(p) == 0 {
			return n, nil
		}
		object := p[0] == '{' || p[0] == '['
		switch {
		case object && s.protocol != protocolOllama:
			s.found = &jsonEnd{}
		case object || s.streams && s.protocol != protocolOllama && s.protocol != protocolJSON:
			s.found = &streamEnd{protocol: s.protocol}
		default:
			s.found = opaqueEnd{}
		}
	}
	_, _ = s.found.Write(p) // never fails
	return n, nil
}

func (s *sniffedEnd) complete() bool       { return s.found != nil && s.found.complete() }
func (s *sniffedEnd) whole() bool          { return s.found != nil && s.found.whole() }
func (s *sniffedEnd) terminated() bool     { return s.found != nil && s.found.terminated() }
func (s *sniffedEnd) upstreamFailed() bool { return s.found != nil && s.found.upstreamFailed() }

// protocol is the form of an endpoint's answers.
type protocol uint8

const (
	protocolOther   protocol = iota // unknown
	protocolChoices                 // chat completions and completions: SSE with choices, [DONE]
	protocolTyped                   // responses and Anthropic's messages: SSE with typed events
	protocolOllama                  // one JSON object a line, the last one with done
	protocolJSON                    // one JSON body
)

// maxEventBytes is how much of one line or event of a stream is inspected. Longer ones
// are relayed all the same.
const maxEventBytes = 1 << 20

// streamEnd detects the end of a stream: the terminal event of an SSE stream (WHATWG
// HTML, 9.2) or the last object of NDJSON. Lines may end in CR, LF or both, and may be
// split anywhere between writes. An SSE event counts once its blank line has come,
// since clients do not see it before.
type streamEnd struct {
	protocol protocol
	partial  []byte // of a line that has not ended yet
	afterCR  bool   // a LF that comes next belongs to the same line end
	event    []byte // the name of the event being read
	data     []byte // of that event, or of a line of NDJSON
	tooLong  bool   // some of the line or event was not kept

	done     bool   // a terminal event has been seen
	failed   bool   // the upstream reported an error, and nothing but an end came after it
	open     uint64 // choices seen, by index
	finished uint64 // choices with a finish_reason, by index
}

// complete is whole once the last line of NDJSON has been read, which need not end.
func (s *streamEnd) complete() bool {
	if s.protocol == protocolOllama && !s.tooLong && validJSON(s.partial) {
		s.inspect("", s.partial)
		s.partial = s.partial[:0]
	}
	return s.whole()
}

func (s *streamEnd) whole() bool {
	return s.done || s.failed || s.finished != 0 && s.open&^s.finished == 0
}

func (s *streamEnd) terminated() bool     { return s.done }
func (s *streamEnd) upstreamFailed() bool { return s.failed }

func (s *streamEnd) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		if s.afterCR && p[0] == '\n' {
			s.afterCR, p = false, p[1:]
			continue
		}
		end := lineEnd(p)
		s.afterCR = end >= 0 && p[end] == '\r'
		if end < 0 {
			s.partial = s.appendBounded(s.partial, p)
			break
		}
		s.endLine(p[:end])
		p = p[end+1:]
	}
	return n, nil
}

// lineEnd returns the position of the first CR or LF, -1 if there is none.
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

func (s *streamEnd) appendBounded(to, p []byte) []byte {
	if len(to)+len(p) > maxEventBytes {
		s.tooLong = true
		p = p[:max(maxEventBytes-len(to), 0)]
	}
	return append(to, p...)
}

func (s *streamEnd) endLine(line []byte) {
	if len(s.partial) > 0 {
		s.partial = s.appendBounded(s.partial, line)
		line = s.partial
	}
	if s.protocol == protocolOllama {
		s.inspect("", line)
		s.tooLong = false
	} else {
		s.inspectLine(line)
	}
	s.partial = reuse(s.partial)
}

// reuse empties a buffer, and frees it if it is large.
func reuse(p []byte) []byte {
	if cap(p) > initialBuffer {
		return nil
	}
	return p[:0]
}

// inspectLine reads one line of an SSE stream.
func (s *streamEnd) inspectLine(line []byte) {
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch {
	case len(line) == 0:
		if len(s.data) > 0 {
			s.inspect(string(s.event), s.data)
		}
		s.event, s.data, s.tooLong = s.event[:0], reuse(s.data), false
	case string(name) == "event":
		s.event = append(s.event[:0], value[:min(len(value), maxEventName)]...)
	case string(name) == "data" && len(s.data) == 0 && string(bytes.TrimSpace(value)) == "[DONE]":
		s.done = true // some upstreams omit the blank line after it
	case string(name) == "data":
		if len(s.data) > 0 {
			value = append([]byte("\n"), value...)
		}
		s.data = s.appendBounded(s.data, value)
	}
}

const maxEventName = 64 // longer ones are none of those that matter

// inspect reads one event. Data that is too long may still show its type.
func (s *streamEnd) inspect(event string, data []byte) {
	kind := event
	if kind == "" && s.protocol == protocolTyped {
		kind = gjson.GetBytes(data, "type").Str
	}
	progress := false
	switch s.protocol {
	case protocolChoices:
		progress = !s.tooLong && s.inspectChoices(data)
	case protocolTyped:
		switch kind {
		case "response.completed", "response.incomplete":
			s.done, progress = true, true
		case "response.failed", "message_stop":
			s.done = true
		default:
			progress = strings.HasSuffix(kind, "delta") || strings.HasSuffix(kind, ".done")
		}
	case protocolOllama:
		if !s.tooLong && gjson.GetBytes(data, "done").Type == gjson.True {
			s.done = true
		}
		progress = gjson.GetBytes(data, "done").Exists()
	}
	switch {
	case kind == "error" || kind == "response.failed", !s.tooLong && reportsError(gjson.GetBytes(data, "error")):
		s.failed = true
	case progress: // the stream goes on: that was no end
		s.failed = false
	}
}

// inspectChoices reads one chunk of a (chat) completion. It reports whether the chunk
// belongs to a choice.
func (s *streamEnd) inspectChoices(data []byte) (any bool) {
	choices := gjson.GetBytes(data, "choices")
	if !choices.IsArray() {
		return false
	}
	choices.ForEach(func(_, choice gjson.Result) bool {
		any = true
		index := choice.Get("index").Uint()
		if index >= 64 {
			return true
		}
		s.open |= 1 << index
		// Some engines send an empty one in every chunk, or the word null.
		if r := choice.Get("finish_reason"); r.Type == gjson.String && r.Str != "" && r.Str != "null" {
			s.finished |= 1 << index
		}
		return true
	})
	return any
}

// reportsError reports whether the value of an error member is an error: a text or an
// object with content. Several engines serialise the member when it is unset.
func reportsError(e gjson.Result) bool {
	return e.Type == gjson.String && e.Str != "" || e.IsObject() && len(e.Map()) > 0
}
