package proxy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/tidwall/gjson"

	"headgate/proxy/admission"
)

const (
	initialBuffer = 4 << 10  // of a body whose length is unknown
	maxPrealloc   = 64 << 10 // the most that is allocated for bytes that have only been announced
	// Limits on reading and discarding a refused body, so that a client that still
	// sends receives the answer instead of a reset.
	drainBytes    = 64 << 20
	drainTimeout  = 10 * time.Second
	expectTimeout = time.Second // of a body that may never be sent
)

var errBudgetExceeded = errors.New("body budget exceeded")

// readBody reads the whole request body. Memory is taken from the budget as
// bytes arrive, not as they are announced.
func (t *task) readBody(limit int64) ([]byte, *failure) {
	if t.r.ContentLength > limit {
		return nil, t.rejectBody(tooLarge(limit))
	}
	body, err := t.readAll(limit)
	var large *http.MaxBytesError
	switch {
	case err == nil:
		// The deadline must not outlive the body: net/http reads on in the background
		// to detect whether the client has left. The deadline of an unfinished body
		// stays, or net/http would wait for the rest indefinitely.
		_ = t.rc.SetReadDeadline(time.Time{})
		return body, nil
	case errors.Is(err, errBudgetExceeded):
		drainBody(t.rc, t.r)
		return nil, t.refuse(admission.ReasonMemory)
	case errors.As(err, &large):
		return nil, t.rejectBody(tooLarge(limit))
	case errors.Is(err, os.ErrDeadlineExceeded):
		f := invalidRequest(http.StatusRequestTimeout, "body_timeout", "Timed out reading the request body.")
		t.w.Header().Set("Connection", "close")
		return nil, f
	case errors.Is(err, io.ErrUnexpectedEOF) || isConnError(err) || t.r.Context().Err() != nil:
		return nil, clientGone(err)
	default:
		f := invalidRequest(http.StatusBadRequest, "invalid_body", "The request body could not be read.")
		f.cause = err
		return nil, f
	}
}

// isConnError reports whether reading failed below HTTP, such as by a reset.
func isConnError(err error) bool {
	var op *net.OpError
	return errors.As(err, &op)
}

func tooLarge(limit int64) *failure {
	return invalidRequest(http.StatusRequestEntityTooLarge, "request_too_large",
		"The request body is larger than %d bytes.", limit)
}

