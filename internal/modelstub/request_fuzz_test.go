package modelstub

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// FuzzRequest sends any body and control headers to any endpoint: whatever
// comes, the answer is whole and in the right shape, and the books are closed.
func FuzzRequest(f *testing.F) {
	for _, call := range allRequests() {
		f.Add(call[0], call[1], "", "", "")
	}
	f.Add(pathChat, chatBody(`"n":128,"stream":true,"stream_options":null`), "identity", "3", "")
	f.Add(pathChat, `{"messages":[{"role":"user","content":[{"text":1}]}],"tools":[null,1,{}],"tool_choice":[]}`, "", "", "")
	f.Add(pathChat, `{"messages":[{}],"tools":[{"type":"function","name":"ü","parameters":{"required":["ä","b"]}}],"tool_choice":"required","stream":true}`, "", "", "gzip")
	f.Add(pathCompletions, `{"prompt":[[1],[2]],"n":3}`, "gzip", "", "br")
	f.Add(pathResponses, `{"input":[],"tools":[{"type":"local_shell"}],"text":{"format":1}}`, "zstd", "", "zstd")
	f.Add("/v1/models/x", "", "", "", "")
	f.Fuzz(func(t *testing.T, path, body, encoding, chunks, packing string) {
		stub, err := New(Config{Seed: 1, MaxBody: 1 << 16})
		if err != nil {
			t.Fatal(err)
		}
		defer stub.Close()
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
		r.URL.Path = path
		r.Header.Set("Content-Encoding", encoding)
		r.Header.Set(HeaderChunks, chunks)
		r.Header.Set(HeaderEncoding, packing)
		w := httptest.NewRecorder()
		stub.ServeHTTP(w, r)
		checkFuzzedAnswer(t, w, packing)
		got := stub.Stats()
		if got.Calls != 1 || got.Completed+got.Rejected != 1 || got.InFlight != 0 || got.Serving != 0 {
			t.Fatalf("stats %+v", got)
		}
	})
}

func checkFuzzedAnswer(t *testing.T, w *httptest.ResponseRecorder, packing string) {
	t.Helper()
	answer := w.Body.Bytes()
	if w.Code == http.StatusOK {
		var err error
		if answer, err = decodeBody(packing, answer, 1<<30); err != nil {
			t.Fatal(err)
		}
	}
	switch {
	case strings.HasPrefix(w.Header().Get("Content-Type"), "text/event-stream"):
		for _, e := range events(t, string(answer)) {
			if e.data != "[DONE]" && !json.Valid([]byte(e.data)) {
				t.Fatalf("event %q is not JSON", e.data)
			}
		}
	case !json.Valid(answer):
		t.Fatalf("status %d with a body that is not JSON: %q", w.Code, answer)
	case (w.Code == http.StatusOK) == strings.HasPrefix(string(answer), `{"error"`):
		t.Fatalf("status %d with body %q", w.Code, answer)
	}
}

func FuzzOptions(f *testing.F) {
	f.Add("hang", "2s", "3", "crlf", "br")
	f.Add("latency=1s;share=1", "", "x", "nothing", "gzip")
	f.Fuzz(func(t *testing.T, fault, service, chunks, stream, encoding string) {
		o, err := parseOptions(http.Header{
			HeaderFault: {fault}, HeaderService: {service}, HeaderChunks: {chunks},
			HeaderStream: {stream}, HeaderEncoding: {encoding},
		})
		if err != nil {
			return
		}
		if o.chunks < 0 || o.chunks > maxChunks || (chunks != "") != (o.chunks > 0) {
			t.Fatalf("chunks %q read as %d", chunks, o.chunks)
		}
		if o.service != nil && (*o.service < 0 || *o.service > MaxService) {
			t.Fatalf("service %q read as %v", service, *o.service)
		}
		if o.fault != nil && o.fault.Validate() != nil {
			t.Fatalf("fault %q read as %+v", fault, *o.fault)
		}
		if (stream != "") != (o.stream != nil) {
			t.Fatalf("stream %q read as %v", stream, o.stream)
		}
	})
}
