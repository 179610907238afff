package proxy

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"

	"headgate/proxy/admission"
)

// encodeBody compresses a body.
func encodeBody(encoding, body string) string {
	var b bytes.Buffer
	var w io.WriteCloser
	switch encoding {
	case "gzip", "x-gzip", "GZIP":
		w = gzip.NewWriter(&b)
	case "deflate":
		w = zlib.NewWriter(&b)
	case "br":
		w = brotli.NewWriter(&b)
	case "zstd":
		w = must(zstd.NewWriter(&b, zstd.WithEncoderConcurrency(1)))
	default:
		return body
	}
	must(io.WriteString(w, body))
	if err := w.Close(); err != nil {
		panic(err)
	}
	return b.String()
}

// A compressed request is looked into, and forwarded as it was sent.
func TestCompressedRequests(t *testing.T) {
	got := make(chan string, 1)
	r := newTestProxy(t, func(p *fixture) {
		p.pool.Models = []string{"m"}
		p.upstream = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			got <- r.Header.Get("Content-Encoding") + " " + string(body)
		})
	})
	for _, encoding := range []string{"gzip", "x-gzip", "GZIP", "deflate", "br", "zstd", "identity", "Identity"} {
		body := encodeBody(encoding, chat)
		r.wantCompleted(r.post(chatPath, body, "Content-Encoding", encoding))
		if seen := <-got; seen != encoding+" "+body {
			t.Errorf("%s: upstream saw %.60q", encoding, seen)
		}
		r.wantFailure(r.post(chatPath, encodeBody(encoding, `{"model":"x"}`), "Content-Encoding", encoding), http.StatusNotFound, "model_not_found")
	}
}

func TestCompressedRequestsThatCannotBeRead(t *testing.T) {
	const limit = 1 << 20
	bomb := strings.Repeat(" ", 4<<20) + chat
	cases := map[string]struct {
		encoding, body string
		status         int
		code           string
	}{
		"not gzip":                {"gzip", chat, 400, "invalid_body"},
		"not zstd":                {"zstd", chat, 400, "invalid_body"},
		"not brotli":              {"br", "\xff\xff\xff" + chat, 400, "invalid_body"},
		"not zlib":                {"deflate", chat, 400, "invalid_body"},
		"half a gzip":             {"gzip", encodeBody("gzip", chat)[:30], 400, "invalid_body"},
		"half a zstd":             {"zstd", encodeBody("zstd", chat)[:30], 400, "invalid_body"},
		"nothing":                 {"gzip", "", 400, "invalid_body"},
		"unknown":                 {"snappy", chat, 415, "unsupported_content_encoding"},
		"two encodings":           {"gzip, gzip", encodeBody("gzip", encodeBody("gzip", chat)), 415, "unsupported_content_encoding"},
		"JSON that is none":       {"gzip", encodeBody("gzip", "{"), 400, "invalid_json"},
		"gzip bomb":               {"gzip", encodeBody("gzip", bomb), 413, "request_too_large"},
		"zlib bomb":               {"deflate", encodeBody("deflate", bomb), 413, "request_too_large"},
		"brotli bomb":             {"br", encodeBody("br", bomb), 413, "request_too_large"},
		"zstd bomb":               {"zstd", encodeBody("zstd", bomb), 413, "request_too_large"},
		"a zstd window of 1 GiB":  {"zstd", "\x28\xb5\x2f\xfd\x00\xa0\x01\x00\x00", 400, "invalid_body"},
		"one byte over the limit": {"gzip", encodeBody("gzip", strings.Repeat(" ", limit+1-len(chat))+chat), 413, "request_too_large"},
		"exactly the limit":       {"gzip", encodeBody("gzip", strings.Repeat(" ", limit-len(chat))+chat), 200, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := newTestProxy(t, func(p *fixture) { p.pool.BodyLimit = limit })
			a := r.post(chatPath, c.body, "Content-Encoding", c.encoding)
			if c.status == 200 {
				r.wantCompleted(a)
				return
			}
			r.wantFailure(a, c.status, c.code)
			r.wantOutcome(admission.Invalid, c.status)
			if n := r.stub.Stats().Calls; n != 0 {
				t.Errorf("%d calls went upstream", n)
			}
		})
	}
}

