package proxy

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"headgate/internal/modelstub"
	"headgate/proxy/admission"
)

// Bodies that cannot be routed are told so, and never reach the upstream.
func TestBodiesThatCannotBeRouted(t *testing.T) {
	deep := func(n int) string {
		return `{"model":"m","x":` + strings.Repeat("[", n) + strings.Repeat("]", n) + "}"
	}
	cases := map[string]struct {
		body, code string
		status     int // 0: forwarded
	}{
		"nothing":              {"", "invalid_json", 400},
		"white space":          {" \r\n\t", "invalid_json", 400},
		"not JSON":             {"hello", "invalid_json", 400},
		"half":                 {`{"model":"m"`, "invalid_json", 400},
		"more than one":        {`{"model":"m"}{"model":"m"}`, "invalid_json", 400},
		"a comma too many":     {`{"model":"m",}`, "invalid_json", 400},
		"a list":               {`[{"model":"m"}]`, "invalid_json", 400},
		"a text":               {`"model"`, "invalid_json", 400},
		"null":                 {`null`, "invalid_json", 400},
		"a byte order mark":    {"\ufeff" + chat, "invalid_json", 400},
		"NUL bytes":            {"\x00" + chat, "invalid_json", 400},
		"NUL in a text":        {"{\"model\":\"m\x00\"}", "invalid_json", 400},
		"NaN":                  {`{"model":"m","x":NaN}`, "invalid_json", 400},
		"comments":             {`{"model":"m"/**/}`, "invalid_json", 400},
		"UTF-16":               {"{\x00\"\x00m\x00", "invalid_json", 400},
		"too deep":             {deep(10_000), "invalid_json", 400},
		"much too deep":        {`{"model":"m","x":` + strings.Repeat(`{"a":[`, 600_000), "invalid_json", 400},
		"deep enough":          {deep(9_999), "", 0},
		"no model":             {`{"messages":[]}`, "model_required", 400},
		"model null":           {`{"model":null}`, "model_required", 400},
		"model a number":       {`{"model":7}`, "model_required", 400},
		"model empty":          {`{"model":""}`, "model_required", 400},
		"model further in":     {`{"x":{"model":"m"}}`, "model_required", 400},
		"model twice":          {`{"model":"m","model":"n"}`, "invalid_json", 400},
		"model twice the same": {`{"model":"m","model":"m"}`, "invalid_json", 400},
		"model twice, escaped": {`{"model":"m","mod\u0065l":"n"}`, "invalid_json", 400},
		"stream twice":         {`{"model":"m","stream":false,"stream":true}`, "invalid_json", 400},
		"model escaped":        {`{"\u006dodel":"\u006d"}`, "", 0},
		"unknown model":        {`{"model":"n"}`, "model_not_found", 404},
		"unknown huge model":   {`{"model":"` + strings.Repeat("ü", 100_000) + `"}`, "model_not_found", 404},
		"model of lone halves": {`{"model":"\ud800"}`, "model_not_found", 404},
		"markup in the model":  {`{"model":"<script>\u0000\r\nX: y"}`, "model_not_found", 404},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := newTestProxy(t, func(p *fixture) { withOneWorker(p); p.pool.Models = []string{"m"}; p.pool.BodyLimit = 8 << 20 })
			a := r.post(chatPath, c.body)
			if c.status == 0 {
				r.task(1)
				if n := r.stub.Stats().Calls; n != 1 {
					t.Errorf("%d calls went upstream: %d %s", n, a.status, a.body)
				}
				return
			}
			e := r.wantFailure(a, c.status, c.code)
			if e.Type != "invalid_request_error" || len(e.Message) > 1000 {
				t.Errorf("error %+v", e)
			}
			r.wantOutcome(admission.Invalid, c.status)
			if n := r.stub.Stats().Calls; n != 0 {
				t.Errorf("%d calls went upstream", n)
			}
			r.wantCompleted(r.chat())
		})
	}
}

// Text that is not UTF-8 is either refused or forwarded as it is.
func TestTextThatIsNotUTF8(t *testing.T) {
	for _, body := range []string{"{\"model\":\"m\",\"x\":\"\xff\xfe\"}", "{\"model\":\"\xff\"}", "{\"\xff\":1,\"model\":\"m\"}"} {
		r := newTestProxy(t, nil)
		a := r.post(chatPath, body)
		if o := r.task(1); a.err != nil || o.Outcome != admission.Invalid && o.Outcome != admission.Completed {
			t.Errorf("%q: status %d (%v), outcome %s", body, a.status, a.err, o.Outcome)
		}
	}
}