func (t *task) readAll(limit int64) ([]byte, error) {
	size := int64(initialBuffer)
	if t.r.ContentLength >= 0 {
		size = min(t.r.ContentLength, maxPrealloc)
	}
	if !t.reserved.grow(size) {
		return nil, errBudgetExceeded
	}
	buf := make([]byte, 0, size)
	for {
		if len(buf) == cap(buf) {
			if done, err := t.bodyComplete(int64(len(buf)), limit); done || err != nil {
				return buf, err
			}
			more := min(max(int64(len(buf)), initialBuffer), limit-int64(len(buf)))
			if !t.reserved.grow(more) {
				return nil, errBudgetExceeded
			}
			buf = append(make([]byte, 0, int64(len(buf))+more), buf...)
		}
		t.extendReadDeadline()
		n, err := t.r.Body.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if err == io.EOF {
			return buf, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// extendReadDeadline gives the client the whole timeout for the next bytes.
func (t *task) extendReadDeadline() {
	limit := t.p.timeouts.BodyRead
	if now := time.Now(); needsExtension(t.deadlines.read, now, limit) {
		t.deadlines.read = now.Add(limit)
		_ = t.rc.SetReadDeadline(t.deadlines.read) // a writer without deadlines has no slow client
	}
}

// bodyComplete reports whether a body that fills its buffer of n bytes exactly is
// complete. A body that has reached the limit and is not complete is an error.
func (t *task) bodyComplete(n, limit int64) (bool, error) {
	if n < limit && (t.r.ContentLength < 0 || n < t.r.ContentLength) {
		return false, nil
	}
	t.extendReadDeadline()
	var more [1]byte
	switch _, err := io.ReadFull(t.r.Body, more[:]); err {
	case io.EOF:
		return true, nil
	case nil:
		return false, &http.MaxBytesError{Limit: limit}
	default:
		return false, err
	}
}

func (t *task) rejectBody(f *failure) *failure {
	drainBody(t.rc, t.r)
	return f
}

func drainBody(rc *http.ResponseController, r *http.Request) {
	if r.Body == http.NoBody {
		return
	}
	if r.Header.Get("Expect") != "" { // the client waits for an answer before it sends
		_ = rc.SetReadDeadline(time.Now().Add(expectTimeout))
		return
	}
	_ = rc.SetReadDeadline(time.Now().Add(drainTimeout))
	if _, err := io.CopyN(io.Discard, r.Body, drainBytes); err == io.EOF {
		_ = rc.SetReadDeadline(time.Time{})
	}
}

// decodedBody returns a decoded copy of the body for inspection, the body itself if
// it is not encoded. The original goes upstream.
func (t *task) decodedBody(body []byte, limit int64) ([]byte, *failure) {
	encoding := t.r.Header.Get("Content-Encoding")
	if isIdentity(encoding) {
		return body, nil
	}
	dec, err := newDecoder(encoding, bytes.NewReader(body))
	if errors.Is(err, errUnknownEncoding) {
		return nil, invalidRequest(http.StatusUnsupportedMediaType, "unsupported_content_encoding",
			"The request body's Content-Encoding is not one of %s.", supportedEncodings)
	}
	var plain []byte
	if err == nil {
		defer dec.Close()
		plain, err = t.decode(dec, limit)
	}
	switch {
	case err == nil:
		return plain, nil
	case errors.Is(err, errBudgetExceeded):
		return nil, t.refuse(admission.ReasonMemory)
	case errors.Is(err, errDecodedTooLarge):
		return nil, tooLarge(limit)
	default:
		return nil, invalidRequest(http.StatusBadRequest, "invalid_body",
			"The request body does not match its Content-Encoding.")
	}
}

var errDecodedTooLarge = errors.New("decoded body too large")

// decode reads all of dec, within the budget. The copy is freed once it has been
// inspected, but counted until the task ends.
func (t *task) decode(dec io.Reader, limit int64) ([]byte, error) {
	var out bytes.Buffer
	for int64(out.Len()) <= limit {
		if !t.reserved.grow(maxPrealloc) {
			return nil, errBudgetExceeded
		}
		n, err := io.CopyN(&out, dec, maxPrealloc)
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("decode after %d bytes: %w", n, err)
		}
	}
	if int64(out.Len()) > limit {
		return nil, errDecodedTooLarge
	}
	return out.Bytes(), nil
}

// budget bounds the bytes of request bodies held at one time.
type budget struct {
	limit atomic.Int64
	used  atomic.Int64
}

// reserve reserves n bytes, or none if they do not fit.
func (b *budget) reserve(n int64) bool {
	if b.used.Add(n) > b.limit.Load() {
		b.used.Add(-n)
		return false
	}
	return true
}

func (b *budget) release(n int64) { b.used.Add(-n) }

// reservation is the memory of one task: reserved from the shared budget of all
// pools, and also from its pool's own once the pool is known. It is not for
// concurrent use.
type reservation struct {
	shared     *budget
	poolBudget *budget // nil until the pool is known
	n          int64
}

func (h *reservation) grow(n int64) bool {
	if !h.shared.reserve(n) {
		return false
	}
	h.n += n
	return true
}

func (h *reservation) assign(own *budget) bool {
	if !own.reserve(h.n) {
		return false
	}
	h.poolBudget = own
	return true
}

func (h *reservation) release() {
	h.shared.release(h.n)
	if h.poolBudget != nil {
		h.poolBudget.release(h.n)
	}
	h.n, h.poolBudget = 0, nil
}

// maxNesting is how deep JSON may nest for encoding/json.
const maxNesting = 10000

// requestInfo is what the proxy needs from a request body.
type requestInfo struct {
	model  string // empty if none is named
	stream bool
}

// inspect reads a JSON request body. A repeated key is refused: parsers differ in
// which of the two counts, and a task must not be routed by one and served by the
// other. The body is checked first: gjson does not report invalid JSON.
func inspect(body []byte) (requestInfo, *failure) {
	if !validJSON(body) {
		return requestInfo{}, invalidJSON("is not valid JSON, or nests deeper than %d levels", maxNesting)
	}
	if bytes.TrimLeft(body, " \t\r\n")[0] != '{' {
		return requestInfo{}, invalidJSON("must be a JSON object")
	}
	var model, stream gjson.Result
	repeated := ""
	// The text shares the body's memory, since a body can be large; the body never changes.
	gjson.Parse(unsafe.String(unsafe.SliceData(body), len(body))).ForEach(func(key, value gjson.Result) bool {
		member := &model
		switch key.Str {
		case "model":
		case "stream":
			member = &stream
		default:
			return true
		}
		if member.Exists() {
			repeated = key.Str
		}
		*member = value
		return repeated == ""
	})
	if repeated != "" {
		return requestInfo{}, invalidJSON("has the key %q twice", repeated)
	}
	if model.Exists() && model.Type != gjson.String {
		return requestInfo{}, modelMissing()
	}
	return requestInfo{model: strings.Clone(model.Str), stream: stream.Type == gjson.True}, nil
}

// validJSON uses gjson, which is ten times as fast, if its recursion is bounded by the
// number of brackets: deep nesting must not exhaust the stack.
func validJSON(text []byte) bool {
	if bytes.Count(text, []byte("{"))+bytes.Count(text, []byte("[")) <= maxNesting {
		return gjson.ValidBytes(text)
	}
	return json.Valid(text)
}

func invalidJSON(format string, args ...any) *failure {
	return invalidRequest(http.StatusBadRequest, "invalid_json", "The request body "+format+".", args...)
}

// isJSON reports whether a Content-Type is application/json or application/*+json.
func isJSON(contentType string) bool {
	mediaType, _, err := mime.ParseMediaType(contentType)
	return err == nil && (mediaType == "application/json" ||
		strings.HasPrefix(mediaType, "application/") && strings.HasSuffix(mediaType, "+json"))
}

func isEventStream(contentType string) bool {
	mediaType, _, err := mime.ParseMediaType(contentType)
	return err == nil && mediaType == "text/event-stream"
}
