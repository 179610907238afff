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
	// afterEnd is how long an upstream may keep a stream open after its terminal
	// event. Old SDKs wait for the end of the connection, and so does the permit.
	// Both its silence and all that it still says are bounded.
	afterEnd       = 2 * time.Second
	afterEndAtMost = 10 * time.Second
)

var buffers = sync.Pool{New: func() any { return new([copyBuffer]byte) }}

var errCutShort = errors.New("the answer ended without its proper end")

// copyBody passes the body on, byte for byte, as it comes. Each piece is looked
// at before it goes out, so that the last one can be withheld from an answer
// that turns out to be cut short: a client must not take it for a whole one.
func (t *task) copyBody(ctx context.Context, res *http.Response, dog *watchdog, end watched) *failure {
	buf := buffers.Get().(*[copyBuffer]byte)
	defer buffers.Put(buf)
	c := copier{left: res.ContentLength, flush: res.ContentLength < 0 || isEventStream(res.Header.Get("Content-Type"))}
	for {
		dog.wait()
		n, err := res.Body.Read(buf[:])
		dog.rest()
		if f := t.pass(buf[:n], end, &c); f != nil {
			return f
		}
		switch {
		case err == io.EOF:
			if !end.complete() {
				return broken(admission.Truncated, errCutShort)
			}
			return nil
		case err != nil:
			return t.cut(ctx, err, end)
		case end.over():
			dog.hurry()
		}
	}
}

// copier is the state of one body on its way.
type copier struct {
	left  int64 // bytes still announced, negative if unknown
	flush bool
}

func (t *task) pass(p []byte, end watched, c *copier) *failure {
	if len(p) == 0 {
		return nil
	}
	if t.obs.FirstByte == 0 {
		t.obs.FirstByte = time.Since(t.obs.Arrived)
	}
	end.look(p)
	if c.left -= int64(len(p)); c.left == 0 && !end.complete() {
		return broken(admission.Truncated, errCutShort)
	}
	return t.send(p, c.flush)
}

// allowWrite gives the client its time to take what comes next. The deadline
// stays with the connection, so one left behind would break a later answer.
func (t *task) allowWrite() {
	limit := t.p.timeouts.ClientWrite
	if now := time.Now(); stale(t.by.write, now, limit) {
		t.by.write = now.Add(limit)
		_ = t.rc.SetWriteDeadline(t.by.write) // what cannot have one has no client that could be slow
	}
}

// send writes to the client.
func (t *task) send(p []byte, flush bool) *failure {
	t.allowWrite()
	if _, err := t.w.Write(p); err != nil {
		return gone(err)
	}
	if flush {
		if err := t.rc.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
			return gone(err)
		}
	}
	return nil
}

// cut says who broke an answer off that had begun.
func (t *task) cut(ctx context.Context, err error, end watched) *failure {
	silent := errors.Is(context.Cause(ctx), errSilent)
	switch {
	case silent && end.atEnd():
		return nil
	case silent:
		return broken(admission.UpstreamTimeout, errSilent)
	case t.r.Context().Err() != nil:
		return gone(t.r.Context().Err())
	default:
		return broken(admission.Truncated, scrub(err))
	}
}