func TestBodyLimit(t *testing.T) {
	const limit = 40_000
	fill := func(n int) string { return chat + strings.Repeat(" ", n-len(chat)) }
	for name, c := range map[string]struct {
		size   int
		status int
	}{
		"a usual one":   {32_769, 200},
		"exactly":       {limit, 200},
		"one byte more": {limit + 1, 413},
		"much more":     {10 * limit, 413},
	} {
		for framing, header := range map[string]string{"announced": "", "chunked": "chunked"} {
			t.Run(name+", "+framing, func(t *testing.T) {
				r := newTestProxy(t, func(p *fixture) { p.pool.BodyLimit = limit })
				req := r.request(context.Background(), chatPath, fill(c.size))
				if header != "" {
					req.ContentLength = -1
				}
				a := r.do(req)
				if c.status == 200 {
					r.wantCompleted(a)
					return
				}
				r.wantFailure(a, c.status, "request_too_large")
				r.wantOutcome(admission.Invalid, c.status)
			})
		}
	}
}

// The client that asks first is told before it sends.
func TestTooLargeIsToldBeforeTheBodyIsSent(t *testing.T) {
	r := newTestProxy(t, func(p *fixture) { p.pool.BodyLimit = 1000 })
	got := r.exchange(requestHead(chatPath, "Content-Length: 1001", "Expect: 100-continue"))
	if !strings.HasPrefix(got, "HTTP/1.1 413 ") || strings.Contains(got, "100 Continue") {
		t.Errorf("%q", got)
	}
}

// Memory is taken as bytes arrive, refused when it is used up, and given back.
func TestMemoryForBodies(t *testing.T) {
	const limit = 256 << 10
	body := chat + strings.Repeat(" ", 90<<10)
	r := newTestProxy(t, func(p *fixture) {
		withOneWorker(p)
		p.gate.Policy = admission.None{}
		p.pool.BodyLimit, p.pool.BufferLimit = limit, limit
	})
	leave := r.occupy(1)
	waiting := r.queueCalls(1, body)
	var group sync.WaitGroup
	for range 5 {
		group.Go(func() { r.wantRefused(r.post(chatPath, strings.Repeat(body, 2)), admission.ReasonMemory) })
	}
	group.Wait()
	r.wantRefused(r.post(chatPath, encodeBody("gzip", strings.Repeat(" ", limit-len(chat))+chat), "Content-Encoding", "gzip"), admission.ReasonMemory)
	leave()
	r.wantCompleted(waiting[0].wait())
	r.wantIdle()
	r.wantCompleted(r.post(chatPath, chat+strings.Repeat(" ", limit/2)))
	if n := r.recorder.outcomes(); n[admission.Refused] != 6 || n[admission.Completed] != 2 {
		t.Errorf("outcomes %v", n)
	}
	if n := r.sum("headgate_refusals_total", "reason", "memory"); n != 6 {
		t.Errorf("%v refusals for memory counted", n)
	}
	if !strings.Contains(r.logs.String(), "level=ERROR") {
		t.Error("an operator is not told")
	}
}

// What is only announced costs nothing much.
func TestAnnouncedBytesAreNotSetAside(t *testing.T) {
	r := newTestProxy(t, func(p *fixture) { p.pool.BufferLimit = 4 << 20 })
	for range 20 {
		conn := r.dialRaw()
		r.write(conn, requestHead(chatPath, "Content-Length: 4000000")+"{")
		defer conn.Close()
	}
	r.eventually("all have begun", func() bool { return r.heldResources().buffered >= 20*4096 })
	if n := r.heldResources().buffered; n > 20*maxPrealloc {
		t.Errorf("%d bytes are set aside", n)
	}
	r.wantCompleted(r.chat())
}

