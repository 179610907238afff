package modelstub

import (
	"net/http"
	"strings"
	"testing"
)

func TestRejections(t *testing.T) {
	s := newTestServer(t, Config{MaxBody: 1000})
	tests := []struct {
		name, method, path, body string
		header                   http.Header
		status                   int
		param                    any
		says                     string
	}{
		{"unknown path", "POST", "/v1/nothing", `{}`, nil, 404, nil, "Invalid URL (POST /v1/nothing)"},
		{"wrong method", "GET", pathChat, ``, nil, 405, nil, "use POST"},
		{"wrong method on models", "POST", pathModels, `{}`, nil, 405, nil, "use GET"},
		{"no body", "POST", pathChat, ``, nil, 400, nil, "could not parse"},
		{"broken JSON", "POST", pathChat, `{"messages":[`, nil, 400, nil, "could not parse"},
		{"two objects", "POST", pathChat, helloRequest + `{}`, nil, 400, nil, "more after the object"},
		{"no object", "POST", pathChat, `null`, nil, 400, nil, "want an object"},
		{"an array", "POST", pathChat, `[]`, nil, 400, nil, "could not parse"},
		{"wrong type", "POST", pathChat, `{"stream":"yes"}`, nil, 400, "stream", "want bool, got string"},
		{"no messages", "POST", pathChat, `{"model":"m"}`, nil, 400, "messages", "Missing required parameter"},
		{"no input", "POST", pathResponses, `{"model":"m"}`, nil, 400, "input", "Missing required parameter"},
		{"odd input", "POST", pathResponses, `{"input":7}`, nil, 400, "input", "want a string or an array"},
		{"no embedding input", "POST", pathEmbeddings, `{}`, nil, 400, "input", "Missing required parameter"},
		{"odd format", "POST", pathEmbeddings, `{"input":"a","encoding_format":"hex"}`, nil, 400, "encoding_format", "want float or base64"},
		{"n of zero", "POST", pathChat, chatBody(`"n":0`), nil, 400, "n", "want 1 to 128, got 0"},
		{"no tokens", "POST", pathChat, chatBody(`"max_tokens":0`), nil, 400, "max_tokens", "want 1 to"},
		{"too large", "POST", pathChat, strings.Repeat(" ", 1001), nil, 413, nil, "limit of 1000 bytes"},
		{"unknown encoding", "POST", pathChat, helloRequest, headers("Content-Encoding", "lzma"), 415, nil, "send gzip"},
		{"not gzip", "POST", pathChat, helloRequest, headers("Content-Encoding", "gzip"), 400, nil, "not valid gzip"},
		{"not zstd", "POST", pathChat, helloRequest, headers("Content-Encoding", "zstd"), 400, nil, "not valid zstd"},
		{"odd fault", "POST", pathChat, helloRequest, headers(HeaderFault, "explode"), 400, nil, "Stub-Fault: fault"},
		{"odd service", "POST", pathChat, helloRequest, headers(HeaderService, "soon"), 400, nil, "Stub-Service: duration"},
		{"odd chunks", "POST", pathChat, helloRequest, headers(HeaderChunks, "0"), 400, nil, "Stub-Chunks: \"0\", want 1 to 10000"},
		{"odd stream", "POST", pathChat, helloRequest, headers(HeaderStream, "x"), 400, nil, "want one of comments, crlf"},
		{"odd answer encoding", "POST", pathChat, helloRequest, headers(HeaderEncoding, "lzma"), 400, nil, "want gzip, br or zstd"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := s.do(tt.method, tt.path, tt.body, tt.header)
			if r.status != tt.status {
				t.Fatalf("status %d, want %d; body %s", r.status, tt.status, r.body)
			}
			e := jsonAt(t, decode(t, r.body), "error")
			if jsonAt(t, e, "type") != "invalid_request_error" || jsonAt(t, e, "param") != tt.param {
				t.Errorf("got %v", e)
			}
			jsonAt(t, e, "code") // present, if null
			if message := jsonAt(t, e, "message").(string); !strings.Contains(message, tt.says) {
				t.Errorf("message %q does not say %q", message, tt.says)
			}
			if tt.status == 405 && r.header.Get("Allow") == "" {
				t.Error("a 405 without Allow")
			}
		})
	}
	got := s.Stats()
	if got.Calls != int64(len(tests)) || got.Rejected != got.Calls || got.InFlight != 0 {
		t.Errorf("after %d rejected calls: %+v", len(tests), got)
	}
}

func TestEmbeddingSizeIsBounded(t *testing.T) {
	s := newTestServer(t, Config{})
	r := s.post(pathEmbeddings, `{"dimensions":8192,"input":[`+strings.Repeat(`"",`, 600)+`""]}`)
	if r.status != 400 || jsonAt(t, decode(t, r.body), "error", "param") != "input" {
		t.Errorf("status %d, body %.200s", r.status, r.body)
	}
	r = s.post(pathCompletions, `{"n":128,"prompt":[`+strings.Repeat(`"",`, 100)+`""]}`)
	if r.status != 400 || jsonAt(t, decode(t, r.body), "error", "param") != "n" {
		t.Errorf("status %d, body %.200s", r.status, r.body)
	}
}

func TestErrorTypes(t *testing.T) {
	for status, want := range map[int]string{
		400: "invalid_request_error", 401: "authentication_error", 403: "permission_error",
		404: "invalid_request_error", 429: "rate_limit_error", 500: "server_error", 503: "server_error",
	} {
		if got := faultError(status).kind(); got != want {
			t.Errorf("status %d has type %q, want %q", status, got, want)
		}
	}
}