func TestContentTypes(t *testing.T) {
	r := newTestProxy(t, nil)
	for kind, ok := range map[string]bool{
		"application/json": true, "application/json; charset=utf-8": true, "APPLICATION/JSON": true, "application/vnd.x+json": true,
		"": false, "text/plain": false, "text/json": false, "application/x-www-form-urlencoded": false, "application/jsonx": false,
		"application/json;;": false, "multipart/form-data; boundary=x": false, "json": false, "image/x+json": false,
	} {
		a := r.post(chatPath, chat, "Content-Type", kind)
		if ok {
			r.wantCompleted(a)
		} else {
			r.wantFailure(a, http.StatusUnsupportedMediaType, "unsupported_content_type")
		}
	}
}

// What is not one of the listed URLs is not there, however it is written.
func TestTargets(t *testing.T) {
	r := newTestProxy(t, nil)
	for target, status := range map[string]int{
		chatPath: 200, chatPath + "?x=1": 200, "http://elsewhere.test" + chatPath: 200,
		"/v1/chat/completions/": 200, "//v1/chat/completions": 200, "/v1//chat/completions": 200,
		"/": 404, "/v1": 404, "/v1/": 404, "/v1/chat": 404, "/v1/./chat/completions": 404, "/v1/x/../chat/completions": 404, "/../v1/chat/completions": 404,
		"/v1/chat%2Fcompletions": 404, "/v1/chat%2fcompletions": 404, "/v1/%63hat/completions": 404, "/v1/chat/completions%00": 404,
		"/v1/chat/completions%20": 404, "/V1/chat/completions": 404, "/v1/chat/completions;x": 404, "/v1/file": 404, "/v1/files/../chat": 404, "/v1/files/%2e%2e/chat": 404,
		"/v1/files/..;/chat": 404, "/v1/files/a%2fb": 404, "/v1/files/a%5Cb": 404, "/v1/files/a%252fb": 404, "/v1/files/.": 404,
		"/metrics": 404, "/v1/models/m": 405, "/healthz": 404, "/v1/models%2f": 404, "/v1/./models": 404, "*": 404, "http://x": 404,
		"/v1/chat/completions#x": 404, "/v1/chat\\completions": 404,
	} {
		got := r.exchange("POST " + target + " HTTP/1.1\r\nHost: gate.test\r\nConnection: close\r\nContent-Type: application/json\r\n" + lengthOf(chat) + "\r\n\r\n" + chat)
		if !strings.HasPrefix(got, fmt.Sprintf("HTTP/1.1 %d ", status)) {
			t.Errorf("%s: %.100q, want %d", target, got, status)
		}
		if status == 404 && (!strings.Contains(got, `"code":"unknown_url"`) || !strings.Contains(got, "POST /v1/chat/completions, ")) {
			t.Errorf("%s: %q", target, got)
		}
	}
	if n := r.stub.Stats().ByPath[chatPath].Calls; n != 6 {
		t.Errorf("%d calls went upstream, want 6", n)
	}
}

func TestMethods(t *testing.T) {
	r := newTestProxy(t, nil)
	for _, method := range []string{"GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "post", "BREW"} {
		got := r.exchange(method + " " + chatPath + " HTTP/1.1\r\nHost: gate.test\r\nConnection: close\r\n\r\n")
		if !strings.HasPrefix(got, "HTTP/1.1 405 ") || !strings.Contains(got, "\r\nAllow: POST\r\n") {
			t.Errorf("%s: %q", method, got)
		}
		if method != "HEAD" && !strings.Contains(got, `"code":"method_not_allowed"`) {
			t.Errorf("%s: %q", method, got)
		}
	}
	if a := r.do(must(http.NewRequest(http.MethodDelete, r.server.url()+modelsPath, nil))); a.status != 405 || a.header.Get("Allow") != "GET, HEAD" {
		t.Errorf("models: status %d, Allow %q", a.status, a.header.Get("Allow"))
	}
	if len(r.recorder.all()) != 0 {
		t.Error("what is not a task was counted as one")
	}
}

