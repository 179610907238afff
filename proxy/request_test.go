package proxy

import (
	"bufio"
	"fmt"
	"net/http"
	"strings"
	"testing"

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
		"/": 404, "/v1": 404, "/v1/": 404, "/v1/chat": 404, "/v1/chat/completions/": 404, "//v1/chat/completions": 404,
		"/v1//chat/completions": 404, "/v1/./chat/completions": 404, "/v1/x/../chat/completions": 404, "/../v1/chat/completions": 404,
		"/v1/chat%2Fcompletions": 404, "/v1/chat%2fcompletions": 404, "/v1/%63hat/completions": 404, "/v1/chat/completions%00": 404,
		"/v1/chat/completions%20": 404, "/V1/chat/completions": 404, "/v1/chat/completions;x": 404, "/v1/files": 404,
		"/metrics": 404, "/v1/models/m": 404, "/v1/models%2f": 404, "/v1/./models": 404, "*": 404, "http://x": 404,
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
	if n := r.stub.Stats().ByPath[chatPath].Calls; n != 3 {
		t.Errorf("%d calls went upstream, want 3", n)
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