func TestBudget(t *testing.T) {
	var shared, own budget
	shared.limit.Store(100)
	own.limit.Store(50)
	h := reservation{shared: &shared}
	if !h.grow(40) || !h.assign(&own) || h.grow(70) || h.n != 40 {
		t.Errorf("holds %d", h.n)
	}
	other := reservation{shared: &shared}
	if !other.grow(60) || other.assign(&own) {
		t.Error("more than the pool's own budget was given")
	}
	if shared.used.Load() != 100 || own.used.Load() != 40 {
		t.Errorf("used %d and %d", shared.used.Load(), own.used.Load())
	}
	for range 2 { // a second release gives nothing back
		h.release()
		other.release()
	}
	if shared.used.Load() != 0 || own.used.Load() != 0 {
		t.Errorf("used %d and %d after all was given back", shared.used.Load(), own.used.Load())
	}
}

// earlyAnswers are requests that are answered before their body is looked at.
var earlyAnswers = map[string]struct {
	method, path string
	header       string
	status       int
}{
	"no such URL":        {"POST", "/v1/nothing", "A: b", http.StatusNotFound},
	"wrong method":       {"PUT", chatPath, "A: b", http.StatusMethodNotAllowed},
	"models by POST":     {"POST", modelsPath, "A: b", http.StatusMethodNotAllowed},
	"no key":             {"POST", chatPath, "A: b", http.StatusUnauthorized},
	"models without key": {"GET", modelsPath, "A: b", http.StatusUnauthorized},
	"wrong priority":     {"POST", chatPath, "Authorization: Bearer k\r\nHeadgate-Priority: x", http.StatusBadRequest},
	"wrong deadline":     {"POST", chatPath, "Authorization: Bearer k\r\nHeadgate-Deadline: x", http.StatusBadRequest},
	"wrong type":         {"POST", chatPath, "Authorization: Bearer k\r\nContent-Type: text/plain", http.StatusUnsupportedMediaType},
	"too large":          {"POST", chatPath, "Authorization: Bearer k\r\nContent-Type: application/json", http.StatusRequestEntityTooLarge},
}

// A client that sends all of a large body before it reads must get to see the
// answer, not a reset.
func TestEarlyAnswerToALargeBody(t *testing.T) {
	const size = 16 << 20
	for name, c := range earlyAnswers {
		for framing, wire := range map[string]string{
			"announced": "Content-Length: 16777216\r\n\r\n" + strings.Repeat(" ", size),
			"chunked":   "Transfer-Encoding: chunked\r\n\r\n" + strings.Repeat(chunks(strings.Repeat(" ", 64<<10)), size/(64<<10)) + lastChunk,
		} {
			t.Run(name+", "+framing, func(t *testing.T) {
				t.Parallel()
				r := newTestProxy(t, withClient("k"))
				conn := r.dialRaw()
				r.write(conn, c.method+" "+c.path+" HTTP/1.1\r\nHost: gate.test\r\n"+c.header+"\r\n"+wire)
				a := r.readResponse(bufio.NewReader(conn))
				if a.status != c.status || a.err != nil {
					t.Errorf("status %d (%v), want %d", a.status, a.err, c.status)
				}
				if !strings.Contains(string(a.body), `"error":{`) {
					t.Errorf("body %s", a.body)
				}
			})
		}
	}
}