// Requests whose framing can be read in two ways, as net/http decides them: none
// of them may leave bytes behind that are taken for a second request.
func TestSmuggling(t *testing.T) {
	const inner = "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nx"
	r := newTestProxy(t, func(p *fixture) { p.pool.Models = []string{"m"} })
	for name, wire := range map[string]string{
		"both lengths":         requestHead(chatPath, "Content-Length: 5", "Transfer-Encoding: chunked", "Connection: close") + chunks(chat) + lastChunk,
		"two lengths":          requestHead(chatPath, "Content-Length: 5", "Content-Length: 6") + inner,
		"a list of lengths":    requestHead(chatPath, "Content-Length: 5, 6") + inner,
		"a signed length":      requestHead(chatPath, "Content-Length: +5") + inner,
		"a negative length":    requestHead(chatPath, "Content-Length: -5") + inner,
		"a hex length":         requestHead(chatPath, "Content-Length: 0x5") + inner,
		"chunked twice":        requestHead(chatPath, "Transfer-Encoding: chunked", "Transfer-Encoding: chunked") + chunks(chat) + lastChunk,
		"chunked, identity":    requestHead(chatPath, "Transfer-Encoding: chunked, identity") + chunks(chat) + lastChunk,
		"another coding":       requestHead(chatPath, "Transfer-Encoding: xchunked") + chunks(chat) + lastChunk,
		"space in the name":    requestHead(chatPath, "Transfer-Encoding : chunked", "Content-Length: 5") + inner,
		"a folded header":      requestHead(chatPath, "X: a\r\n Transfer-Encoding: chunked", "Connection: close", lengthOf(inner)) + inner,
		"a chunk of minus one": requestHead(chatPath, "Transfer-Encoding: chunked") + "-1\r\n" + inner,
		"an endless chunk":     requestHead(chatPath, "Transfer-Encoding: chunked") + strings.Repeat("f", 20) + "\r\n" + inner,
		"no host":              "POST " + chatPath + " HTTP/1.1\r\nContent-Length: 1\r\n\r\nx",
		"two hosts":            "POST " + chatPath + " HTTP/1.1\r\nHost: a\r\nHost: b\r\nContent-Length: 1\r\n\r\nx",
		"a bare LF":            strings.ReplaceAll(requestHead(chatPath, lengthOf(chat), "Connection: close"), "\r\n", "\n") + chat,
		"HTTP/0.9":             "POST " + chatPath + "\r\n\r\n",
		"HTTP/3.0":             "POST " + chatPath + " HTTP/3.0\r\nHost: x\r\n\r\n",
		"an upgrade to HTTP/2": "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"a huge header":        requestHead(chatPath, "X: "+strings.Repeat("x", 1<<20)),
	} {
		t.Run(name, func(t *testing.T) {
			got := r.exchange(wire)
			if n := strings.Count(got, "HTTP/1."); n > 1 {
				t.Errorf("%d answers: %.300q", n, got)
			}
			if !strings.Contains(got, " 200 OK") && !strings.Contains(got, "HTTP/1.1 4") && !strings.Contains(got, "HTTP/1.1 5") && got != "" {
				t.Errorf("%.300q", got)
			}
			r.eventually("its task has ended", r.recorder.balanced)
		})
	}
}

func TestHTTP10AndPipelinedClients(t *testing.T) {
	r := newTestProxy(t, nil)
	for name, c := range map[string]string{
		"HTTP/1.0":                 "POST " + chatPath + " HTTP/1.0\r\nContent-Type: application/json\r\n" + lengthOf(stream) + "\r\n\r\n" + stream,
		"HTTP/1.0 with keep-alive": "POST " + chatPath + " HTTP/1.0\r\nConnection: keep-alive\r\nContent-Type: application/json\r\n" + lengthOf(stream) + "\r\n\r\n" + stream,
	} {
		if got := r.exchange(c); !strings.Contains(got, " 200 OK") || !strings.HasSuffix(got, "data: [DONE]\n\n") {
			t.Errorf("%s: %q", name, got)
		}
	}
	conn := r.dialRaw()
	one := requestHead(chatPath, lengthOf(chat)) + chat
	go func() { _, _ = conn.Write([]byte(strings.Repeat(one, 5))) }()
	br := bufio.NewReader(conn)
	for range 5 {
		r.wantCompleted(r.readResponse(br))
	}
}

