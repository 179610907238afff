package proxy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"headgate/proxy/admission"
)

const (
	initialBuffer = 4 << 10  // of a body whose length is unknown
	maxPrealloc   = 64 << 10 // the most that is set aside for bytes that have only been announced
	// What is read and thrown away of a body that is refused, so that the client
	// gets to see the answer instead of a reset while it still sends.
	drainBytes    = 64 << 20
	drainTimeout  = 10 * time.Second
	expectTimeout = time.Second // of a body that need not come any more
)

var errBudgetExceeded = errors.New("body budget is used up")

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
		// The deadline must not outlive the body: net/http goes on reading in the
		// background to learn whether the client is still there. That of a body
		// that is not over stays, or net/http would wait for the rest for ever.
		_ = t.rc.SetReadDeadline(time.Time{})
		return body, nil
	case errors.Is(err, errBudgetExceeded):
		drainBody(t.rc, t.r)
		return nil, t.refuse(admission.ReasonMemory)
	case errors.As(err, &large):
		return nil, t.rejectBody(tooLarge(limit))
	case errors.Is(err, os.ErrDeadlineExceeded):
		f := invalidRequest(http.StatusRequestTimeout, "body_timeout", "The request body stopped arriving.")
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

// isConnError tells whether reading failed below HTTP, by a reset for one.
func isConnError(err error) bool {
	var op *net.OpError
	return errors.As(err, &op)
}

func tooLarge(limit int64) *failure {
	return invalidRequest(http.StatusRequestEntityTooLarge, "request_too_large", "The request body is larger than %d bytes.", limit)
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

// extendReadDeadline gives the client its time to send what comes next.
func (t *task) extendReadDeadline() {
	limit := t.p.timeouts.BodyRead
	if now := time.Now(); needsExtension(t.deadlines.read, now, limit) {
		t.deadlines.read = now.Add(limit)
		_ = t.rc.SetReadDeadline(t.deadlines.read) // what cannot have one has no client that could be slow
	}
}

// bodyComplete tells whether a body that fills its buffer of n bytes exactly is
// complete. It is an error if it has reached the limit and is not.
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
	if r.Header.Get("Expect") != "" { // the client waits for the answer before it sends
		_ = rc.SetReadDeadline(time.Now().Add(expectTimeout))
		return
	}
	_ = rc.SetReadDeadline(time.Now().Add(drainTimeout))
	if _, err := io.CopyN(io.Discard, r.Body, drainBytes); err == io.EOF {
		_ = rc.SetReadDeadline(time.Time{})
	}
}

// decodedBody returns a decoded copy of the body to look into, the body itself if it
// is not encoded. The original is what goes upstream.
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
		return nil, invalidRequest(http.StatusBadRequest, "invalid_body", "The request body does not decode as its Content-Encoding says.")
	}
}

var errDecodedTooLarge = errors.New("decoded body too large")

// decode reads the whole of dec, on the budget. The copy is let go as soon as
// it has been looked into, but counted until the task ends.
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
