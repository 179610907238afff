package proxy

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
	"github.com/tidwall/gjson"
)

// endDetector inspects an answer as it is relayed and detects whether it has reached
// its proper end. It never changes a byte. It is not for concurrent use.
type endDetector interface {
	io.Writer             // never fails
	complete() bool       // the end has been seen
	upstreamFailed() bool // the answer itself reports that the upstream failed
}

// answerDetector is an endDetector, with a decoder before it if the answer is
// compressed. Only observe and terminated may be called before the answer's end.
type answerDetector struct {
	endDetector
	pipe            *io.PipeWriter // to the decoder; nil for an uncompressed answer
	decoded         chan struct{}  // closed when the decoder has returned
	unknownEncoding bool           // valid once decoded is closed
}

// newDetector chooses how to detect the end of the task's answer. The detector is a
// part of the task, which saves an allocation.
func (t *task) newDetector(res *http.Response, streams bool) *answerDetector {
	d := &t.end
	*d = answerDetector{endDetector: t.newPlainDetector(res, streams)}
	encoding := res.Header.Get("Content-Encoding")
	if _, opaque := d.endDetector.(opaqueEnd); opaque || isIdentity(encoding) {
		return d
	}
	r, pipe := io.Pipe()
	d.pipe, d.decoded = pipe, make(chan struct{})
	go func() {
		defer close(d.decoded)
		dec, err := newDecoder(encoding, r)
		if err == nil {
			_, err = io.Copy(d.endDetector, dec)
			_ = dec.Close()
		}
		d.unknownEncoding = errors.Is(err, errUnknownEncoding)
		_ = r.CloseWithError(err)
	}()
	return d
}

func (t *task) newPlainDetector(res *http.Response, streams bool) endDetector {
	switch {
	case res.StatusCode >= 300 || res.ContentLength == 0:
		return opaqueEnd{}
	case streams && t.proto != protocolOther:
		return &sseEnd{protocol: t.proto}
	case !streams && isJSON(res.Header.Get("Content-Type")):
		return &jsonEnd{}
	default:
		return opaqueEnd{}
	}
}

// observe passes the next bytes to the detector.
func (d *answerDetector) observe(p []byte) {
	if d.pipe == nil {
		_, _ = d.endDetector.Write(p) // never fails
		return
	}
	_, _ = d.pipe.Write(p) // fails only if the decoder has failed, which complete detects
}

// terminated reports whether the upstream has sent everything, so that the proxy need
// not wait for it to close. For a compressed answer only closeAndTerminated knows:
// the decoder lags behind.
func (d *answerDetector) terminated() bool { return d.pipe == nil && d.terminalEvent() }

// closeAndTerminated is terminated for an answer whose bytes have all been observed.
func (d *answerDetector) closeAndTerminated() bool {
	d.close()
	return d.terminalEvent()
}

func (d *answerDetector) terminalEvent() bool {
	s, ok := d.endDetector.(*sseEnd)
	return ok && s.done
}

// complete reports whether all observed bytes are a complete answer. An unknown
// encoding cannot be checked and counts as complete.
func (d *answerDetector) complete() bool {
	d.close()
	return d.unknownEncoding || d.endDetector.complete()
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

func (j *jsonEnd) complete() bool       { return j.started && !j.inString && (j.scalar || j.depth <= 0) }
func (j *jsonEnd) upstreamFailed() bool { return false }

// protocol is the form of an endpoint's answers.
type protocol uint8

const (
	protocolOther     protocol = iota // unknown
	protocolChoices                   // chat completions and completions: choices, [DONE]
	protocolResponses                 // responses: typed events
	protocolJSON                      // one JSON body
)

// maxLineBytes is how much of one line of a stream is inspected. Longer lines are
// relayed all the same.
const maxLineBytes = 1 << 20

// sseEnd detects the terminal event of an SSE stream (WHATWG HTML, 9.2). Lines may
// end in CR, LF or both and may be split anywhere between writes.
type sseEnd struct {
	protocol    protocol
	partial     []byte // of a line that has not ended yet
	lineTooLong bool
	done        bool
	failureSeen bool
	open        uint64 // choices seen, by index
	finished    uint64 // choices with a finish_reason, by index
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
		if !s.lineTooLong && data[0] == '{' {
			s.inspectChunk(data)
		}
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

// inspectChunk parses one chunk of a (chat) completion.
func (s *sseEnd) inspectChunk(data []byte) {
	// An upstream that fails mid-stream reports it in the stream; its client sees an
	// error in any case.
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
