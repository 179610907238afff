package proxy

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"headgate/proxy/admission"
)

// echo is an upstream that answers with its name, method, path and keys.
func echo(name string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{
			"pool": name, "asked": r.Method + " " + r.URL.RequestURI(), "bytes": len(body),
			"keys": strings.Join(append(append(r.Header["Authorization"], r.Header["X-Api-Key"]...), r.Header["Api-Key"]...), " "),
		})
	})
}

type echoed struct {
	Pool, Asked, Keys string
	Bytes             int
}

func (r *testProxy) echoed(a answer) (e echoed) {
	r.Helper()
	if err := json.Unmarshal(a.body, &e); err != nil || a.status != http.StatusOK {
		r.Fatalf("status %d (%v), %s", a.status, a.err, a.body)
	}
	return e
}

// call sends a request with any method.
func (r *testProxy) call(method, path, body string, header ...string) answer {
	r.Helper()
	req := r.request(context.Background(), path, body, header...)
	req.Method = method
	if body == "" {
		req.Body = http.NoBody
	}
	return r.do(req)
}

// D32: requests without a permit are forwarded while every worker is busy, and are not
// tasks.
func TestForwardedWithoutPermit(t *testing.T) {
	r := newTestProxy(t, func(p *fixture) {
		withOneWorker(p)
		p.upstream = echo("main")
		p.pool.Endpoints = []Endpoint{
			{"GET", "/v1/audio/*", false, false}, {"POST", "/api/show", false, false}, {"*", "/v1/vector_stores/*", false, false},
			{"POST", "/v1/embeddings", false, false}, {"*", "/v1/*", false, false},
		}
	})
	r.gate.Pause(time.Now(), time.Now().Add(time.Hour))
	for request, want := range map[string]string{
		"GET /v1/models/m":               "GET /v1/models/m",
		"GET /v1/models/org/m%3A8b?x=1":  "GET /v1/models/org/m%3A8b?x=1",
		"GET /v1/responses/resp_1":       "GET /v1/responses/resp_1",
		"DELETE /v1/responses/resp_1":    "DELETE /v1/responses/resp_1",
		"POST /v1/files":                 "POST /v1/files",
		"GET /v1/files":                  "GET /v1/files",
		"GET /v1//files/f//content/":     "GET /v1/files/f/content",
		"DELETE /v1/batches/b":           "DELETE /v1/batches/b",
		"POST /v1/messages/count_tokens": "POST /v1/messages/count_tokens",
		"GET /v1/audio/a/b":              "GET /v1/audio/a/b",
		"POST /api/show":                 "POST /api/show",
		"PATCH /v1/vector_stores":        "PATCH /v1/vector_stores",
		"POST /v1/embeddings":            "POST /v1/embeddings",
		"PUT /v1/anything":               "PUT /v1/anything",
	} {
		method, target, _ := strings.Cut(request, " ")
		body := ""
		if method == "POST" {
			body = chat
		}
		e := r.echoed(r.call(method, target, body))
		if e.Asked != want || e.Bytes != len(body) {
			t.Errorf("%s: upstream saw %+v", request, e)
		}
	}
	if n := r.recorder.count(); n != 0 {
		t.Errorf("%d tasks were counted", n)
	}
	// A pattern must not take the permit away from a built-in path.
	waiting := r.queueCalls(1, chat)[0]
	r.gate.Resume(time.Now())
	r.wantCompleted(waiting.wait())
	for request, allow := range map[string]string{"GET " + chatPath: "POST", "POST /v1/models": "GET, HEAD", "GET /api/show": "POST"} {
		method, target, _ := strings.Cut(request, " ")
		if a := r.call(method, target, ""); a.status != http.StatusMethodNotAllowed || a.header.Get("Allow") != allow {
			t.Errorf("%s: status %d, Allow %q", request, a.status, a.header.Get("Allow"))
		}
	}
}

// The client's key is checked on every path, and none reaches the upstream (D23).
func TestKeysOnEveryPath(t *testing.T) {
	for _, header := range keyHeaders {
		for _, own := range []string{"", "pool"} {
			r := newTestProxy(t, func(p *fixture) {
				p.upstream = echo("main")
				withClient("right")(p)
				p.pool.UpstreamKey = own
			})
			want := ""
			if own != "" {
				want = "Bearer " + own
			}
			key := "right"
			if header == "Authorization" {
				key = "Bearer right"
			}
			all := []string{"Authorization", "Bearer x", "X-Api-Key", "y", "Api-Key", "z", header, key}
			for _, path := range []string{chatPath, messagesPath, messagesPath + "/count_tokens", "/v1/files"} {
				if e := r.echoed(r.call("POST", path, chat, all...)); e.Keys != want {
					t.Errorf("%s by %s: upstream saw the keys %q, want %q", path, header, e.Keys, want)
				}
				if a := r.call("POST", path, chat, all[:6]...); a.status != http.StatusUnauthorized {
					t.Errorf("%s with wrong keys: status %d", path, a.status)
				}
			}
			if e := r.echoed(r.call("GET", "/v1/models", "", all...)); e.Keys != want {
				t.Errorf("models by %s: %q", header, e.Keys)
			}
		}
	}
}

