package loadgen

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
)

// maxDrain is how much of a response other than 2xx is read, in bytes, so that
// its connection can be used again.
const maxDrain = 64 << 10

// readResponse takes the response in and decides the outcome.
func (s *sender) readResponse(run context.Context, resp *http.Response, r *Result) {
	r.Status = resp.StatusCode
	r.Reason = parseReason(resp.Header)
	r.TaskID = clip(resp.Header.Get("Headgate-Task-Id"))
	r.QueueWait = s.clock.toScenario(parseQueueWait(resp.Header))
	switch {
	case r.Status >= 200 && r.Status < 300:
		s.readBody(run, resp, r)
	case r.Status == http.StatusTooManyRequests, r.Status == http.StatusServiceUnavailable && r.Reason != "":
		r.setRefused(resp.Header)
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

func (s *sender) readBody(run context.Context, resp *http.Response, r *Result) {
	var end completionDetector = &jsonCompletion{}
	if s.cfg.Stream {
		end = &sseCompletion{}
	}
	err := s.copy(end, resp.Body, r)
	v := end.Close()
	switch {
	case !s.matchesRequest(resp.Header):
		r.Outcome, r.Cause = Failed, Protocol
	case v == reportedError:
		r.Outcome, r.Cause = Failed, ErrorEvent
	case err != nil:
		r.setTransportError(run, err, "")
	case v == incomplete:
		r.Outcome = Truncated
	default:
		r.Outcome = OK
	}
}

// matchesRequest says whether the response has the form that was asked for. Compressed
// ones were not, and could not be judged.
func (s *sender) matchesRequest(h http.Header) bool {
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

func (r *Result) setRefused(h http.Header) {
	r.Outcome = Refused
	r.RetryAfter = parseRetryAfter(h)
	r.Refusals++
	if r.Reason == "" {
		r.NoReason++
	}
	if !r.RetryAfter.OK {
		r.NoRetryAfter++
	}
}

// setTransportError notes the end of an attempt by a transport error: the run's own end,
// the timeout, or otherwise the given cause; without one, a cut response.
func (r *Result) setTransportError(run context.Context, err error, otherwise Cause) {
	var slow net.Error
	r.ErrorDetail = errorDetail(err)
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

const maxErrorDetail = 160

// errorDetail is an error without the address that it is about, which may hold a password.
func errorDetail(err error) string {
	var about *url.Error
	if errors.As(err, &about) {
		err = about.Err
	}
	text := err.Error()
	return text[:min(len(text), maxErrorDetail)]
}

// sendCause tells a failed connection from a failed exchange.
func sendCause(err error) Cause {
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		return Connect
	}
	return Transport
}
