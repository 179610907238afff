package modelstub

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestConfigValidateNamesTheField(t *testing.T) {
	tests := []struct {
		config Config
		want   string
	}{
		{Config{Slots: -1}, "Slots"},
		{Config{Slots: MaxSlots + 1}, "Slots"},
		{Config{Speed: -2}, "Speed"},
		{Config{Speed: math.NaN()}, "Speed"},
		{Config{Speed: math.Inf(1)}, "Speed"},
		{Config{MaxBody: -1}, "MaxBody"},
		{Config{Models: []string{"a", ""}}, "Models: name 2"},
	}
	for _, tt := range tests {
		err := tt.config.Validate()
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: error %v, want one that names %s", tt.config, err, tt.want)
		}
		if s, err := New(tt.config); err == nil || s != nil {
			t.Errorf("New(%+v) = %v, %v: want no stub and an error", tt.config, s, err)
		}
	}
}

func TestConfigZeroValueIsValid(t *testing.T) {
	if err := (Config{}).Validate(); err != nil {
		t.Fatal(err)
	}
	c := Config{}.withDefaults()
	if c.Speed != 1 || c.MaxBody != DefaultMaxBody || len(c.Models) != 1 || c.Service == nil || c.Log == nil {
		t.Errorf("defaults are incomplete: %+v", c)
	}
}

// TestClientGoneAtEachStage cancels a call at each stage of its way, on a
// virtual clock: the stub must notice at that very instant, count one client
// gone and give the slot back.
func TestClientGoneAtEachStage(t *testing.T) {
	tests := []struct {
		name  string
		body  string
		fault string
		after time.Duration // when the client leaves
		wait  bool          // the only slot is taken by another call
	}{
		{"waiting for a slot", helloRequest, "", time.Second, true},
		{"waiting for a slot, streamed", streamBody, "", time.Second, true},
		{"before the whole answer", helloRequest, "", 5 * time.Second, false},
		{"before the first byte", streamBody, "", time.Millisecond, false},
		{"between chunks", streamBody, "", 5 * time.Second, false},
		{"during added latency", helloRequest, "latency=60s", 15 * time.Second, false},
		{"before a late status", helloRequest, "status=500;latency=60s", 15 * time.Second, false},
		{"during a drip", helloRequest, "drip=1s", 60 * time.Second, false},
		{"during a dripped stream", streamBody, "drip=1s", 60 * time.Second, false},
		{"during a silence", streamBody, "silence=60s;after=3", 5 * time.Second, false},
		{"while it hangs", streamBody, "hang", time.Second, false},
		{"while it hangs mid-stream", streamBody, "hang_after=1", 5 * time.Second, false},
		{"while it hangs mid-body", helloRequest, "hang_after=1", 15 * time.Second, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			config := Config{Slots: 1, Service: Fixed(10 * time.Second)}
			withSynctest(t, config, func(t *testing.T, s *testServer) { cancelAfter(t, s, tt.body, tt.fault, tt.after, tt.wait) })
		})
	}
}

func cancelAfter(t *testing.T, s *testServer, body, fault string, after time.Duration, wait bool) {
	t.Helper()
	var blocker sync.WaitGroup
	if wait {
		blocker.Go(func() { s.post(pathChat, helloRequest, HeaderService, "1h") })
		synctest.Wait()
	}
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	ended := make(chan error, 1)
	h := http.Header{}
	if fault != "" {
		h.Set(HeaderFault, fault)
	}
	go func() {
		resp, err := s.client.Do(s.request(ctx, http.MethodPost, pathChat, body, h))
		if err == nil {
			_, err = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		}
		ended <- err
	}()
	time.Sleep(after)
	synctest.Wait()
	leave()
	if err := <-ended; err == nil {
		t.Error("the client had its whole answer before it left")
	}
	synctest.Wait()
	want := 0
	if wait {
		want = 1
	}
	if got := s.Stats(); got.ClientGone != 1 || got.InFlight != want || got.Serving != want || got.Waiting != 0 {
		t.Errorf("when the client had left: %+v", got)
	}
	s.Close()
	blocker.Wait()
}