// Nor may a client that never ends its body hold the connection for ever.
func TestEarlyAnswerToABodyThatStopsArriving(t *testing.T) {
	for name, c := range earlyAnswers {
		for framing, wire := range map[string]string{
			"announced": "Content-Length: 100000\r\n\r\n ",
			"large":     "Content-Length: 10000000\r\n\r\n ",
			"chunked":   "Transfer-Encoding: chunked\r\n\r\n" + chunks(" "),
			"expected":  "Content-Length: 100000\r\nExpect: 100-continue\r\n\r\n",
		} {
			if c.status == http.StatusRequestEntityTooLarge && framing != "large" {
				continue // is not too large so far
			}
			t.Run(name+", "+framing, func(t *testing.T) {
				withSynctest(t, withClient("k"), func(r *testProxy) {
					began := time.Now()
					conn := r.dialRaw()
					r.write(conn, c.method+" "+c.path+" HTTP/1.1\r\nHost: gate.test\r\n"+c.header+"\r\n"+wire)
					br := bufio.NewReader(conn)
					if a := r.readResponse(br); a.status != c.status || a.err != nil {
						t.Errorf("status %d (%v), want %d", a.status, a.err, c.status)
					}
					if _, err := br.ReadByte(); err != io.EOF {
						t.Errorf("then %v, want the end of the connection", err)
					}
					if d := time.Since(began); d > 45*time.Second {
						t.Errorf("held for %s", d)
					}
				})
			})
		}
	}
}

func TestInspect(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		body string
		want requestInfo
		code string // of the failure
		says string
	}{
		{body: `{"model":"m"}`, want: requestInfo{model: "m"}},
		{body: ` {"stream":true,"model":"m/ü"}`, want: requestInfo{model: "m/ü", stream: true}},
		{body: `{"stream":false,"model":"m"}`, want: requestInfo{model: "m"}},
		{body: `{"stream":"true","model":"m"}`, want: requestInfo{model: "m"}},
		{body: `{"\u006dodel":"a\"\u0062"}`, want: requestInfo{model: `a"b`}},
		{body: `{"messages":[{"model":"x","stream":true}],"model":"m"}`, want: requestInfo{model: "m"}},
		{body: `{"Model":"x","model":"m"}`, want: requestInfo{model: "m"}},
		{body: `{"model":"m","model":"m"}`, code: "invalid_json", says: `"model" twice`},
		{body: `{"model":"m","\u006dodel":"n"}`, code: "invalid_json", says: `"model" twice`},
		{body: `{"stream":true,"model":"m","str\u0065am":null}`, code: "invalid_json", says: `"stream" twice`},
		{body: `{"stream":1,"model":"m","model":1,"stream":1}`, code: "invalid_json", says: `"model" twice`},
		{body: `{"model":"m","model":"n"`, code: "invalid_json", says: "not valid JSON"},
		{body: `["model"]`, code: "invalid_json", says: "must be a JSON object"},
		{body: `"{"`, code: "invalid_json", says: "must be a JSON object"},
		{body: ``, code: "invalid_json", says: "not valid JSON"},
		{body: `{"model":""}`},
		{body: `{"model":7}`, code: "model_required"},
		{body: `{"model":null}`, code: "model_required"},
		{body: `{"model":["m"]}`, code: "model_required"},
		{body: `{}`},
		{body: `{"model":` + strings.Repeat("[", maxNesting+1), code: "invalid_json", says: "nests deeper"},
	} {
		got, f := inspect([]byte(c.body))
		if got != c.want {
			t.Errorf("%.60s: %+v, want %+v", c.body, got, c.want)
		}
		switch {
		case (f != nil) != (c.code != ""):
			t.Errorf("%.60s: failure %v", c.body, f)
		case f != nil && (f.code != c.code || f.status != 400 || !strings.Contains(f.message, c.says)):
			t.Errorf("%.60s: %d %s %q, want 400 %s saying %q", c.body, f.status, f.code, f.message, c.code, c.says)
		}
	}
}

func BenchmarkInspect(b *testing.B) {
	body := []byte(`{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("total = total + price[i]; ", 160) + `"}],"max_tokens":256}`)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, f := inspect(body); f != nil {
			b.Fatal(f)
		}
	}
}
