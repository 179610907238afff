package proxy

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
	"github.com/tidwall/gjson"
)

// endDetector watches an answer go by and knows whether it has reached its proper
// end. It never changes a byte. It is not for concurrent use.
type endDetector interface {
	io.Writer             // never fails
	complete() bool       // the end has been seen
	upstreamFailed() bool // the answer itself says that the upstream failed
}

// opaqueEnd is for answers of which nothing is known: they end where they end.
type opaqueEnd struct{}

func (opaqueEnd) Write(p []byte) (int, error) { return len(p), nil }
func (opaqueEnd) complete() bool              { return true }
func (opaqueEnd) upstreamFailed() bool        { return false }

// jsonEnd knows whether the one JSON value of a body has been closed. It
// balances brackets outside strings and checks no more than that. A body that
// is not an object or array ends where it ends.
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

// answerDetector is an ending with a decoder before it where the answer is compressed.
type answerDetector struct {
	endDetector
	uncompressed bool
	pipe         *io.PipeWriter // to the decoder; nil for a plain answer
	closeDecoder func()         // waits for the decoder
}

// newDetector chooses what to watch an answer for.
func (t *task) newDetector(res *http.Response, streams bool) answerDetector {
	end := t.newPlainDetector(res, streams)
	encoding := res.Header.Get("Content-Encoding")
	if _, open := end.(opaqueEnd); open || isIdentity(encoding) {
		return answerDetector{endDetector: end, uncompressed: true}
	}
	return newDecodingDetector(end, encoding)
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

// terminated tells whether the upstream has said all that it has to say, so that one
// need not wait for it to hang up. Of a compressed answer only bodyComplete can tell:
// its decoder is a step behind.
func (w answerDetector) terminated() bool {
	s, ok := w.endDetector.(*sseEnd)
	return ok && s.done
}

// bodyComplete is over for an answer of which no more bytes will be shown.
func (w answerDetector) closeAndTerminated() bool {
	w.close()
	if d, ok := w.endDetector.(*decodedDetector); ok {
		w.endDetector = d.endDetector
	}
	return w.terminated()
}

// observe shows the next bytes to the ending.
func (w answerDetector) observe(p []byte) {
	if w.uncompressed {
		_, _ = w.endDetector.Write(p) // never fails
		return
	}
	_, _ = w.pipe.Write(p) // fails only when the decoder has given up, which complete tells
}

// complete waits for the decoder, if there is one: the bytes are over.
func (w answerDetector) complete() bool {
	w.close()
	return w.endDetector.complete()
}

func (w answerDetector) close() {
	if w.closeDecoder != nil {
		w.closeDecoder()
	}
}

// newDecodingDetector watches a compressed answer through a decoder of its own. An encoding
// that is not known here ends where it ends.
func newDecodingDetector(end endDetector, encoding string) answerDetector {
	r, pipe := io.Pipe()
	done := make(chan struct{})
	unknown := false
	go func() {
		defer close(done)
		dec, err := newDecoder(encoding, r)
		if err == nil {
			_, err = io.Copy(end, dec)
			_ = dec.Close()
		}
		unknown = errors.Is(err, errUnknownEncoding)
		_ = r.CloseWithError(err)
	}()
	w := answerDetector{endDetector: &decodedDetector{endDetector: end, unknown: &unknown}, pipe: pipe}
	w.closeDecoder = sync.OnceFunc(func() {
		_ = pipe.Close()
		<-done
	})
	return w
}

// decodedDetector is an ending behind a decoder; read it once the decoder is done.
type decodedDetector struct {
	endDetector
	unknown *bool
}

func (d *decodedDetector) complete() bool { return *d.unknown || d.endDetector.complete() }

const (
	supportedEncodings = "gzip, deflate, br, zstd"
	maxZstdWindow      = 8 << 20 // bytes a zstd frame may ask for
)

var errUnknownEncoding = errors.New("unknown content encoding")

func isIdentity(encoding string) bool {
	return encoding == "" || strings.EqualFold(encoding, "identity")
}

// newDecoder undoes one content encoding.
func newDecoder(encoding string, r io.Reader) (io.ReadCloser, error) {
	switch strings.ToLower(strings.TrimSpace(encoding)) {
	case "gzip", "x-gzip":
		return gzip.NewReader(r)
	case "deflate":
		return zlib.NewReader(r)
	case "br":
		return io.NopCloser(brotli.NewReader(r)), nil
	case "zstd":
		d, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxZstdWindow), zstd.WithDecoderLowmem(true))
		if err != nil {
			return nil, err
		}
		return d.IOReadCloser(), nil
	default:
		return nil, errUnknownEncoding
	}
}
