package modelstub

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

func TestParseFault(t *testing.T) {
	tests := []struct {
		in   string
		want Fault
	}{
		{"status=500", Fault{Kind: KindStatus, Status: 500}},
		{"status=429;retry_after=7", Fault{Kind: KindStatus, Status: 429, RetryAfter: "7"}},
		{"retry_after=0.5; status=429", Fault{Kind: KindStatus, Status: 429, RetryAfter: "0.5"}},
		{"hang", Fault{Kind: KindHang}},
		{"hang_after=3", Fault{Kind: KindHangAfter, After: 3}},
		{"reset", Fault{Kind: KindReset}},
		{"reset_after=0", Fault{Kind: KindResetAfter}},
		{"truncate=2", Fault{Kind: KindTruncate, After: 2}},
		{"truncate=half", Fault{Kind: KindTruncate, After: 1}},
		{"truncate=half;length=wrong", Fault{Kind: KindTruncate, After: 1, WrongLength: true}},
		{"drip=10ms", Fault{Kind: KindDrip, Delay: 10 * time.Millisecond}},
		{"malformed", Fault{Kind: KindMalformed, After: 1}},
		{"error_event=4", Fault{Kind: KindErrorEvent, After: 4}},
		{"silence=20s", Fault{Kind: KindSilence, Delay: 20 * time.Second}},
		{"silence=20s;after=3", Fault{Kind: KindSilence, Delay: 20 * time.Second, After: 3}},
		{"latency=2s", Fault{Latency: 2 * time.Second}},
		{"latency=2s;status=503", Fault{Kind: KindStatus, Status: 503, Latency: 2 * time.Second}},
	}
	for _, tt := range tests {
		got, err := ParseFault(tt.in)
		if err != nil || got != tt.want {
			t.Errorf("ParseFault(%q) = %+v, %v: want %+v", tt.in, got, err, tt.want)
		}
	}
}

func TestParseFaultRefuses(t *testing.T) {
	tests := []struct{ in, want string }{
		{"", `unknown part "": want status=500`},
		{"explode", `unknown part "explode"`},
		{"status=200", "want 400 to 599"},
		{"status=many", "want 400 to 599"},
		{"status=500;hang", "status and hang cannot be combined"},
		{"status=500;status=501", `"status" is given twice`},
		{"status=429;retry_after=\n", "want seconds or a date"},
		{"status=429;retry_after=", "want seconds or a date"},
		{"hang=3", "did you mean hang_after=3?"},
		{"hang;retry_after=7", "retry_after goes only with status"},
		{"reset;length=wrong", "length goes only with truncate"},
		{"hang_after=3;after=4", "after goes only with silence"},
		{"truncate=3;length=long", "want wrong"},
		{"reset_after=-1", "want a number of chunks"},
		{"reset_after=half", "want a number of chunks"},
		{"drip=0s", "drip: want a duration above 0s"},
		{"drip=fast", "want a duration with a unit"},
		{"silence=11m", "from 0s to 10m"},
		{"latency=1h", "from 0s to 10m"},
	}
	for _, tt := range tests {
		_, err := ParseFault(tt.in)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("ParseFault(%q): error %v, want one that says %q", tt.in, err, tt.want)
		}
	}
}

func FuzzParseFault(f *testing.F) {
	for _, s := range []string{"status=429;retry_after=7", "truncate=half;length=wrong", "silence=1s;after=3", "latency=2s;hang", ";;=", "drip=1ms"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		fault, err := ParseFault(in)
		if err != nil {
			return
		}
		if kinds[fault.Kind].value == statusValue && (fault.Status < 400 || fault.Status > 599) ||
			min(fault.After, int(fault.Delay), int(fault.Latency)) < 0 || max(fault.Delay, fault.Latency) > MaxFaultDelay {
			t.Fatalf("%q reads as %+v", in, fault)
		}
	})
}

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

