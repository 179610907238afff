package modelstub

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
)

var streamBody = chatBody(`"stream":true,"stream_options":{"include_usage":true}`)

func TestFaultStatus(t *testing.T) {
	s := newTestServer(t, Config{Slots: 1})
	tests := []struct {
		fault, retryAfter, kind string
		status                  int
	}{
		{"status=500", "", "server_error", 500},
		{"status=429", "", "rate_limit_error", 429},
		{"status=429;retry_after=7", "7", "rate_limit_error", 429},
		{"status=503;retry_after=soon;latency=1ms", "soon", "server_error", 503},
	}
	for _, tt := range tests {
		for _, body := range []string{helloRequest, streamBody} {
			r := s.post(pathChat, body, HeaderFault, tt.fault)
			if r.err != nil || r.status != tt.status || r.header.Get("Retry-After") != tt.retryAfter {
				t.Errorf("%s: error %v, status %d, Retry-After %q", tt.fault, r.err, r.status, r.header.Get("Retry-After"))
			}
			if got := jsonAt(t, decode(t, r.body), "error", "type"); got != tt.kind {
				t.Errorf("%s: type %v, want %s", tt.fault, got, tt.kind)
			}
		}
	}
	if got := s.Stats(); got.Faulted != 8 || got.PeakServing != 0 {
		t.Errorf("stats %+v: want 8 faulted, none of which took a slot", got)
	}
}

func TestFaultResetBeforeHeaders(t *testing.T) {
	s := newTestServer(t, Config{})
	for _, body := range []string{helloRequest, streamBody} {
		if r := s.post(pathChat, body, HeaderFault, "reset"); !errors.Is(r.err, syscall.ECONNRESET) {
			t.Errorf("status %d, error %v: want a connection reset", r.status, r.err)
		}
	}
	if r := s.do(http.MethodGet, pathModels, "", headers(HeaderFault, "reset")); !errors.Is(r.err, syscall.ECONNRESET) {
		t.Errorf("models: status %d, error %v: want a connection reset", r.status, r.err)
	}
	if got := s.Stats(); got.Faulted != 3 || got.InFlight != 0 || got.Serving != 0 {
		t.Errorf("stats %+v", got)
	}
}

// TestFaultsMidStream runs every fault that strikes a stream which has begun.
func TestFaultsMidStream(t *testing.T) {
	s := newTestServer(t, Config{Seed: 3})
	whole := events(t, s.ok(pathChat, streamBody).body)
	tests := []struct {
		fault string
		after int // events that arrive
		bad   func(error) bool
	}{
		{"truncate=3", 3, func(err error) bool { return err == nil }},
		{"truncate=0", 0, func(err error) bool { return err == nil }},
		{"truncate=100000", len(whole) - 1, func(err error) bool { return err == nil }},
		{"error_event=2", 3, func(err error) bool { return err == nil }},
		{"reset_after=3", 3, func(err error) bool { return errors.Is(err, syscall.ECONNRESET) }},
		{"malformed=3", 3, func(err error) bool { return err != nil && strings.Contains(err.Error(), "invalid") }},
	}
	for _, tt := range tests {
		t.Run(tt.fault, func(t *testing.T) {
			r := s.post(pathChat, streamBody, HeaderFault, tt.fault)
			if r.status != 200 || !tt.bad(r.err) {
				t.Errorf("status %d, error %v", r.status, r.err)
			}
			if got := strings.Count(r.body, "data: "); got != tt.after {
				t.Errorf("%d events arrived, want %d", got, tt.after)
			}
			if strings.Contains(r.body, "[DONE]") {
				t.Error("the stream has its terminal event")
			}
			if strings.HasPrefix(tt.fault, "error_event") {
				list := events(t, r.body)
				jsonAt(t, decode(t, list[len(list)-1].data), "error", "message")
			}
		})
	}
	if got := s.Stats(); got.Faulted != int64(len(tests)) || got.Completed != 1 || got.InFlight != 0 {
		t.Errorf("stats %+v", got)
	}
}

