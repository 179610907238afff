package proxy

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"headgate/proxy/admission"
)

const (
	copyBuffer = 8 << 10
	// trailingIdle is how long an upstream may keep a stream open after its terminal
	// event. Old SDKs wait for the end of the connection, and so does the permit.
	// Both its silence and all that it still says are bounded.
	trailingIdle = 2 * time.Second
	trailingMax  = 10 * time.Second
)

var copyBuffers = sync.Pool{New: func() any { return new([copyBuffer]byte) }}

var errTruncated = errors.New("the answer ended without its proper end")

// copyBody passes the body on, byte for byte, as it comes. Each piece is looked
// at before it goes out, so that the last one can be withheld from an answer
// that turns out to be cut short: a client must not take it for a whole one.
func (t *task) copyBody(ctx context.Context, res *http.Response, dog *watchdog, end answerDetector) *failure {
	buf := copyBuffers.Get().(*[copyBuffer]byte)
	defer copyBuffers.Put(buf)
	c := copier{left: res.ContentLength, flush: res.ContentLength < 0 || isEventStream(res.Header.Get("Content-Type"))}
	for {
		dog.start()
		n, err := res.Body.Read(buf[:])
		dog.stop()
		if f := t.copyPiece(buf[:n], end, &c); f != nil {
			return f
		}
		switch {
		case err == io.EOF:
			if !end.complete() {
				return abortedAnswer(admission.Truncated, errTruncated)
			}
			return nil
		case err != nil:
			return t.readFailure(ctx, err, end)
		case end.terminated():
			dog.limitTrailing()
		}
	}
}

// copier is the state of one body on its way.
type copier struct {
	left  int64 // bytes still announced, negative if unknown
	flush bool
}

func (t *task) copyPiece(p []byte, end answerDetector, c *copier) *failure {
	if len(p) == 0 {
		return nil
	}
	if t.obs.FirstByte == 0 {
		t.obs.FirstByte = time.Since(t.obs.Arrived)
	}
	end.observe(p)
	if c.left -= int64(len(p)); c.left == 0 && !end.complete() {
		return abortedAnswer(admission.Truncated, errTruncated)
	}
	return t.send(p, c.flush)
}

// extendWriteDeadline gives the client its time to take what comes next. The deadline
// stays with the connection, so one left behind would break a later answer.
func (t *task) extendWriteDeadline() {
	limit := t.p.timeouts.ClientWrite
	if now := time.Now(); needsExtension(t.deadlines.write, now, limit) {
		t.deadlines.write = now.Add(limit)
		_ = t.rc.SetWriteDeadline(t.deadlines.write) // what cannot have one has no client that could be slow
	}
}

// send writes to the client.
func (t *task) send(p []byte, flush bool) *failure {
	t.extendWriteDeadline()
	if _, err := t.w.Write(p); err != nil {
		return clientGone(err)
	}
	if flush {
		if err := t.rc.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
			return clientGone(err)
		}
	}
	return nil
}

// readFailure says who broke an answer off that had begun.
func (t *task) readFailure(ctx context.Context, err error, end answerDetector) *failure {
	silent := errors.Is(context.Cause(ctx), errUpstreamIdle)
	switch {
	case silent && end.closeAndTerminated():
		return nil
	case silent:
		return abortedAnswer(admission.UpstreamTimeout, errUpstreamIdle)
	case t.r.Context().Err() != nil:
		return clientGone(t.r.Context().Err())
	default:
		return abortedAnswer(admission.Truncated, scrub(err))
	}
}