// proxiedAndDirect sends the same request through the proxy and past it.
func (r *testProxy) proxiedAndDirect(path, body string, header ...string) (through, past answer) {
	r.Helper()
	through = r.post(path, body, header...)
	req := r.request(context.Background(), path, body, header...)
	req.URL.Host, req.Host = r.upstream.host, ""
	return through, r.do(req)
}

// addedHeaders are the headers that a proxied answer has beyond the upstream's.
var addedHeaders = []string{"Headgate-Task-Id", "Headgate-Queue-Wait-Ms", "X-Accel-Buffering"}

// wantSameAnswer checks that two answers are the same but for what the proxy adds.
func (r *testProxy) wantSameAnswer(through, past answer) {
	r.Helper()
	if through.status != past.status || (through.err == nil) != (past.err == nil) {
		r.Errorf("status %d (%v), past the proxy %d (%v)", through.status, through.err, past.status, past.err)
	}
	if !bytes.Equal(through.body, past.body) {
		r.Errorf("bodies differ: %.200q, past the proxy %.200q", through.body, past.body)
	}
	h := maps.Clone(through.header)
	for _, name := range addedHeaders {
		h.Del(name)
	}
	for _, name := range []string{"Date", "Openai-Processing-Ms"} { // differ from call to call
		if (h.Get(name) == "") != (past.header.Get(name) == "") {
			r.Errorf("%s: %q, past the proxy %q", name, h.Get(name), past.header.Get(name))
		}
		h.Del(name)
		past.header.Del(name)
	}
	if diff := cmp.Diff(past.header, h); diff != "" {
		r.Errorf("headers (-past +through):\n%s", diff)
	}
	if diff := cmp.Diff(past.trailer, through.trailer); diff != "" {
		r.Errorf("trailers (-past +through):\n%s", diff)
	}
}

func TestBytesOfEveryEndpoint(t *testing.T) {
	r := newTestProxy(t, nil)
	const tools = `,"tools":[{"type":"function","function":{"name":"f","parameters":{}}}],"tool_choice":"required"`
	bodies := map[string][]string{
		chatPath: {chat, stream, `{"model":"m","n":3,"stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"x"}]}`,
			`{"model":"m","messages":[{"role":"user","content":"x"}]` + tools + `}`, `{"model":"m","stream":true,"messages":[{"role":"user","content":"x"}]` + tools + `}`,
			`{"model":"m","messages":7}`},
		"/v1/completions": {`{"model":"m","prompt":"x"}`, `{"model":"m","prompt":["x","y"],"n":2,"stream":true}`},
		"/v1/responses":   {`{"model":"m","input":"x"}`, `{"model":"m","input":"x","stream":true}`, `{"model":"m","input":"x","stream":true` + tools + `}`},
		"/v1/embeddings":  {`{"model":"m","input":"x"}`, `{"model":"m","input":["x","y"],"encoding_format":"base64"}`},
	}
	n := 0
	for path, all := range bodies {
		for i, body := range all {
			headers := [][]string{nil, {"Stub-Trailer", "yes"}}
			if i < 2 {
				headers = append(headers, []string{"Stub-Encoding", "gzip"}, []string{"Stub-Encoding", "br"}, []string{"Stub-Encoding", "zstd"})
			}
			for _, header := range headers {
				r.wantSameAnswer(r.proxiedAndDirect(path, body, header...))
				n++
			}
		}
	}
	r.wantIdle()
	if got := r.recorder.outcomes()[admission.Completed]; got != n {
		t.Errorf("%d of %d completed: %v", got, n, r.recorder.outcomes())
	}
}

func TestBytesOfOddStreams(t *testing.T) {
	r := newTestProxy(t, nil)
	for i, odd := range modelstub.EdgeCaseStreams() {
		t.Run(odd.Name, func(t *testing.T) {
			through, past := r.proxiedAndDirect(chatPath, stream, "Stub-Stream", odd.Name)
			r.wantSameAnswer(through, past)
			if !bytes.Equal(through.body, odd.Bytes()) {
				t.Errorf("%.100q, want %.100q", through.body, odd.Bytes())
			}
			if o := r.task(i + 1); o.Outcome != admission.Completed {
				t.Errorf("outcome %s", o.Outcome)
			}
		})
	}
}

func TestBytesOfFaults(t *testing.T) {
	r := newTestProxy(t, nil)
	for _, fault := range []string{"status=400", "status=429;retry_after=3", "status=500", "status=503", "error_event=2"} {
		for _, body := range []string{chat, stream} {
			r.wantSameAnswer(r.proxiedAndDirect(chatPath, body, "Stub-Fault", fault))
		}
	}
}

