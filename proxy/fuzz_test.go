package proxy

import (
	"bufio"
	"bytes"
	"encoding/json"
	"net/http"
	"net/textproto"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/net/http/httpguts"

	"headgate/proxy/admission"
)

func FuzzInspect(f *testing.F) {
	for _, body := range []string{chat, stream, `{}`, `[]`, `{"model":"a","model":"b"}`, `{"mod\u0065l":"\ud83c\udf0a"}`, `{"model":"` + "\xff" + `"}`, `{"stream":true,"model":"x"}`, "{\"model\":\"a\x00\"}"} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		got, fail := inspect(body)
		if fail != nil {
			if fail.status < 400 || fail.status > 499 || fail.outcome != admission.Invalid {
				t.Errorf("%+v", fail)
			}
			if got != (requestInfo{}) {
				t.Errorf("%+v beside a failure", got)
			}
			return
		}
		var object map[string]json.RawMessage
		if err := json.Unmarshal(body, &object); err != nil {
			t.Fatalf("%q was let through: %v", body, err)
		}
		var model string
		if err := json.Unmarshal(object["model"], &model); err != nil && object["model"] != nil {
			t.Fatalf("%q has no model: %v", body, err)
		}
		// encoding/json replaces what is not UTF-8; we leave it.
		if utf8.Valid(body) && model != got.model && !strings.ContainsRune(model, utf8.RuneError) {
			t.Errorf("model %q, want %q", got.model, model)
		}
		if got.stream != (string(object["stream"]) == "true") {
			t.Errorf("stream %t in %q", got.stream, body)
		}
	})
}

func FuzzDeadline(f *testing.F) {
	for _, s := range []string{"5", "1m30s", "-1", "1e300", "NaN", "Inf", "0x1p4", "9223372036854775807ns", "", "1h1h", "1e-300"} {
		f.Add(s, s)
	}
	f.Fuzz(func(t *testing.T, ours, sdks string) {
		h := http.Header{deadlineHeader: {ours}, sdkTimeoutHeader: {sdks}}
		for _, class := range []admission.Class{admission.Interactive, admission.Batch} {
			d, fail := deadline(h, false, class, time.Minute)
			switch {
			case fail != nil && (d != 0 || ours == ""):
				t.Errorf("%s and %v", d, fail)
			case fail == nil && (d <= 0 || d > maxDeadline || class == admission.Interactive && d > time.Minute):
				t.Errorf("%s, class %s", d, class)
			}
		}
	})
}

func FuzzRequestHeader(f *testing.F) {
	f.Add("close, x-a", "X-A", "1")
	f.Add("Keep-Alive", "HEADGATE-X", "trailers")
	f.Add(" ", "", "0")
	f.Add(",, ,", "te", "TRAILERS;q=0, gzip")
	f.Fuzz(func(t *testing.T, connection, name, value string) {
		in := http.Header{"Connection": {connection}}
		in.Add(name, value)
		in.Add("Te", value)
		out := requestHeader(in)
		for k := range out {
			for token := range strings.SplitSeq(connection, ",") {
				token = textproto.TrimString(token)
				if httpguts.ValidHeaderFieldName(token) && http.CanonicalHeaderKey(token) == k && k != "Te" && k != "User-Agent" {
					t.Errorf("%s was named by Connection", k)
				}
			}
			switch k {
			case "Connection", "Keep-Alive", "Proxy-Connection", "Transfer-Encoding", "Upgrade", "Trailer", "Expect", "Content-Length":
				t.Errorf("%s goes upstream", k)
			}
			if strings.HasPrefix(k, headgatePrefix) {
				t.Errorf("%s goes upstream", k)
			}
		}
		if te := out.Get("Te"); te != "" && te != "trailers" {
			t.Errorf("Te %q", te)
		}
	})
}

func FuzzIDs(f *testing.F) {
	f.Add("abc", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	f.Add("a\r\nb", "00-00000000000000000000000000000000-b7ad6b7169203331-01")
	f.Add(strings.Repeat("x", 129), "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	f.Fuzz(func(t *testing.T, id, parent string) {
		got := requestID(http.Header{requestIDHeader: {id}}, "fallback")
		if got != "fallback" && (got != id || len(got) > maxRequestID || strings.ContainsAny(got, "\r\n \x00\x7f")) {
			t.Errorf("request ID %q of %q", got, id)
		}
		if trace := traceID(parent); trace != "" && (len(trace) != 32 || !strings.Contains(parent, trace) || trace == strings.Repeat("0", 32)) {
			t.Errorf("trace ID %q of %q", trace, parent)
		}
	})
}

// Whatever a client sends: no panic, an answer or none, and one observation a task.
func FuzzRequest(f *testing.F) {
	for _, wire := range []string{
		requestHead(chatPath, lengthOf(chat)) + chat, requestHead(chatPath, lengthOf(stream)) + stream, requestHead(chatPath, "Transfer-Encoding: chunked") + chunks(chat) + lastChunk,
		requestHead(chatPath, lengthOf(chat), "Headgate-Deadline: 1ns") + chat, requestHead("/v1/responses", lengthOf(chat)) + chat,
		requestHead(chatPath, lengthOf(chat), "Content-Encoding: zstd") + chat, requestHead("/v1/extra", "Content-Length: 1") + "x", "GET /v1/models HTTP/1.0\r\n\r\n",
		requestHead(chatPath, lengthOf(encodeBody("gzip", chat)), "Content-Encoding: gzip") + encodeBody("gzip", chat), "PRI * HTTP/2.0\r\n\r\n", "POST http://x/v1/../v1 HTTP/1.1\r\nHost: x\r\n\r\n",
	} {
		f.Add([]byte(wire))
	}
	r := newTestProxy(f, func(p *fixture) {
		p.pool.Endpoints = gatedPosts("/v1/extra")
		p.pool.IdleTimeout = time.Second
	})
	f.Fuzz(func(t *testing.T, wire []byte) {
		req, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(wire)))
		if err != nil {
			return
		}
		for name := range req.Header { // faults have tests of their own, and take their time
			if strings.HasPrefix(name, "Stub-") {
				req.Header.Del(name)
			}
		}
		r.TB = t
		defer func() { r.TB = f }()
		before := r.recorder.count()
		rec, aborted := r.serveRecorded(req)
		path, task := requestPath(req.URL)
		if task {
			e := r.proxy.routes.Load().endpoint(req.Method, path)
			task = e != nil && e.Gate
		}
		if n := r.recorder.count() - before; task && n != 1 || !task && n != 0 {
			t.Errorf("%d observations of %q, a task %t", n, wire, task)
		}
		if !aborted && (rec.Code < 200 || rec.Code > 999) {
			t.Errorf("status %d", rec.Code)
		}
		if h := r.heldResources(); h != (resources{}) {
			t.Errorf("held %+v after %q", h, wire)
		}
	})
}

// Short texts are checked by gjson, deep ones by encoding/json: both agree.
func FuzzValidJSON(f *testing.F) {
	for _, text := range []string{
		``, `{}`, `[1,]`, `{"a":1,}`, `{"a"}`, `[}`, ` null `, `nulll`, `-0`, `01`, `1.`, `1e+`, `1e5.5`, `"\u12g4"`, `"\x"`,
		"\"\x00\"", "\"\xff\xfe\"", "\"a\nb\"", "{}\x00", "\ufeff{}", "\v{}", `{"a":{"b":[1,{"c":"}"}]},"d":"]"}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if got, want := validJSON(text), json.Valid(text); got != want {
			t.Errorf("%q: valid %t, want %t", text, got, want)
		}
	})
}
