package proxy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	dto "github.com/prometheus/client_model/go"

	"headgate/proxy/admission"
)

type netListener = net.Listener

func discardLog() *log.Logger { return log.New(io.Discard, "", 0) }

// The requests that most tests send.
const (
	chat   = `{"model":"m","messages":[{"role":"user","content":"hello"}]}`
	stream = `{"model":"m","stream":true,"messages":[{"role":"user","content":"hello"}]}`
)

// answer is a response that was read to its end, good or bad.
type answer struct {
	status  int
	header  http.Header
	trailer http.Header
	body    []byte
	err     error // of the exchange, or of reading the body
}

func (a answer) reason() string { return a.header.Get("Headgate-Reason") }

// request makes a POST; headers come in pairs.
func (r *testProxy) request(ctx context.Context, path, body string, header ...string) *http.Request {
	r.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.server.url()+path, strings.NewReader(body))
	if err != nil {
		r.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	return req
}

func (r *testProxy) do(req *http.Request) answer {
	res, err := r.client.Do(req)
	if err != nil {
		return answer{err: err}
	}
	return read(res)
}

func read(res *http.Response) answer {
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return answer{res.StatusCode, res.Header, res.Trailer, body, err}
}

func (r *testProxy) post(path, body string, header ...string) answer {
	r.Helper()
	return r.do(r.request(context.Background(), path, body, header...))
}

// chat sends the usual question.
func (r *testProxy) chat(header ...string) answer {
	r.Helper()
	return r.post(chatPath, chat, header...)
}

// call is a request under way whose client may leave.
type call struct {
	leave  context.CancelFunc
	answer chan answer // has room for the one answer
}

func (r *testProxy) start(path, body string, header ...string) call {
	r.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	c := call{cancel, make(chan answer, 1)}
	req := r.request(ctx, path, body, header...)
	go func() { c.answer <- r.do(req) }()
	return c
}

// wait returns the answer.
func (c call) wait() answer {
	defer c.leave()
	return <-c.answer
}

// occupy fills permits with calls that go on until their clients leave.
func (r *testProxy) occupy(n int) (leave func()) {
	r.Helper()
	var calls []call
	before := r.heldResources().inFlight
	for range n {
		calls = append(calls, r.start(chatPath, stream, "Stub-Fault", "hang"))
	}
	r.eventually("permits are taken", func() bool { return r.heldResources().inFlight == before+n })
	return sync.OnceFunc(func() {
		for _, c := range calls {
			c.leave()
			<-c.answer
		}
	})
}

// queueCalls lets n calls wait, one after the other.
func (r *testProxy) queueCalls(n int, body string, header ...string) []call {
	r.Helper()
	var calls []call
	before := r.heldResources().depth
	for i := range n {
		calls = append(calls, r.start(chatPath, body, header...))
		r.eventually("the call waits", func() bool { return r.heldResources().depth == before+i+1 })
	}
	return calls
}

// errorBody is OpenAI's error object.
type errorBody struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    string  `json:"code"`
}

// wantFailure checks that an answer is an error in OpenAI's shape, with all its keys.
func (r *testProxy) wantFailure(a answer, status int, code string) errorBody {
	r.Helper()
	if a.err != nil || a.status != status {
		r.Fatalf("status %d (%v) %s, want %d", a.status, a.err, a.body, status)
	}
	if ct := a.header.Get("Content-Type"); ct != "application/json" {
		r.Errorf("Content-Type %q", ct)
	}
	if id := a.header.Get("Headgate-Task-Id"); len(id) != 36 {
		r.Errorf("Headgate-Task-Id %q", id)
	}
	return r.wantErrorBody(a.body, code)
}

func (r *testProxy) wantErrorBody(body []byte, code string) errorBody {
	r.Helper()
	var keys struct{ Error map[string]json.RawMessage }
	var e struct{ Error errorBody }
	if err := errors.Join(json.Unmarshal(body, &keys), json.Unmarshal(body, &e)); err != nil {
		r.Fatalf("%q: %v", body, err)
	}
	for _, key := range []string{"message", "type", "param", "code"} {
		if _, ok := keys.Error[key]; !ok {
			r.Errorf("error has no key %s: %s", key, body)
		}
	}
	if e.Error.Code != code || e.Error.Message == "" || e.Error.Type == "" {
		r.Errorf("error %+v, want code %s", e.Error, code)
	}
	return e.Error
}