// Without keys of the proxy's own, the client's pass; an upstream key replaces them all.
func TestUpstreamKeyReplacesAllKeys(t *testing.T) {
	for own, want := range map[string]string{"": "Bearer x y z", "pool": "Bearer pool"} {
		r := newTestProxy(t, func(p *fixture) { p.upstream = echo("main"); p.pool.UpstreamKey = own })
		e := r.echoed(r.chat("Authorization", "Bearer x", "X-Api-Key", "y", "Api-Key", "z"))
		if e.Keys != want {
			t.Errorf("upstream saw %q, want %q", e.Keys, want)
		}
	}
}

func form(fields ...string) (body, contentType string) {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for i := 0; i < len(fields); i += 2 {
		if fields[i] == "file" {
			part, _ := w.CreateFormFile("file", "a.wav")
			_, _ = io.WriteString(part, fields[i+1])
			continue
		}
		_ = w.WriteField(fields[i], fields[i+1])
	}
	_ = w.Close()
	return b.String(), w.FormDataContentType()
}

// D26: the model of a form decides the pool.
func TestModelOfForms(t *testing.T) {
	const path = "/v1/audio/transcriptions"
	r := newTestProxy(t, func(p *fixture) {
		p.upstream = echo("main")
		p.pool.Models, p.pool.Endpoints = []string{"a"}, gatedPosts(path)
		p.more = func(r *testProxy) []Pool {
			second, third := r.newPool("second", echo("second"), "whisper-1"), r.newPool("third", echo("third"), "*")
			second.Endpoints = gatedPosts(path)
			third.Endpoints = []Endpoint{{"POST", "/v1/other", true, false}}
			return []Pool{second, third}
		}
	})
	sound := strings.Repeat("\x00\xff", 100_000)
	for _, c := range []struct {
		fields []string
		status int
		pool   string
	}{
		{[]string{"model", "whisper-1", "file", sound}, 200, "second"},
		{[]string{"file", sound, "language", "de", "model", "whisper-1"}, 200, "second"},
		{[]string{"file", sound, "model", "a"}, 200, "main"},
		{[]string{"file", sound, "model", "b"}, 404, ""},
		{[]string{"model", "a", "file", sound, "model", "whisper-1"}, 400, ""},
		{[]string{"model", strings.Repeat("x", maxFormField+1)}, 400, ""},
		{[]string{"file", sound}, 200, "main"},
	} {
		body, contentType := form(c.fields...)
		a := r.post(path, body, "Content-Type", contentType)
		if a.status != c.status {
			t.Errorf("%.40q: status %d %s", c.fields, a.status, a.body)
		} else if c.status == 200 {
			if e := r.echoed(a); e.Pool != c.pool || e.Bytes != len(body) {
				t.Errorf("%.40q: went to %+v", c.fields, e)
			}
		}
	}
	// The only pool for every model takes what names none.
	if e := r.echoed(r.post("/v1/other", `{"x":1}`)); e.Pool != "third" {
		t.Errorf("%+v", e)
	}
	if e := r.echoed(r.call("GET", "/v1/files", "")); e.Pool != "third" {
		t.Errorf("%+v", e)
	}
	if e := r.echoed(r.call("GET", "/v1/models/whisper-1", "")); e.Pool != "second" {
		t.Errorf("%+v", e)
	}
	if e := r.echoed(r.post(messagesPath+"/count_tokens", `{"model":"a"}`)); e.Pool != "main" {
		t.Errorf("%+v", e)
	}
}

// D39: a browser sends these types to any site without asking it.
func TestContentTypeIsRequired(t *testing.T) {
	r := newTestProxy(t, func(p *fixture) {
		p.upstream = echo("main")
		p.pool.Endpoints = append(gatedPosts("/v1/extra"), Endpoint{"POST", "/v1/free", false, false})
	})
	for _, path := range []string{"/v1/extra", "/v1/free", "/v1/files", chatPath} {
		for _, contentType := range []string{"", "text/plain", "text/plain;charset=UTF-8", "application/x-www-form-urlencoded", "x"} {
			r.wantFailure(r.post(path, chat, "Content-Type", contentType), http.StatusUnsupportedMediaType, "unsupported_content_type")
		}
	}
}

