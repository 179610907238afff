package loadgen

import (
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// maxDrain is how much of a response other than 2xx is read, in bytes, so that
// its connection can be used again.
const maxDrain = 64 << 10

// maxResponseHeader bounds the headers of one response, in bytes.
const maxResponseHeader = 256 << 10

// clock converts between the wall clock and scenario time.
type clock struct {
	start time.Time
	speed float64
}

// now is the scenario time.
func (c clock) now() time.Duration { return c.scenario(time.Since(c.start)) }

// until is how long to wait on the wall clock for a scenario time.
func (c clock) until(at time.Duration) time.Duration { return c.wall(at) - time.Since(c.start) }

func (c clock) scenario(wall time.Duration) time.Duration {
	return time.Duration(float64(wall) * c.speed)
}

// wall rounds up, so that nothing is sent before its time.
func (c clock) wall(scenario time.Duration) time.Duration {
	w := time.Duration(float64(scenario) / c.speed)
	if c.scenario(w) < scenario {
		w++
	}
	return w
}

// sender plays the client of one arrival. It is safe for concurrent use.
type sender struct {
	cfg     Config
	target  string
	client  *http.Client
	prompts *prompts
	clock   clock
	buffers sync.Pool // of *[]byte, for reading bodies
}

func newSender(cfg Config) (*sender, error) {
	target, err := cfg.target()
	if err != nil {
		return nil, err
	}
	p, err := newPrompts(cfg.Endpoint, cfg.Model, cfg.Stream)
	if err != nil {
		return nil, err
	}
	s := &sender{cfg: cfg, target: target, client: cfg.Client, prompts: p}
	s.buffers.New = func() any { b := make([]byte, 16<<10); return &b }
	if s.client == nil {
		s.client = newClient(cfg.MaxOutstanding)
	}
	return s, nil
}

// newClient keeps a connection for each outstanding request: with the default of
// two idle ones, the generator would measure its own dialling.
func newClient(connections int) *http.Client {
	dialer := &net.Dialer{Timeout: 10 * time.Second}
	return &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			DialContext:            dialer.DialContext,
			TLSHandshakeTimeout:    10 * time.Second,
			MaxIdleConnsPerHost:    connections,
			IdleConnTimeout:        90 * time.Second,
			DisableCompression:     true,
			MaxResponseHeaderBytes: maxResponseHeader,
		},
	}
}

// close gives back the connections of a client that the sender made.
func (s *sender) close() {
	if s.cfg.Client == nil {
		s.client.CloseIdleConnections()
	}
}

