package loadgen

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
)

// sender is the client of the arrivals. It is safe for concurrent use.
type sender struct {
	cfg     Config
	target  string
	client  *http.Client
	prefix  string // JSON of a body up to its user
	small   string // prompts
	large   string
	clock   clock
	buffers sync.Pool // of *[]byte, for reading bodies
}

func newSender(cfg Config) (*sender, error) {
	target, err := cfg.target()
	if err != nil {
		return nil, err
	}
	s := &sender{
		cfg: cfg, target: target, client: cfg.Client, prefix: `{"model":` + quote(cfg.Model),
		small: promptText(smallOpening), large: promptText(largeOpening),
	}
	if cfg.Stream {
		s.prefix += `,"stream":true`
	}
	s.buffers.New = func() any { b := make([]byte, 16<<10); return &b }
	if s.client == nil {
		s.client = newClient(cfg.MaxOutstanding)
	}
	return s, nil
}

// close closes the connections of a client that the sender made.
func (s *sender) close() {
	if s.cfg.Client == nil {
		s.client.CloseIdleConnections()
	}
}

// send sends an arrival, retries it if it is refused and may be retried, and returns
// how it ended.
func (s *sender) send(ctx context.Context, index int, a Arrival) Result {
	r := Result{Index: index, Intended: a.At, Sent: s.clock.now()}
	for {
		s.attempt(ctx, a, &r)
		if r.Outcome != Refused || r.Attempts >= s.cfg.MaxAttempts || !sleep(ctx, s.retryDelay(r)) {
			break
		}
	}
	r.End = s.clock.now()
	return r
}

// retryDelay is the wait after a refusal, on the wall clock.
func (s *sender) retryDelay(r Result) time.Duration {
	if r.RetryAfter.OK {
		return r.RetryAfter.Delay
	}
	return time.Second
}

// attempt sends one request and records the response in r.
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
	body, length := s.body(a, r.Index)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.target, body)
	if err != nil {
		return nil, err
	}
	req.ContentLength = length
	req.GetBody = func() (io.ReadCloser, error) {
		again, _ := s.body(a, r.Index)
		return io.NopCloser(again), nil
	}
	req.Header.Set("Content-Type", "application/json")
	if s.cfg.HeaderFor != nil {
		maps.Copy(req.Header, s.cfg.HeaderFor(r.Index))
	}
	if r.Attempts > 1 {
		// The header by which the official clients announce a retry.
		req.Header.Set("X-Stainless-Retry-Count", strconv.Itoa(r.Attempts-1))
	}
	return req, nil
}

// maxDrain is how much of a response other than 2xx is read, in bytes, so that
// its connection can be used again.
const maxDrain = 64 << 10

// readResponse reads the response and decides the outcome.
func (s *sender) readResponse(run context.Context, resp *http.Response, r *Result) {
	r.Status = resp.StatusCode
	r.Reason = parseReason(resp.Header)
	r.TaskID = clip(resp.Header.Get("Headgate-Task-Id"))
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

// drain reads a body that decides nothing. Its errors do not matter: the status has
// decided the outcome.
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

// matchesRequest reports whether the response has the requested form. Compressed ones
// were not requested and could not be checked.
func (s *sender) matchesRequest(h http.Header) bool {
	kind, _, _ := strings.Cut(h.Get("Content-Type"), ";")
	stream := strings.EqualFold(strings.TrimSpace(kind), "text/event-stream")
	return stream == s.cfg.Stream && h.Get("Content-Encoding") == ""
}

// copy copies the body to w, counts its bytes and records the time of the first.
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

// setTransportError records a transport error: as the run's own end, the timeout, or
// otherwise the given cause; without one, as a truncated response.
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

// errorDetail is an error without the URL, which may contain a password.
func errorDetail(err error) string {
	var about *url.Error
	if errors.As(err, &about) {
		err = about.Err
	}
	text := err.Error()
	return text[:min(len(text), maxErrorDetail)]
}

// sendCause distinguishes a failed connection from a failed exchange.
func sendCause(err error) Cause {
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		return Connect
	}
	return Transport
}

// maxHeader is how much of a header value is kept, in bytes.
const maxHeader = 128

// maxRetryAfter is the longest wait that all clients honour, in seconds.
const maxRetryAfter = 59

func parseRetryAfter(h http.Header) RetryAfter {
	raw := h.Get("Retry-After")
	sec, ok := wholeNumber(raw, maxRetryAfter)
	if !ok {
		return RetryAfter{Raw: clip(raw)}
	}
	out := RetryAfter{Raw: raw, OK: true, Delay: time.Duration(sec) * time.Second}
	if ms, ok := wholeNumber(h.Get("Retry-After-Ms"), maxRetryAfter*1000); ok {
		out.Delay = time.Duration(ms) * time.Millisecond
	}
	return out
}

// wholeNumber reads a number from 1 to limit in plain digits.
func wholeNumber(s string, limit int) (int, bool) {
	n, err := strconv.Atoi(s)
	return n, err == nil && n >= 1 && n <= limit && strings.Trim(s, "0123456789") == ""
}

// parseReason returns the reason as a label for counts: lower-case letters,
// digits and underscores, or "invalid".
func parseReason(h http.Header) string {
	s := h.Get("Headgate-Reason")
	if len(s) > maxHeader || strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789_") != "" {
		return "invalid"
	}
	return s
}

func clip(s string) string {
	return strings.ToValidUTF8(s[:min(len(s), maxHeader)], "")
}

// maxResponseHeader bounds the headers of one response, in bytes.
const maxResponseHeader = 256 << 10

// newClient keeps an idle connection for each outstanding request: with the default
// of two, the generator would measure its own dialling.
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

// bytesPerToken is the usual rule of thumb for English text and code.
const bytesPerToken = 4

// promptBlock is the length of the text that longer prompts repeat, in bytes.
const promptBlock = 64 << 10

// The texts hold nothing that JSON would escape, so that they can be cut
// anywhere and sent as they are.
const (
	smallOpening = "Does this change keep the meaning? - return a*b + return b*a  "
	largeOpening = "Please restructure the following module so that a newcomer can follow it, and explain each step. "
	codeLine     = "total = total + price[i] * count[i]; "
)

// promptText is the opening and then lines of code, promptBlock bytes of them.
func promptText(opening string) string {
	return (opening + strings.Repeat(codeLine, promptBlock/len(codeLine)+1))[:promptBlock]
}

// body returns a new reader of the request for a, and its length in bytes. An
// arrival without prompt tokens gets a prompt of one. Bodies share the text, so that
// large prompts cost no memory.
func (s *sender) body(a Arrival, index int) (io.Reader, int64) {
	head, tail := s.prefix, `"}]`
	if s.cfg.User != nil {
		head += `,"user":` + quote(s.cfg.User(index))
	}
	head += `,"messages":[{"role":"user","content":"`
	if a.OutputTokens > 0 {
		tail += `,"max_tokens":` + strconv.Itoa(a.OutputTokens)
	}
	tail += "}"
	text := s.small
	if a.Large {
		text = s.large
	}
	parts := []io.Reader{strings.NewReader(head)}
	length := max(a.PromptTokens, 1) * bytesPerToken
	for left := length; left > 0; left -= promptBlock {
		parts = append(parts, strings.NewReader(text[:min(left, promptBlock)]))
	}
	parts = append(parts, strings.NewReader(tail))
	return io.MultiReader(parts...), int64(len(head) + length + len(tail))
}

// quote writes a string as JSON.
func quote(s string) string {
	text, _ := json.Marshal(s) // a string always can be
	return string(text)
}