// wantRefused checks a refusal of the gate, headers and all.
func (r *testProxy) wantRefused(a answer, reason admission.Reason) {
	r.Helper()
	status := http.StatusTooManyRequests
	if reason == admission.ReasonDraining {
		status = http.StatusServiceUnavailable
	}
	r.wantFailure(a, status, reason.String())
	if a.reason() != reason.String() {
		r.Errorf("Headgate-Reason %q, want %s", a.reason(), reason)
	}
	wait, err := time.ParseDuration(a.header.Get("Retry-After") + "s")
	if err != nil || wait < time.Second || wait > 59*time.Second || wait%time.Second != 0 {
		r.Errorf("Retry-After %q", a.header.Get("Retry-After"))
	}
	if ms, err := time.ParseDuration(a.header.Get("Retry-After-Ms") + "ms"); err != nil || ms != wait {
		r.Errorf("Retry-After-Ms %q beside Retry-After %q", a.header.Get("Retry-After-Ms"), a.header.Get("Retry-After"))
	}
}

// wantCompleted checks that an answer came whole.
func (r *testProxy) wantCompleted(a answer) {
	r.Helper()
	if a.err != nil || a.status != http.StatusOK {
		r.Errorf("status %d (%v) %s, want a whole 200", a.status, a.err, a.body)
	}
}

// dialRaw opens a connection to the data plane.
func (r *testProxy) dialRaw() net.Conn {
	r.Helper()
	c, err := r.network.dial(context.Background(), "tcp", r.server.host)
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { _ = c.Close() })
	return c
}

// exchange sends bytes on a connection of their own and returns all that comes
// back until the other side hangs up.
func (r *testProxy) exchange(request string) string {
	r.Helper()
	c := r.dialRaw()
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(waitTimeout))
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		_, _ = io.WriteString(c, request) // the other side may hang up before the end
	}()
	var all bytes.Buffer
	if _, err := io.Copy(&all, c); err != nil {
		r.Logf("after %q: %v", all.Bytes(), err)
	}
	_ = c.Close()
	<-sent
	return all.String()
}

// metricFamily returns the samples of one metric, nil if there is none.
func (r *testProxy) metricFamily(name string) []*dto.Metric {
	r.Helper()
	families, err := r.registry.Gather()
	if err != nil {
		r.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()
		}
	}
	return nil
}

// sum adds a counter or gauge up over all samples that carry the given labels,
// which come in pairs.
func (r *testProxy) sum(name string, labels ...string) float64 {
	r.Helper()
	total := 0.0
	for _, m := range r.metricFamily(name) {
		if hasLabels(m, labels) {
			total += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return total
}

func hasLabels(m *dto.Metric, labels []string) bool {
	for i := 0; i < len(labels); i += 2 {
		found := false
		for _, l := range m.GetLabel() {
			found = found || l.GetName() == labels[i] && l.GetValue() == labels[i+1]
		}
		if !found {
			return false
		}
	}
	return true
}

// countedTasks returns arrivals and outcomes, over all pools.
func (r *testProxy) countedTasks() (arrivals, outcomes int) {
	r.Helper()
	return int(r.sum("headgate_arrivals_total")), int(r.sum("headgate_tasks_total"))
}

// rawUpstream is an upstream that writes given bytes on the wire, whatever they are
// worth, and then does something to the connection.
type rawUpstream struct {
	wire string
	end  func(context.Context, net.Conn)
}

func (s rawUpstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	defer conn.Close()
	_, _ = buffered.WriteString(s.wire)
	_ = buffered.Flush() // the proxy may have hung up already
	if s.end != nil {
		s.end(r.Context(), conn)
	}
}

// resetOnEnd breaks a connection so that the other side sees a reset.
func resetOnEnd(_ context.Context, c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
}

// holdOpen keeps a connection open until the other side hangs up.
func holdOpen(_ context.Context, c net.Conn) { _, _ = io.Copy(io.Discard, c) }

func withRawUpstream(wire string, end func(context.Context, net.Conn)) func(*fixture) {
	return func(p *fixture) { p.upstream = rawUpstream{wire, end} }
}

// Heads of answers.
const (
	chunkedHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
	jsonHead    = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
	lastChunk   = "0\r\n\r\n"
)

// chunks frames each piece as one chunk, without the last one.
func chunks(pieces ...string) string {
	var b strings.Builder
	for _, p := range pieces {
		fmt.Fprintf(&b, "%x\r\n%s\r\n", len(p), p)
	}
	return b.String()
}

// events makes each piece an event with data.
func events(data ...string) string {
	var b strings.Builder
	for _, d := range data {
		fmt.Fprintf(&b, "data: %s\n\n", d)
	}
	return b.String()
}

// Pieces of streams.
const (
	delta          = `{"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":null}]}`
	stop           = `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`
	delta1         = `{"choices":[{"index":1,"delta":{"content":"x"},"finish_reason":null}]}`
	stop1          = `{"choices":[{"index":1,"delta":{},"finish_reason":"length"}]}`
	usage          = `{"choices":[],"usage":{"total_tokens":4}}`
	errorChunk     = `{"error":{"message":"out of memory","type":"server_error","param":null,"code":null}}`
	done           = "[DONE]"
	fullJSON       = `{"choices":[{"message":{"content":"a \"}\" in a string"}}]}`
	fullJSONLength = "Content-Length: 56\r\n\r\n"
)