func TestBytesOfLists(t *testing.T) {
	r := newTestProxy(t, nil)
	through := r.do(must(http.NewRequest(http.MethodGet, r.server.url()+modelsPath, nil)))
	past := r.do(must(http.NewRequest(http.MethodGet, r.upstream.url()+modelsPath, nil)))
	r.wantSameAnswer(through, past)
	head := r.do(must(http.NewRequest(http.MethodHead, r.server.url()+modelsPath, nil)))
	if head.status != http.StatusOK || len(head.body) != 0 || head.header.Get("Content-Length") != fmt.Sprint(len(past.body)) {
		t.Errorf("HEAD: status %d, %v, %q", head.status, head.header, head.body)
	}
}

// Headers and framings that the stub does not know.
func TestUnusualAnswers(t *testing.T) {
	const line = "HTTP/1.1 200 Fine\r\n"
	for name, wire := range map[string]string{
		"no content type":         line + "Content-Length: 6\r\n\r\n<html>",
		"empty content type":      line + "Content-Type:\r\nContent-Length: 6\r\n\r\n<html>",
		"no content type, empty":  line + "Content-Length: 0\r\n\r\n",
		"to the end":              line + "Content-Type: text/plain\r\n\r\nall of it",
		"repeated headers":        line + "X-A: 1\r\nX-A: 2\r\nSet-Cookie: a=b\r\nSet-Cookie: c=d\r\nContent-Length: 0\r\n\r\n",
		"odd header names":        line + "x-lower: 1\r\nX_Under: 2\r\nX.Dot: 3\r\nContent-Length: 0\r\n\r\n",
		"bytes beyond ASCII":      line + "X-A: gr\xfc\xdfe \xff\r\nContent-Length: 0\r\n\r\n",
		"unannounced trailers":    line + "Transfer-Encoding: chunked\r\n\r\n" + chunks("abc") + "0\r\nX-Sum: 3\r\nX-Sum: 4\r\n\r\n",
		"announced trailers":      line + "Transfer-Encoding: chunked\r\nTrailer: X-Sum, X-Other\r\n\r\n" + chunks("abc") + "0\r\nX-Sum: 3\r\n\r\n",
		"one more than announced": line + "Transfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n" + chunks("abc") + "0\r\nX-Sum: 3\r\nX-More: 4\r\n\r\n",
		"not modified":            "HTTP/1.1 304 Not Modified\r\nEtag: \"x\"\r\n\r\n",
		"its own request ID":      line + "X-Request-Id: upstream\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.0":                "HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\nold",
		"null bytes":              line + "Content-Type: application/octet-stream\r\nContent-Length: 4\r\n\r\n\x00\x01\xff\x00",
	} {
		t.Run(name, func(t *testing.T) {
			r := newTestProxy(t, withRawUpstream(wire, nil))
			through, past := r.proxiedAndDirect(chatPath, chat)
			if past.header.Get("Date") == "" {
				through.header.Del("Date") // a proxy with a clock adds one
			}
			if past.header.Get("X-Request-Id") == "" {
				through.header.Del("X-Request-Id")
			}
			for _, h := range []http.Header{through.header, past.header} {
				if h.Get("Content-Length") == "0" && through.status == http.StatusOK {
					h.Del("Content-Length")
				}
			}
			past.header.Del("Connection")
			r.wantSameAnswer(through, past)
		})
	}
}