func TestUploadThatBreaksOffIsClientGone(t *testing.T) {
	s := newTestServer(t, Config{})
	reader, writer := io.Pipe()
	req := s.request(t.Context(), http.MethodPost, pathChat, "", nil)
	req.Body, req.ContentLength = reader, 1000
	failed := make(chan error, 1)
	go func() {
		resp, err := s.client.Do(req)
		if err == nil {
			_ = resp.Body.Close()
		}
		failed <- err
	}()
	if _, err := writer.Write([]byte(`{"messages"`)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the call has arrived", func() bool { return s.Stats().InFlight == 1 })
	_ = writer.CloseWithError(io.ErrUnexpectedEOF)
	if <-failed == nil {
		t.Error("half an upload got an answer")
	}
	eventually(t, "the client is gone", func() bool { return s.Stats().ClientGone == 1 && s.Stats().InFlight == 0 })
}

func TestUploadOfUnknownLengthIsBounded(t *testing.T) {
	s := newTestServer(t, Config{MaxBody: 100})
	req := s.request(t.Context(), http.MethodPost, pathChat, "", nil)
	req.Body, req.ContentLength = io.NopCloser(strings.NewReader(strings.Repeat(" ", 200))), -1
	resp, err := s.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("status %d, want 413", resp.StatusCode)
	}
}

// failingWriter takes limit bytes, as a connection does whose client leaves.
type failingWriter struct {
	header http.Header
	limit  int
}

func (w *failingWriter) Header() http.Header { return w.header }
func (w *failingWriter) WriteHeader(int)     {}
func (w *failingWriter) Write(p []byte) (int, error) {
	if w.limit -= len(p); w.limit < 0 {
		return 0, io.ErrClosedPipe
	}
	return len(p), nil
}

// serveWithWriter serves one call to a writer that fails and reports whether the
// stub broke the connection.
func serveWithWriter(stub *Stub, w http.ResponseWriter, body string, h http.Header) (broken bool) {
	defer func() { broken = recover() == http.ErrAbortHandler }()
	r := httptest.NewRequest(http.MethodPost, pathChat, strings.NewReader(body))
	r.Header = h
	stub.ServeHTTP(w, r)
	return false
}

func TestFailedWritesAreClientGone(t *testing.T) {
	faults := []string{"", "drip=1ns", "silence=1ns;after=1"}
	for _, body := range []string{helloRequest, streamBody} {
		for _, encoding := range []string{"", "gzip", "br", "zstd"} {
			for _, fault := range faults {
				t.Run(fmt.Sprint(fault, encoding, len(body)), func(t *testing.T) {
					stub, err := New(Config{Slots: 1})
					if err != nil {
						t.Fatal(err)
					}
					h := headers(HeaderEncoding, encoding, HeaderFault, fault)
					if !serveWithWriter(stub, &failingWriter{http.Header{}, 10}, body, h) {
						t.Error("half an answer ended cleanly")
					}
					if got := stub.Stats(); got.ClientGone != 1 || got.InFlight != 0 || got.Serving != 0 {
						t.Errorf("stats %+v", got)
					}
				})
			}
		}
	}
}

// TestFaultsWithoutAConnection covers writers that cannot be hijacked, such as
// HTTP/2 streams: the call is aborted instead.
func TestFaultsWithoutAConnection(t *testing.T) {
	for _, fault := range []string{"reset", "reset_after=1", "malformed=1"} {
		stub, err := New(Config{})
		if err != nil {
			t.Fatal(err)
		}
		if !serveWithWriter(stub, httptest.NewRecorder(), streamBody, headers(HeaderFault, fault)) {
			t.Errorf("%s: the call ended cleanly", fault)
		}
		if got := stub.Stats(); got.Faulted != 1 || got.InFlight != 0 {
			t.Errorf("%s: stats %+v", fault, got)
		}
	}
}

func TestClosedStubBreaksEveryCall(t *testing.T) {
	stub, err := New(Config{Slots: 1, Service: Fixed(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	stub.Close()
	stub.Close()
	for _, body := range []string{helloRequest, streamBody} {
		if !serveWithWriter(stub, httptest.NewRecorder(), body, http.Header{}) {
			t.Error("a closed stub answered")
		}
	}
	if got := stub.Stats(); got.Aborted != 2 || got.InFlight != 0 {
		t.Errorf("stats %+v", got)
	}
}

func TestCallsAreLoggedWithoutTheirSecrets(t *testing.T) {
	var b bytes.Buffer
	log := slog.New(slog.NewTextHandler(&b, &slog.HandlerOptions{Level: slog.LevelDebug}))
	stub, err := New(Config{Log: log})
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodPost, pathChat, strings.NewReader(helloRequest))
	r.Header = headers("Authorization", "Bearer sk-secret", HeaderFault, "status=503")
	stub.ServeHTTP(httptest.NewRecorder(), r)
	for _, want := range []string{"component=modelstub", "path=" + pathChat, "outcome=faulted", `fault="status=503"`} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the log line %q has no %s", b.String(), want)
		}
	}
	if strings.Contains(b.String(), "sk-secret") || strings.Contains(b.String(), "hello there") {
		t.Errorf("the log has the client's key or prompt: %s", b.String())
	}
}

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
		{"odd service", "POST", pathChat, helloRequest, headers(HeaderService, "soon"), 400, nil, "Stub-Service: "},
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
