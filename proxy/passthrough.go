package proxy

import (
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"
)

// readsBodyFirst reports whether the body of a request without a permit is read before
// it is forwarded, because it may name the model that decides the pool.
func (t *task) readsBodyFirst() bool {
	return t.endpoint.model == modelRequired ||
		t.endpoint.model == modelOptional && len(t.table.pools) > 1 && t.r.Body != http.NoBody
}

// passThrough forwards a request without a permit. Both bodies are relayed as they
// arrive, and none is held.
func (t *task) passThrough() *failure {
	p, f := t.poolWithoutBody()
	if f != nil {
		return t.rejectBody(f)
	}
	t.setPool(p)
	if t.r.ContentLength > p.BodyLimit {
		return t.rejectBody(tooLarge(p.BodyLimit))
	}
	ctx, idle, stop := t.startIdleTimer()
	defer stop()
	req := t.upstreamRequest(ctx, nil)
	body := &upload{t: t, idle: idle, limit: idle.limit, left: p.BodyLimit}
	if t.r.Body != http.NoBody {
		_ = t.rc.EnableFullDuplex() // or net/http reads the body itself when the answer begins
		req.Body, req.GetBody, req.ContentLength = body, nil, t.r.ContentLength
		defer body.leave()
	}
	res, err := p.transport.RoundTrip(req)
	body.answer()
	if err != nil {
		if f := body.failure(); f != nil {
			return f
		}
		return t.roundTripFailure(ctx, err)
	}
	defer res.Body.Close()
	idle.stop()
	if err := checkAnswerStatus(res); err != nil {
		return t.roundTripFailure(ctx, err)
	}
	return t.relayAnswer(ctx, res, idle)
}

// poolWithoutBody returns the pool of a request whose body is not inspected.
func (t *task) poolWithoutBody() (*pool, *failure) {
	if t.endpoint.model == modelInPath {
		return t.choosePool(strings.TrimPrefix(t.r.URL.Path, modelsPath+"/"))
	}
	if t.pool != nil {
		return t.pool, nil
	}
	return t.choosePool("")
}

// upload is a request body that goes upstream as it arrives. The upstream's silence is
// timed only while the client is not being waited for. Read is called by the transport,
// which may go on with it until after the request has been answered.
type upload struct {
	t     *task
	idle  *idleTimer
	limit time.Duration // of the upstream's silence

	mu       sync.Mutex
	left     int64 // bytes that may still come
	err      error // that ended the body, io.EOF at its end
	answered bool  // the answer has begun, which uses the timer itself
	over     bool  // the handler returns: the connection must not be touched any more
}

// Read reads from the client, within the limits on size and time.
func (u *upload) Read(p []byte) (int, error) {
	if err := u.beforeRead(); err != nil {
		return 0, err
	}
	n, err := u.t.r.Body.Read(p)
	return n, u.afterRead(n, err)
}

func (u *upload) beforeRead() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.over && u.err == nil {
		return io.ErrClosedPipe
	}
	if u.err == nil {
		u.t.extendReadDeadline()
		u.time(u.idle.stop)
	}
	return u.err
}

func (u *upload) afterRead(n int, err error) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.time(func() { u.idle.timer.Reset(u.limit) })
	if u.left -= int64(n); u.left < 0 {
		err = &http.MaxBytesError{Limit: u.t.pool.BodyLimit}
	}
	if err == io.EOF && !u.over {
		_ = u.t.rc.SetReadDeadline(time.Time{}) // as in readBody
	}
	u.err = err
	return err
}

// time changes the timer unless the answer has begun.
func (u *upload) time(change func()) {
	if !u.answered {
		change()
	}
}

// Close does nothing: the body is the server's.
func (u *upload) Close() error { return nil }

func (u *upload) answer() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.answered = true
}

// leave ends the use of the connection. What the client still sends is read and
// discarded, so that it receives the answer instead of a reset.
func (u *upload) leave() {
	u.mu.Lock()
	u.over = true
	whole := u.err == io.EOF
	u.mu.Unlock()
	if !whole && u.t.r.Context().Err() == nil {
		drainBody(u.t.rc, u.t.r)
	}
}

// failure returns why the client's body could not be sent, nil if that was not the
// client's fault.
func (u *upload) failure() *failure {
	u.mu.Lock()
	err := u.err
	u.mu.Unlock()
	var large *http.MaxBytesError
	switch {
	case err == nil || err == io.EOF:
		return nil
	case errors.As(err, &large):
		return tooLarge(large.Limit)
	case errors.Is(err, os.ErrDeadlineExceeded):
		u.t.w.Header().Set("Connection", "close")
		return invalidRequest(http.StatusRequestTimeout, "body_timeout", "Timed out reading the request body.")
	}
	return clientGone(err)
}