// Anthropic's clients get Anthropic's errors, with the same headers.
func TestAnthropicErrors(t *testing.T) {
	r := newTestProxy(t, func(p *fixture) { withOneWorker(p); withClient("right")(p) })
	leave := r.occupyAs(1, "Authorization", "Bearer right")
	queued := r.queueCalls(3, chat, "Authorization", "Bearer right")
	for name, c := range map[string]struct {
		path, body string
		header     []string
		status     int
		kind       string
	}{
		"refused":       {messagesPath, chat, []string{"X-Api-Key", "right"}, 429, "rate_limit_error"},
		"no key":        {messagesPath, chat, nil, 401, "authentication_error"},
		"no model":      {messagesPath, `{}`, []string{"X-Api-Key", "right"}, 400, "invalid_request_error"},
		"unknown path":  {messagesPath + "/batches", chat, []string{"X-Api-Key", "right"}, 404, "not_found_error"},
		"no key, count": {messagesPath + "/count_tokens", chat, nil, 401, "authentication_error"},
	} {
		a := r.post(c.path, c.body, c.header...)
		var e struct {
			Type  string
			Error struct{ Type, Message string }
		}
		if err := json.Unmarshal(a.body, &e); err != nil || a.status != c.status || e.Type != "error" || e.Error.Type != c.kind || e.Error.Message == "" {
			t.Errorf("%s: status %d, %s", name, a.status, a.body)
		}
		if retry := a.header.Get("Retry-After"); (retry != "") != (c.status == 429) || len(a.header.Get(taskIDHeader)) != 36 {
			t.Errorf("%s: Retry-After %q, ID %q", name, retry, a.header.Get(taskIDHeader))
		}
	}
	leave()
	for _, c := range queued {
		r.wantCompleted(c.wait())
	}
}

func (r *testProxy) occupyAs(n int, header ...string) (leave func()) {
	r.Helper()
	var calls []call
	for range n {
		calls = append(calls, r.start(chatPath, stream, append([]string{"Stub-Fault", "hang"}, header...)...))
	}
	r.eventually("permits are taken", func() bool { return r.heldResources().inFlight == n })
	return func() {
		for _, c := range calls {
			c.leave()
			<-c.answer
		}
	}
}

// What is refused outside a task has an ID too, and names what is missing (D30).
func TestNamedErrors(t *testing.T) {
	r := newTestProxy(t, func(p *fixture) { p.pool.Endpoints = []Endpoint{{"GET", "/v1/extra/*", false, false}} })
	e := r.wantFailure(r.post("/v2/nowhere", chat), http.StatusNotFound, "unknown_url")
	for _, text := range []string{`"/v2/nowhere"`, "GET /v1/extra/*", "POST " + messagesPath, "GET " + modelsPath} {
		if !strings.Contains(e.Message, text) {
			t.Errorf("%q is not in %q", text, e.Message)
		}
	}
	r.wantFailure(r.call("PUT", chatPath, ""), http.StatusMethodNotAllowed, "method_not_allowed")
	if a := r.call("GET", "/healthz", ""); a.status != http.StatusOK || string(a.body) != "ok\n" {
		t.Errorf("status %d, %q", a.status, a.body)
	}
}

// D39: lists are fetched once and shared, but not between clients with other keys.
func TestModelsAreShared(t *testing.T) {
	var fetched atomic.Int64
	r := newTestProxy(t, func(p *fixture) {
		p.upstream = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fetched.Add(1)
			time.Sleep(50 * time.Millisecond)
			_, _ = fmt.Fprintf(w, `{"object":"list","data":[{"id":%q}]}`, r.Header.Get("Authorization"))
		})
	})
	answers := make(chan answer, 300)
	for i := range cap(answers) {
		go func() { answers <- r.models("Authorization", "a", "X-Request-Id", fmt.Sprint(i)) }()
	}
	for range cap(answers) {
		if a := <-answers; r.modelIDs(a) != "a" {
			t.Errorf("%s", a.body)
		}
	}
	if n := fetched.Load(); n != 1 {
		t.Errorf("%d lists fetched for one key, want 1", n)
	}
	if a := r.models("Authorization", "b"); r.modelIDs(a) != "b" || fetched.Load() != 2 {
		t.Errorf("another key got %s", a.body)
	}
}