// play sends an arrival, again when it is refused and may be, and returns how it
// ended.
func (s *sender) play(ctx context.Context, index int, a Arrival) Result {
	r := Result{Index: index, Large: a.Large, Intended: a.At, Sent: s.clock.now()}
	for {
		s.attempt(ctx, a, &r)
		if r.Outcome != Refused || r.Attempts >= s.cfg.Retry.MaxAttempts || !pause(ctx, s.retryDelay(r)) {
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

// pause waits on the wall clock; false when the context ended first.
func pause(ctx context.Context, d time.Duration) bool {
	if ctx.Err() != nil {
		return false
	}
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// attempt sends one request and notes in r what came back.
func (s *sender) attempt(run context.Context, a Arrival, r *Result) {
	r.Attempts++
	r.FirstByte, r.Status, r.Bytes = 0, 0, 0
	r.Reason, r.RetryAfter = "", RetryAfter{}
	ctx, cancel := context.WithTimeout(run, max(s.clock.wall(s.cfg.Timeout), 1))
	defer cancel()
	req, err := s.request(ctx, r, a)
	if err != nil {
		r.Outcome, r.Cause = Failed, Transport
		return
	}
	resp, err := s.client.Do(req)
	if err != nil {
		r.broken(run, err, sendCause(err))
		return
	}
	defer resp.Body.Close()
	s.read(run, resp, r)
}

func (s *sender) request(ctx context.Context, r *Result, a Arrival) (*http.Request, error) {
	body, length := s.prompts.body(a)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.target, body)
	if err != nil {
		return nil, err
	}
	req.ContentLength = length
	req.GetBody = func() (io.ReadCloser, error) {
		again, _ := s.prompts.body(a)
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

// read takes the response in and decides the outcome.
func (s *sender) read(run context.Context, resp *http.Response, r *Result) {
	r.Status = resp.StatusCode
	r.Reason = parseReason(resp.Header)
	r.TaskID = clip(resp.Header.Get("Headgate-Task-Id"))
	r.QueueWait = s.clock.scenario(parseQueueWait(resp.Header))
	switch {
	case r.Status >= 200 && r.Status < 300:
		s.readAnswer(run, resp, r)
	case r.Status == http.StatusTooManyRequests, r.Status == http.StatusServiceUnavailable && r.Reason != "":
		r.refuse(resp.Header)
		s.drain(resp, r)
	default:
		r.Outcome, r.Cause = Failed, BadStatus
		s.drain(resp, r)
	}
}

// drain reads a body that decides nothing. Errors do not matter here: the status
// has said all.
func (s *sender) drain(resp *http.Response, r *Result) {
	_ = s.copy(io.Discard, io.LimitReader(resp.Body, maxDrain), r)
}

func (s *sender) readAnswer(run context.Context, resp *http.Response, r *Result) {
	var end ending = &documentEnd{}
	if s.cfg.Stream {
		end = &streamEnd{}
	}
	err := s.copy(end, resp.Body, r)
	v := end.Close()
	switch {
	case !s.asked(resp.Header):
		r.Outcome, r.Cause = Failed, Protocol
	case v == failed:
		r.Outcome, r.Cause = Failed, ErrorEvent
	case err != nil:
		r.broken(run, err, "")
	case v == unfinished:
		r.Outcome = Truncated
	default:
		r.Outcome = OK
	}
}

// asked says whether the response has the form that was asked for. Compressed
// ones were not, and could not be judged.
func (s *sender) asked(h http.Header) bool {
	kind, _, _ := strings.Cut(h.Get("Content-Type"), ";")
	stream := strings.EqualFold(strings.TrimSpace(kind), "text/event-stream")
	return stream == s.cfg.Stream && h.Get("Content-Encoding") == ""
}

// copy moves the body to w, counting bytes and noting the first.
func (s *sender) copy(w io.Writer, body io.Reader, r *Result) error {
	buffer := s.buffers.Get().(*[]byte)
	defer s.buffers.Put(buffer)
	for {
		n, err := body.Read(*buffer)
		if n > 0 && r.Bytes == 0 {
			r.FirstByte = s.clock.now()
		}
		r.Bytes += int64(n)
		if _, werr := w.Write((*buffer)[:n]); werr != nil {
			return werr
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (r *Result) refuse(h http.Header) {
	r.Outcome = Refused
	r.RetryAfter = parseRetryAfter(h)
	r.Refusals++
	if r.Reason == "" {
		r.NoReason++
	}
	if !r.RetryAfter.OK {
		r.NoRetry++
	}
}

// broken notes the end of an attempt by a transport error: the run's own end,
// the timeout, or otherwise the given cause; without one, a cut response.
func (r *Result) broken(run context.Context, err error, otherwise Cause) {
	var slow net.Error
	switch {
	case run.Err() != nil:
		r.Outcome = Cancelled
	case otherwise == Connect:
		r.Outcome, r.Cause = Failed, Connect
	case errors.As(err, &slow) && slow.Timeout():
		r.Outcome, r.Cause = Failed, Timeout
	case otherwise == "":
		r.Outcome = Truncated
	default:
		r.Outcome, r.Cause = Failed, otherwise
	}
}

// sendCause tells a failed connection from a failed exchange.
func sendCause(err error) Cause {
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		return Connect
	}
	return Transport
}
