package loadgen

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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

// close closes the connections of a client that the sender made.
func (s *sender) close() {
	if s.cfg.Client == nil {
		s.client.CloseIdleConnections()
	}
}

// send sends an arrival, retries it if it is refused and may be retried, and returns
// how it ended.
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

// maxDrain is how much of a response other than 2xx is read, in bytes, so that
// its connection can be used again.
const maxDrain = 64 << 10

// readResponse reads the response and decides the outcome.
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
const maxRetryAfter = 60

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
	if !digits(s, 9) {
		return 0, false
	}
	n, err := strconv.Atoi(s)
	return n, err == nil && n >= 1 && n <= limit
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

// parseQueueWait returns the wait on the wall clock, 0 when it is not given.
func parseQueueWait(h http.Header) time.Duration {
	ms, err := strconv.ParseFloat(h.Get("Headgate-Queue-Wait-Ms"), 64)
	if err != nil || !(ms >= 0 && ms < float64(MaxSpan/time.Millisecond)) {
		return 0
	}
	return time.Duration(ms * float64(time.Millisecond))
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

// Paths whose request bodies have a shape of their own.
const (
	completionsPath = "/v1/completions"
	responsesPath   = "/v1/responses"
	embeddingsPath  = "/v1/embeddings"
)

// bytesPerToken is the usual rule of thumb for English text and code.
const bytesPerToken = 4

// promptBlock is the length of the text that longer prompts repeat, in bytes.
const promptBlock = 64 << 10

// The texts hold nothing that JSON would escape, so that they can be cut
// anywhere and sent as they are.
const (
	smallText = "Does this change keep the meaning? - return a*b + return b*a  "
	largeText = "Please restructure the following module so that a newcomer can follow it, and explain each step. "
	codeLine  = "total = total + price[i] * count[i]; "
)

// bodyBuilder builds request bodies. It is made once for a run and then only read.
type bodyBuilder struct {
	head         string // JSON up to the prompt
	tail         string // JSON after the prompt, without the output limit and the last brace
	limit        string // name of the output limit; empty: the endpoint has none
	small, large string
}

func newBodyBuilder(endpoint, model string, stream bool) (*bodyBuilder, error) {
	name, err := json.Marshal(model)
	if err != nil {
		return nil, fmt.Errorf("model name: %w", err)
	}
	b := &bodyBuilder{tail: `"`, limit: "max_tokens", small: repeatText(smallText), large: repeatText(largeText)}
	b.head = `{"model":` + string(name)
	if stream {
		b.head += `,"stream":true`
	}
	switch endpoint {
	case completionsPath:
		b.head += `,"prompt":"`
	case responsesPath:
		b.head, b.limit = b.head+`,"input":"`, "max_output_tokens"
	case embeddingsPath:
		b.head, b.limit = b.head+`,"input":"`, ""
	default:
		b.head, b.tail = b.head+`,"messages":[{"role":"user","content":"`, `"}]`
	}
	return b, nil
}

// repeatText is the opening and then lines of code, promptBlock bytes of them.
func repeatText(opening string) string {
	return (opening + strings.Repeat(codeLine, promptBlock/len(codeLine)+1))[:promptBlock]
}

// body returns a new reader of the request for a, and its length in bytes. An
// arrival without prompt tokens gets a prompt of one. The user is left out when
// empty.
func (b *bodyBuilder) body(a Arrival, user string) (*promptBody, int64) {
	text := b.small
	if a.Large {
		text = b.large
	}
	length := max(a.PromptTokens, 1) * bytesPerToken
	head, tail := b.head, b.tail
	if user != "" {
		name, _ := json.Marshal(user) // a string always can be
		head = `{"user":` + string(name) + "," + head[1:]
	}
	if b.limit != "" && a.OutputTokens > 0 {
		tail += `,"` + b.limit + `":` + strconv.Itoa(a.OutputTokens)
	}
	tail += "}"
	return &promptBody{head: head, text: text, left: length, tail: tail}, int64(len(head) + length + len(tail))
}

// promptBody reads as head, then text over and over until left bytes of it were
// read, then tail. Bodies share the text, so that large prompts cost no memory.
type promptBody struct {
	head, text, tail string
	left             int
	pos              int // in text
}

// Read is part of io.Reader.
func (b *promptBody) Read(out []byte) (int, error) {
	n := copy(out, b.head)
	b.head = b.head[n:]
	for n < len(out) && b.left > 0 {
		k := copy(out[n:], b.text[b.pos:min(len(b.text), b.pos+b.left)])
		b.pos = (b.pos + k) % len(b.text)
		b.left -= k
		n += k
	}
	if b.left == 0 {
		k := copy(out[n:], b.tail)
		b.tail = b.tail[k:]
		n += k
	}
	if n == 0 && len(out) > 0 {
		return 0, io.EOF
	}
	return n, nil
}