// D24: a silent upstream does not hold up the others, and its last list is kept.
func TestModelsOfASilentUpstream(t *testing.T) {
	withSynctest(t, func(p *fixture) {
		p.pool.Models = []string{"a"}
		p.stub.Models = []string{"a"}
		p.more = func(r *testProxy) []Pool {
			var calls atomic.Int64
			return []Pool{r.newPool("second", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if calls.Add(1) > 1 {
					<-r.Context().Done()
				}
				_, _ = io.WriteString(w, `{"data":[{"id":"b"}]}`)
			}), "b")}
		}
	}, func(r *testProxy) {
		if got := r.modelIDs(r.models()); got != "a b" {
			t.Fatalf("models %q", got)
		}
		for _, pause := range []time.Duration{modelsFresh + time.Second, time.Second} {
			time.Sleep(pause)
			began := time.Now()
			if got := r.modelIDs(r.models()); got != "a b" || time.Since(began) > modelsPatience+time.Millisecond {
				t.Errorf("models %q after %s", got, time.Since(began))
			}
		}
	})
}

// D27: comments go on while the upstream computes, before its headers and after them.
func TestKeepAliveDuringPrefill(t *testing.T) {
	for name, early := range map[string]bool{"before the headers": false, "after the headers": true} {
		t.Run(name, func(t *testing.T) {
			withSynctest(t, func(p *fixture) {
				withKeepAlive(p)
				p.upstream = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("Content-Type", "text/event-stream")
					if early {
						w.(http.Flusher).Flush()
					}
					time.Sleep(95 * time.Second)
					_, _ = io.WriteString(w, events(delta, stop, done))
				})
			}, func(r *testProxy) {
				a := r.post(chatPath, stream, "Accept-Encoding", "gzip")
				r.wantCompleted(a)
				if want := strings.Repeat(keepAliveComment, 9) + events(delta, stop, done); string(a.body) != want {
					t.Errorf("%q", a.body)
				}
				r.wantOutcome(admission.Completed, http.StatusOK)
			})
		})
	}
}

// Python's read timeout bounds silence: a deadline only for what is not streamed.
func TestPythonsReadTimeout(t *testing.T) {
	for streams, want := range map[bool]time.Duration{false: 7 * time.Second, true: time.Minute} {
		h := http.Header{sdkReadHeader: {"7"}}
		if d, f := deadline(h, streams, admission.Interactive, time.Minute); f != nil || d != want {
			t.Errorf("streams %t: %s (%v), want %s", streams, d, f, want)
		}
	}
}

// Uploads without a permit hold no memory and are bounded like other bodies.
func TestUploads(t *testing.T) {
	r := newTestProxy(t, func(p *fixture) { p.upstream = echo("main"); p.pool.BodyLimit, p.pool.BufferLimit = 1<<20, 1<<20 })
	const octets = "application/octet-stream"
	for size, status := range map[int]int{0: 200, 1: 200, 1 << 20: 200, 1<<20 + 1: 413, 3 << 20: 413} {
		for _, chunked := range []bool{false, true} {
			req := r.request(context.Background(), "/v1/files", strings.Repeat("x", size), "Content-Type", octets)
			if chunked {
				req.ContentLength = -1
			}
			a := r.do(req)
			if a.status != status {
				t.Errorf("%d bytes, chunked %t: status %d (%v), want %d", size, chunked, a.status, a.err, status)
			} else if status == 200 && r.echoed(a).Bytes != size {
				t.Errorf("%d bytes: upstream saw %s", size, a.body)
			}
		}
	}
}

// A file is passed on whatever its type says, and one that breaks off breaks off.
func TestDownloads(t *testing.T) {
	r := newTestProxy(t, withRawUpstream(chunkedJSONHead+chunks(`{"a":`)+lastChunk, nil))
	if a := r.call("GET", "/v1/files/f/content", ""); a.err != nil || string(a.body) != `{"a":` {
		t.Errorf("%d (%v) %q", a.status, a.err, a.body)
	}
	r = newTestProxy(t, withRawUpstream(chunkedJSONHead+chunks(`{"a":`), nil))
	if a := r.call("GET", "/v1/files/f/content", ""); a.err == nil {
		t.Errorf("%d %q", a.status, a.body)
	}
}

// Where requests go at the upstream.
func TestUpstreamURLs(t *testing.T) {
	for _, c := range []struct{ base, path, want string }{
		{"http://h/v1", "/api/chat", "http://h/api/chat"},
		{"http://h", "/api/chat", "http://h/api/chat"},
		{"http://h/x/v1/", "/api/chat", "http://h/x/api/chat"},
		{"http://h/v1", "/v1/models/a%3Ab", "http://h/v1/models/a%3Ab"},
	} {
		if got := joinUpstreamURL(must(url.Parse(c.base)), must(url.Parse(c.path))).String(); got != c.want {
			t.Errorf("%s and %s: %s, want %s", c.base, c.path, got, c.want)
		}
	}
}

const chunkedJSONHead = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
