package loadgen

import (
	"context"
	"io"
	"maps"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// sender plays the client of one arrival. It is safe for concurrent use.
type sender struct {
	cfg     Config
	target  string
	client  *http.Client
	bodies  *bodyBuilder
	clock   clock
	buffers sync.Pool // of *[]byte, for reading bodies
}

func newSender(cfg Config) (*sender, error) {
	target, err := cfg.target()
	if err != nil {
		return nil, err
	}
	p, err := newBodyBuilder(cfg.Endpoint, cfg.Model, cfg.Stream)
	if err != nil {
		return nil, err
	}
	s := &sender{cfg: cfg, target: target, client: cfg.Client, bodies: p}
	s.buffers.New = func() any { b := make([]byte, 16<<10); return &b }
	if s.client == nil {
		s.client = newClient(cfg.MaxOutstanding)
	}
	return s, nil
}

// close gives back the connections of a client that the sender made.
func (s *sender) close() {
	if s.cfg.Client == nil {
		s.client.CloseIdleConnections()
	}
}

// send sends an arrival, again when it is refused and may be, and returns how it
// ended.
func (s *sender) send(ctx context.Context, index int, a Arrival) Result {
	r := Result{Index: index, Large: a.Large, Intended: a.At, Sent: s.clock.now()}
	for {
		s.attempt(ctx, a, &r)
		if r.Outcome != Refused || r.Attempts >= s.cfg.Retry.MaxAttempts || !sleep(ctx, s.retryDelay(r)) {
			break
		}
	}
	r.End = s.clock.now()
	return r
}

func (s *sender) retryDelay(r Result) time.Duration {
	if r.RetryAfter.OK {
		return r.RetryAfter.Delay
	}
	return s.cfg.Retry.Fallback
}

// attempt sends one request and notes in r what came back.
func (s *sender) attempt(run context.Context, a Arrival, r *Result) {
	r.Attempts++
	r.FirstByte, r.Status, r.Bytes = 0, 0, 0
	r.Reason, r.RetryAfter = "", RetryAfter{}
	ctx, cancel := context.WithTimeout(run, max(s.clock.toWall(s.cfg.Timeout), 1))
	defer cancel()
	req, err := s.request(ctx, r, a)
	if err != nil {
		r.Outcome, r.Cause = Failed, Transport
		return
	}
	resp, err := s.client.Do(req)
	if err != nil {
		r.setTransportError(run, err, sendCause(err))
		return
	}
	defer resp.Body.Close()
	s.readResponse(run, resp, r)
}

func (s *sender) request(ctx context.Context, r *Result, a Arrival) (*http.Request, error) {
	user := ""
	if s.cfg.User != nil {
		user = s.cfg.User(r.Index)
	}
	body, length := s.bodies.body(a, user)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.target, body)
	if err != nil {
		return nil, err
	}
	req.ContentLength = length
	req.GetBody = func() (io.ReadCloser, error) {
		again, _ := s.bodies.body(a, user)
		return io.NopCloser(again), nil
	}
	req.Header.Set("Content-Type", "application/json")
	maps.Copy(req.Header, s.cfg.Header)
	if s.cfg.HeaderFor != nil {
		maps.Copy(req.Header, s.cfg.HeaderFor(r.Index))
	}
	if r.Attempts > 1 {
		// The header by which the official clients announce a retry.
		req.Header.Set("X-Stainless-Retry-Count", strconv.Itoa(r.Attempts-1))
	}
	return req, nil
}