func TestFaultsMidBody(t *testing.T) {
	s := newTestServer(t, Config{Seed: 3})
	whole := s.ok(pathChat, helloRequest)
	half := whole.body[:len(whole.body)/2]
	tests := []struct {
		fault  string
		body   string
		length int64
		bad    func(error) bool
	}{
		{"truncate=half", half, -1, func(err error) bool { return err == nil }},
		{"truncate=half;length=wrong", half, whole.length, func(err error) bool { return errors.Is(err, io.ErrUnexpectedEOF) }},
		{"reset_after=1", half, whole.length, func(err error) bool { return errors.Is(err, syscall.ECONNRESET) }},
		{"malformed", half, -1, func(err error) bool { return err != nil && strings.Contains(err.Error(), "invalid") }},
		{"silence=1ms", whole.body, whole.length, func(err error) bool { return err == nil }},
	}
	for _, tt := range tests {
		t.Run(tt.fault, func(t *testing.T) {
			r := s.post(pathChat, helloRequest, HeaderFault, tt.fault)
			if r.status != 200 || r.body != tt.body || r.length != tt.length || !tt.bad(r.err) {
				t.Errorf("status %d, length %d, error %v, %d bytes of %d", r.status, r.length, r.err, len(r.body), len(whole.body))
			}
			if valid := json.Valid([]byte(r.body)); valid != (r.body == whole.body) {
				t.Errorf("the body is valid JSON: %v", valid)
			}
		})
	}
	if r := s.post(pathChat, helloRequest, HeaderFault, "error_event=3"); r.status != 500 {
		t.Errorf("error_event on a whole answer: status %d, want 500", r.status)
	}
	if got := s.Stats(); got.Faulted != 5 || got.Completed != 2 {
		t.Errorf("stats %+v", got)
	}
}

func TestFaultTruncateCompressed(t *testing.T) {
	s := newTestServer(t, Config{})
	r := s.post(pathChat, streamBody, HeaderFault, "truncate=3", HeaderEncoding, "gzip")
	if r.err != nil {
		t.Fatal(r.err)
	}
	if _, err := decodeBody("gzip", []byte(r.body), DefaultMaxBody); err == nil {
		t.Error("a truncated gzip stream must not decode to its end")
	}
}

func TestHangingCallEndsWithItsClient(t *testing.T) {
	s := newTestServer(t, Config{Slots: 1})
	for i, fault := range []string{"hang", "hang_after=2"} {
		ctx, leave := contextWithCancel(t)
		failed := make(chan error, 1)
		req := s.request(ctx, http.MethodPost, pathChat, streamBody, headers(HeaderFault, fault))
		go func() {
			resp, err := s.client.Do(req)
			if err == nil {
				_, err = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			}
			failed <- err
		}()
		eventually(t, "the call holds the slot", func() bool { return s.Stats().Serving == 1 })
		leave()
		if err := <-failed; err == nil {
			t.Errorf("%s: the client saw no error", fault)
		}
		eventually(t, "the client's leaving is noticed", func() bool {
			got := s.Stats()
			return got.ClientGone == int64(i+1) && got.InFlight == 0 && got.Serving == 0
		})
	}
	s.ok(pathChat, helloRequest) // the slot came back
}

func TestCloseBreaksHangingCalls(t *testing.T) {
	s := newTestServer(t, Config{Slots: 1})
	failed := make(chan result, 3)
	for _, fault := range []string{"hang", "hang", "hang_after=1"} {
		go func() { failed <- s.post(pathChat, streamBody, HeaderFault, fault) }()
	}
	eventually(t, "all have arrived", func() bool { return s.Stats().InFlight == 3 })
	s.Close()
	for range 3 {
		if r := <-failed; r.err == nil {
			t.Errorf("status %d without an error: the connection must break", r.status)
		}
	}
	eventually(t, "all have ended", func() bool { return s.Stats().Aborted == 3 && s.Stats().InFlight == 0 })
}

func TestGlobalFault(t *testing.T) {
	s := newTestServer(t, Config{Seed: 9})
	if err := s.SetFault(Fault{Kind: KindStatus, Status: 503, Share: 0.25}); err != nil {
		t.Fatal(err)
	}
	failed := 0
	for range 400 {
		if s.post(pathEmbeddings, `{"input":"a","dimensions":1}`).status == 503 {
			failed++
		}
	}
	if failed < 70 || failed > 130 {
		t.Errorf("a quarter of 400 calls gave %d failures", failed)
	}
	if got := s.Stats(); got.Faulted != int64(failed) || got.Completed != int64(400-failed) {
		t.Errorf("%d failures, stats %+v", failed, got)
	}
	if r := s.post(pathChat, helloRequest, HeaderFault, "status=418"); r.status != 418 {
		t.Errorf("status %d: a call's own fault goes before the global one", r.status)
	}
	if err := s.SetFault(Fault{Kind: "explode"}); err == nil {
		t.Error("an unknown fault was taken")
	}
	if err := s.SetFault(Fault{Kind: KindStatus, Status: 500}); err != nil {
		t.Fatal(err)
	}
	if r := s.post(pathChat, helloRequest); r.status != 500 {
		t.Errorf("status %d: a share of 0 strikes every call", r.status)
	}
	s.ClearFault()
	s.ok(pathChat, helloRequest)
}