// TestEveryFaultOnEveryEndpoint checks all combinations: the client detects a broken
// answer where the fault makes that possible, the call is counted once, and
// the next call gets its slot.
func TestEveryFaultOnEveryEndpoint(t *testing.T) {
	type expected struct {
		fails bool    // the client sees a failed call or a broken body
		whole bool    // the body is the same as without the fault
		count outcome // how the stub counts it
	}
	faults := map[string]expected{
		"status=503":        {count: faulted},
		"reset":             {fails: true, count: faulted},
		"reset_after=1":     {fails: true, count: faulted},
		"truncate=1":        {count: faulted},
		"malformed=1":       {fails: true, count: faulted},
		"error_event=1":     {count: faulted},
		"silence=1ns":       {whole: true, count: completed},
		"drip=1ns":          {whole: true, count: completed},
		"latency=1ns":       {whole: true, count: completed},
		"reset;latency=1ns": {fails: true, count: faulted},
		"truncate=0":        {count: faulted},
	}
	s := newTestServer(t, Config{Slots: 1, Seed: 4})
	for _, call := range allRequests() {
		path, body := call[0], call[1]
		plain := s.ok(path, body)
		for fault, want := range faults {
			before := s.Stats()
			r := s.post(path, body, HeaderFault, fault)
			if (r.err != nil) != want.fails {
				t.Errorf("%s %s %s: error %v", fault, path, body, r.err)
			}
			if whole := r.body == plain.body; whole != want.whole {
				t.Errorf("%s %s %s: the whole body arrived: %v", fault, path, body, whole)
			}
			total, ofPath := before.Counts, before.ByPath[path]
			for _, c := range []*Counts{&total, &ofPath} {
				c.Calls++
				c.add(want.count)
			}
			if got := s.Stats(); got.Counts != total || got.ByPath[path] != ofPath || got.Serving != 0 {
				t.Errorf("%s %s %s: stats %+v", fault, path, body, got)
			}
		}
	}
}

// TestNoTerminalEventAfterAFault looks for what a client takes for success in
// streams that a fault has cut at every possible place.
func TestNoTerminalEventAfterAFault(t *testing.T) {
	s := newTestServer(t, Config{})
	terminal := map[string]string{
		pathChat:        "[DONE]",
		pathCompletions: "[DONE]",
		pathResponses:   "event: response.completed",
	}
	bodies := map[string]string{
		pathChat:        chatBody(`"stream":true`),
		pathCompletions: `{"prompt":"a","stream":true}`,
		pathResponses:   `{"input":"a","stream":true}`,
	}
	for path, body := range bodies {
		whole := s.ok(path, body, HeaderChunks, "4").body
		if strings.Count(whole, terminal[path]) != 1 {
			t.Fatalf("%s: the whole stream has no single terminal event", path)
		}
		for n := range strings.Count(whole, "data: ") + 2 {
			cut := s.post(path, body, HeaderChunks, "4", HeaderFault, fmt.Sprint("truncate=", n))
			if cut.err != nil || strings.Contains(cut.body, terminal[path]) || !strings.HasPrefix(whole, cut.body) {
				t.Errorf("%s cut after %d events: error %v, body %q", path, n, cut.err, cut.body)
			}
		}
	}
}

// TestSlotsChangeUnderTraffic is for the race detector, and expects that no change
// loses a call or a slot.
func TestSlotsChangeUnderTraffic(t *testing.T) {
	s := newTestServer(t, Config{Slots: 2})
	stop := make(chan struct{})
	var changes sync.WaitGroup
	changes.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			s.LoseSlots(i % 3)
			if got := s.Stats(); got.InFlight < 0 || got.Serving > got.PeakServing || got.InFlight > got.PeakInFlight {
				t.Errorf("stats %+v", got)
			}
			s.LoseSlots(-(i % 3))
		}
	})
	var calls sync.WaitGroup
	for range 6 {
		calls.Go(func() {
			for range 15 {
				if r := s.post(pathChat, streamBody); r.err != nil || (r.status != 200 && r.status != 503) {
					t.Errorf("status %d, error %v", r.status, r.err)
				}
			}
		})
	}
	calls.Wait()
	close(stop)
	changes.Wait()
	got := s.Stats()
	if got.Calls != 90 || got.Completed+got.Faulted != 90 || got.InFlight+got.Serving+got.Waiting != 0 {
		t.Errorf("stats do not add up: %+v", got)
	}
}

func TestStatsAsJSON(t *testing.T) {
	s := newTestServer(t, Config{})
	s.ok(pathChat, helloRequest)
	b, err := json.Marshal(s.Stats())
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"calls":1,"completed":1,"rejected":0,"faulted":0,"client_gone":0,"aborted":0,` +
		`"in_flight":0,"peak_in_flight":1,"serving":0,"peak_serving":1,"waiting":0,` +
		`"by_path":{"/v1/chat/completions":{"calls":1,"completed":1,"rejected":0,"faulted":0,"client_gone":0,"aborted":0}}}`
	if string(b) != want {
		t.Errorf("got %s\nwant %s", b, want)
	}
}