// A request body reaches the upstream as it was sent, whatever is in it.
func TestBytesOfRequests(t *testing.T) {
	got := make(chan []byte, 1)
	r := newTestProxy(t, func(p *fixture) {
		p.pool.Endpoints = gatedPosts("/v1/audio/transcriptions", "/v1/rerank")
		p.upstream = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var b bytes.Buffer
			_, _ = b.ReadFrom(r.Body)
			got <- append([]byte(fmt.Sprintln(r.URL.RequestURI(), r.ContentLength)), b.Bytes()...)
		})
	})
	long := func(n int) string { return `{"model":"m","x":"` + strings.Repeat("x", n-20) + `"}` }
	for _, c := range []struct{ path, body, kind string }{
		{chatPath, chat, "application/json"},
		{chatPath + "?a=1&a=2&b=%2F&c", chat, "application/json; charset=utf-8"},
		{chatPath, " \n\t{\"model\" : \"m\" }\r\n ", "application/json"},
		{chatPath, `{"x":"\u0000\ud83c\udf0a\/","model":"m","big":123456789012345678901234567890,"e":1.50e+2}`, "application/json"},
		{chatPath, long(4096), "application/json"},
		{chatPath, long(32769), "application/json"},
		{chatPath, long(65536), "application/json"},
		{chatPath, long(65537), "application/json"},
		{chatPath, long(1_100_000), "application/json"},
		{chatPath, long(4 << 20), "application/vnd.api+json"},
		{"/v1/audio/transcriptions", "--b\r\n\x00\xff\r\n--b--\r\n", "multipart/form-data; boundary=b"},
		{"/v1/audio/transcriptions", "", "application/octet-stream"},
		{"/v1/rerank", `{"model":"m"}`, "application/json"},
	} {
		r.wantCompleted(r.post(c.path, c.body, "Content-Type", c.kind))
		if want := fmt.Sprintln(c.path, len(c.body)) + c.body; string(<-got) != want {
			t.Errorf("%s: %d bytes of %s changed on the way", c.path, len(c.body), c.kind)
		}
	}
}

func TestHeadersOnTheirWayUp(t *testing.T) {
	seen := make(chan http.Header, 1)
	r := newTestProxy(t, func(p *fixture) {
		p.upstream = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			h := r.Header.Clone()
			h.Set("Host", r.Host)
			seen <- h
		})
	})
	conn := r.exchange(requestHead(chatPath, lengthOf(chat), "Connection: close, X-Named , x-other,,", "Connection: X-Third",
		"X-Named: 1", "X-Other: 2", "X-Third: 3", "Keep-Alive: timeout=5", "Proxy-Connection: x", "Proxy-Authorization: Basic x",
		"Proxy-Authenticate: x", "TE: gzip, trailers", "Trailer: X-T", "Upgrade: h2c", "HTTP2-Settings: x",
		"headgate-deadline: 50s", "HEADGATE-PRIORITY: batch", "Headgate-Made-Up: x",
		"X-Kept: 1", "X-Kept: 2", "x_under: 3", "Cookie: a=b", "X-Request-Id: mine", "User-Agent: test", "Accept-Encoding: br;q=0.1") + chat)
	if !strings.Contains(conn, "200 OK") {
		t.Fatal(conn)
	}
	h := <-seen
	if trace := h.Get("Traceparent"); len(trace) != 55 {
		t.Errorf("Traceparent %q", trace)
	}
	h.Del("Traceparent")
	want := http.Header{
		"Content-Type": {"application/json"}, "Content-Length": {fmt.Sprint(len(chat))}, "Host": {r.upstream.host}, "Te": {"trailers"},
		"X-Kept": {"1", "2"}, "X_under": {"3"}, "Cookie": {"a=b"}, "X-Request-Id": {"mine"}, "User-Agent": {"test"},
		"Accept-Encoding": {"br;q=0.1"}, "Http2-Settings": {"x"},
	}
	if diff := cmp.Diff(want, h); diff != "" {
		t.Errorf("headers (-want +got):\n%s", diff)
	}
}

func TestHeadersOnTheirWayDown(t *testing.T) {
	r := newTestProxy(t, withRawUpstream("HTTP/1.1 200 OK\r\nConnection: keep-alive , x-named\r\nX-Named: 1\r\nKeep-Alive: x\r\nProxy-Authenticate: x\r\n"+
		"Proxy-Connection: x\r\nUpgrade: x\r\nTE: x\r\nX-Kept: 1\r\nX-Kept: 2\r\nHeadgate-Task-Id: forged\r\nContent-Length: 0\r\n\r\n", nil))
	a := r.chat("X-Request-Id", "mine")
	r.wantCompleted(a)
	names := slices.Sorted(maps.Keys(a.header))
	want := []string{"Content-Length", "Date", "Headgate-Queue-Wait-Ms", "Headgate-Task-Id", "X-Kept", "X-Request-Id"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("headers (-want +got):\n%s", diff)
	}
	if o := r.task(1); a.header.Get("Headgate-Task-Id") != o.TaskID || a.header.Get("X-Request-Id") != "mine" || o.RequestID != "mine" {
		t.Errorf("IDs %v, observed %s and %s", a.header, o.TaskID, o.RequestID)
	}
}
