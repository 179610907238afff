package loadgen

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// abort ends a response that has begun without its end.
func abort(w http.ResponseWriter) {
	_ = http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}

func sse(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		_, _ = io.WriteString(w, body)
	}
}

func TestOutcomes(t *testing.T) {
	half := stream[:len(stream)/2]
	status := func(code int, header ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			for i := 0; i < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			w.WriteHeader(code)
			_, _ = io.WriteString(w, `{"error":{"message":"no"}}`)
		}
	}
	for name, c := range map[string]struct {
		h       http.HandlerFunc
		stream  bool
		outcome Outcome
		cause   Cause
		status  int
	}{
		"whole answer":          {answerAfter(0), false, OK, "", 200},
		"half an answer":        {func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, answer[:20]) }, false, Truncated, "", 200},
		"empty answer":          {func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, "") }, false, Truncated, "", 200},
		"answer cut off":        {func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, answer[:20]); abort(w) }, false, Truncated, "", 200},
		"short of its length":   {short, false, Truncated, "", 200},
		"whole stream":          {sse(stream), true, OK, "", 200},
		"clean end, no [DONE]":  {sse(half), true, Truncated, "", 200},
		"stream cut off":        {func(w http.ResponseWriter, r *http.Request) { sse(half)(w, r); abort(w) }, true, Truncated, "", 200},
		"cut after [DONE]":      {func(w http.ResponseWriter, r *http.Request) { sse(stream)(w, r); abort(w) }, true, Truncated, "", 200},
		"empty stream":          {sse(""), true, Truncated, "", 200},
		"error in the stream":   {sse("data: {\"error\":{\"message\":\"x\"}}\n\ndata: [DONE]\n\n"), true, Failed, ErrorEvent, 200},
		"document for a stream": {answerAfter(0), true, Failed, Protocol, 200},
		"stream for a document": {sse(stream), false, Failed, Protocol, 200},
		"compressed":            {gzipped, false, Failed, Protocol, 200},
		"refused":               {status(429, "Retry-After", "3", "Headgate-Reason", "queue_age"), false, Refused, "", 429},
		"refused by upstream":   {status(429), false, Refused, "", 429},
		"draining":              {status(503, "Headgate-Reason", "draining"), false, Refused, "", 503},
		"other 503":             {status(503), false, Failed, BadStatus, 503},
		"server error":          {status(500), false, Failed, BadStatus, 500},
		"not found":             {status(404), false, Failed, BadStatus, 404},
		"redirect":              {status(307, "Location", "/elsewhere"), false, Failed, BadStatus, 307},
		"no headers":            {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, false, Failed, Transport, 0},
		"never":                 {answerAfter(24 * time.Hour), false, Failed, Timeout, 0},
		"never ends":            {endlessBody, false, Failed, Timeout, 200},
	} {
		t.Run(name, func(t *testing.T) {
			withFixture(t, c.h, func(t *fixture) {
				t.cfg.Stream = c.stream
				r := t.runOne()
				if r.Outcome != c.outcome || r.Cause != c.cause || r.Status != c.status {
					t.Errorf("got %s %q %d, want %s %q %d", r.Outcome, r.Cause, r.Status, c.outcome, c.cause, c.status)
				}
				if r.Attempts != 1 {
					t.Errorf("%d attempts, want 1", r.Attempts)
				}
			})
		})
	}
}

func short(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Length", "1000")
	writeJSON(w, answer)
}

func gzipped(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Encoding", "gzip")
	writeJSON(w, answer)
}

func endlessBody(w http.ResponseWriter, r *http.Request) {
	writeJSON(w, answer[:10])
	_ = http.NewResponseController(w).Flush()
	<-r.Context().Done()
}

func TestConnectFailureHasItsOwnCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newMemListener()
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		var got Result
		_, err := Run(t.Context(), Config{
			URL:     "http://memory",
			Client:  &http.Client{Transport: &http.Transport{DialContext: l.dial}},
			Observe: func(r Result) { got = r },
		}, arrivalsAt(0).Source())
		if err != nil || got.Outcome != Failed || got.Cause != Connect {
			t.Errorf("got %v, %s, %q, want error, connect", err, got.Outcome, got.Cause)
		}
	})
}

func TestTimesOfAStreamedAnswer(t *testing.T) {
	h := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("Headgate-Task-Id", "0190-abc")
		time.Sleep(2 * time.Second)
		for _, part := range []string{stream[:5], stream[5:40], stream[40:]} {
			_, _ = io.WriteString(w, part)
			_ = http.NewResponseController(w).Flush()
			time.Sleep(time.Second)
		}
	}
	withFixture(t, h, func(t *fixture) {
		t.cfg.Stream = true
		t.run(arrivalsAt(10))
		want := Result{
			Intended: 10 * time.Second, Sent: 10 * time.Second, FirstByte: 12 * time.Second, End: 15 * time.Second,
			Outcome: OK, Status: 200, Bytes: int64(len(stream)), Attempts: 1,
			TaskID: "0190-abc",
		}
		if d := cmp.Diff(want, t.results[0]); d != "" {
			t.Error(d)
		}
	})
}

// refusingServer refuses the first n requests, then answers, and remembers all.
type refusingServer struct {
	n      int
	header http.Header
	start  time.Time

	mu      sync.Mutex
	times   []time.Duration
	retries []string
}

func (f *refusingServer) serve(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.times = append(f.times, time.Since(f.start))
	f.retries = append(f.retries, r.Header.Get("X-Stainless-Retry-Count"))
	if len(f.times) > f.n {
		writeJSON(w, answer)
		return
	}
	for k, v := range f.header {
		w.Header()[k] = v
	}
	w.WriteHeader(http.StatusTooManyRequests)
}

func TestRetry(t *testing.T) {
	reason := http.Header{"Headgate-Reason": {"queue_depth"}}
	wait := func(header ...string) http.Header {
		h := reason.Clone()
		for i := 0; i < len(header); i += 2 {
			h.Set(header[i], header[i+1])
		}
		return h
	}
	for name, c := range map[string]struct {
		refusals int
		header   http.Header
		attempts int
		outcome  Outcome
		times    []float64 // seconds at the server
		noRetry  int
	}{
		"none by default":        {1, wait("Retry-After", "7"), 0, Refused, []float64{0}, 0},
		"honours Retry-After":    {1, wait("Retry-After", "7"), 2, OK, []float64{0, 7}, 0},
		"the finer one wins":     {1, wait("Retry-After", "7", "Retry-After-Ms", "6500"), 2, OK, []float64{0, 6.5}, 0},
		"bad finer one":          {1, wait("Retry-After", "7", "Retry-After-Ms", "0"), 2, OK, []float64{0, 7}, 0},
		"gives up":               {9, wait("Retry-After", "2"), 3, Refused, []float64{0, 2, 4}, 0},
		"none given":             {1, reason, 2, OK, []float64{0, 1}, 1},
		"not usable, twice":      {2, wait("Retry-After", "0"), 5, OK, []float64{0, 1, 2}, 2},
		"too long is not usable": {1, wait("Retry-After", "61"), 2, OK, []float64{0, 1}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			f := &refusingServer{n: c.refusals, header: c.header}
			withFixture(t, f.serve, func(t *fixture) {
				f.start = t.start
				t.cfg.MaxAttempts = c.attempts
				rep := t.run(arrivalsAt(0))
				r := t.results[0]
				var times []float64
				for _, d := range f.times {
					times = append(times, d.Seconds())
				}
				if d := cmp.Diff(c.times, times); d != "" {
					t.Errorf("times: %s", d)
				}
				refusals := min(c.refusals, len(c.times))
				if r.Outcome != c.outcome || r.Attempts != len(c.times) || r.Refusals != refusals || r.NoRetryAfter != c.noRetry {
					t.Errorf("got %+v, want %s after %d attempts, %d without Retry-After", r, c.outcome, len(c.times), c.noRetry)
				}
				if rep.Requests != len(c.times) || rep.Refusals != refusals || rep.NoRetryAfter != c.noRetry || rep.NoReason != 0 {
					t.Errorf("got %+v, want %d requests", rep, len(c.times))
				}
				if last := c.times[len(c.times)-1]; r.Turnaround().Seconds() != last {
					t.Errorf("turnaround %v, want %v s: it spans the retries", r.Turnaround(), last)
				}
				if r.Outcome == OK && (r.Reason != "" || r.RetryAfter.OK) {
					t.Errorf("an answered arrival keeps reason %q and %+v of its refusal", r.Reason, r.RetryAfter)
				}
			})
		})
	}
}

func TestRetriesSendRetryCountHeader(t *testing.T) {
	f := &refusingServer{n: 2}
	withFixture(t, f.serve, func(t *fixture) {
		f.start = t.start
		t.cfg.MaxAttempts = 3
		t.run(arrivalsAt(0))
		if d := cmp.Diff([]string{"", "1", "2"}, f.retries); d != "" {
			t.Error(d)
		}
	})
}

func TestAWaitingRetryHoldsUpNoArrivalAndEndsWithTheRun(t *testing.T) {
	f := &refusingServer{n: 1000, header: http.Header{"Retry-After": {"59"}}}
	withFixture(t, f.serve, func(t *fixture) {
		f.start = t.start
		t.cfg.MaxAttempts = 2
		rep := t.run(arrivalsAt(0, 1, 2))
		if f.times[2] != 2*time.Second || rep.Requests != 6 {
			t.Errorf("times %v, requests %d, want the third at 2 s, and 6", f.times, rep.Requests)
		}
	})
}

func TestRequestOnTheWire(t *testing.T) {
	for _, streamed := range []bool{false, true} {
		var got *http.Request
		var body []byte
		h := func(w http.ResponseWriter, r *http.Request) {
			got = r
			body, _ = io.ReadAll(r.Body)
			if streamed {
				sse(stream)(w, r)
				return
			}
			writeJSON(w, answer)
		}
		withFixture(t, h, func(t *fixture) {
			t.cfg.Model, t.cfg.Stream = `m"1`, streamed
			t.cfg.HeaderFor = func(i int) http.Header { return http.Header{"X-Kind": {fmt.Sprint("one ", i)}} }
			if r := t.runOne(); r.Outcome != OK {
				t.Fatalf("got %+v", r)
			}
		})
		want := `{"model":"m\"1","messages":[{"role":"user","content":"` + smallOpening[:40] + `"}],"max_tokens":5}` // 10 tokens of 4 bytes
		if streamed {
			want = strings.Replace(want, `,"messages"`, `,"stream":true,"messages"`, 1)
		}
		if string(body) != want {
			t.Errorf("body %s\nwant %s", body, want)
		}
		if got.Method != http.MethodPost || got.URL.Path != path || got.ContentLength != int64(len(body)) {
			t.Errorf("%s %s with length %d, want POST %s with %d", got.Method, got.URL.Path, got.ContentLength, path, len(body))
		}
		for k, v := range map[string]string{"X-Kind": "one 0", "Content-Type": "application/json", "Accept-Encoding": ""} {
			if got.Header.Get(k) != v {
				t.Errorf("header %s: %q, want %q", k, got.Header.Get(k), v)
			}
		}
	}
}

func TestImpossibleHeaderIsAnError(t *testing.T) {
	withFixture(t, answerAfter(0), func(t *fixture) {
		t.cfg.HeaderFor = func(int) http.Header { return http.Header{"Bad\nName": {"x"}} }
		if r := t.runOne(); r.Outcome != Failed || r.Cause != Transport || r.Status != 0 {
			t.Errorf("got %+v, want a transport error and no response", r)
		}
	})
}

func newTestSender(t *testing.T, c Config) *sender {
	t.Helper()
	c.URL = "http://x"
	s, err := newSender(c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestPromptSizes(t *testing.T) {
	s := newTestSender(t, Config{Model: "m"})
	for _, c := range []struct {
		a    Arrival
		want int // bytes of prompt
	}{
		{Arrival{}, 4}, {Arrival{PromptTokens: 1}, 4}, {Arrival{PromptTokens: 720, Large: true}, 2880}, {Arrival{PromptTokens: promptBlock / 4}, promptBlock},
		{Arrival{PromptTokens: promptBlock/4 + 1}, promptBlock + 4}, {Arrival{PromptTokens: MaxTokens, OutputTokens: 7}, 4 * MaxTokens},
	} {
		body, length := s.body(c.a, 0)
		text, err := io.ReadAll(body)
		if err != nil || int64(len(text)) != length {
			t.Fatalf("%+v: read %d bytes, %v, want %d", c.a, len(text), err, length)
		}
		var got struct {
			Messages  []struct{ Content string }
			MaxTokens *int `json:"max_tokens"`
		}
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatalf("%+v: %v", c.a, err)
		}
		content := got.Messages[0].Content
		opening := smallOpening
		if c.a.Large {
			opening = largeOpening
		}
		opening = opening[:min(len(opening), c.want)]
		if len(content) != c.want || !strings.HasPrefix(content, opening) {
			t.Errorf("%+v: prompt of %d bytes %.40q, want %d that begin with %.40q", c.a, len(content), content, c.want, opening)
		}
		if (got.MaxTokens == nil) != (c.a.OutputTokens == 0) || got.MaxTokens != nil && *got.MaxTokens != c.a.OutputTokens {
			t.Errorf("%+v: max_tokens %v", c.a, got.MaxTokens)
		}
	}
}

// A user makes two requests differ that ask for the same.
func TestUserIsInTheBody(t *testing.T) {
	s := newTestSender(t, Config{Model: "m", Stream: true, User: func(i int) string { return fmt.Sprintf(`task "%d"`, i) }})
	body, length := s.body(Arrival{PromptTokens: 9}, 1)
	text, err := io.ReadAll(body)
	var got struct{ User, Model string }
	if err != nil || int64(len(text)) != length || json.Unmarshal(text, &got) != nil || got.User != `task "1"` || got.Model != "m" {
		t.Errorf("read %s, %v", text[:min(len(text), 100)], err)
	}
}

// countConns makes a server count the connections it is given.
func countConns(srv *httptest.Server) *atomic.Int64 {
	var n atomic.Int64
	srv.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			n.Add(1)
		}
	}
	return &n
}

func TestOwnClientKeepsItsConnections(t *testing.T) {
	const together = 20
	var in, waves atomic.Int64
	release := make(chan struct{}, 1000)
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if in.Add(1)%together == 0 { // the whole wave is here
			waves.Add(1)
			for range together {
				release <- struct{}{}
			}
		}
		select {
		case <-release:
			writeJSON(w, answer)
		case <-r.Context().Done():
		}
	}))
	conns := countConns(srv)
	srv.Start()
	defer srv.Close()

	// The second wave begins when the first has long ended, so it finds twenty
	// idle connections; the default transport would have kept two.
	wave := make(Arrivals, together)
	second := make(chan struct{})
	var ended atomic.Int64
	rep, err := Run(t.Context(), Config{URL: srv.URL, Observe: func(Result) {
		if ended.Add(1) == together {
			close(second)
		}
	}}, func(yield func(Arrival) bool) {
		wave.Source()(yield)
		<-second
		wave.Source()(yield)
	})
	if err != nil {
		t.Fatal(err)
	}
	if rep.ByOutcome[OK] != 2*together || waves.Load() != 2 {
		t.Errorf("outcomes %v in %d waves, want all %d ok in 2", rep.ByOutcome, waves.Load(), 2*together)
	}
	// A connection may still be on its way back to the pool when the next wave starts.
	if n := conns.Load(); n > together+together/2 {
		t.Errorf("%d connections for two waves of %d, want them used again", n, together)
	}
}

func TestATraceOverRealSockets(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		sse(stream)(w, r)
	}))
	defer srv.Close()
	code, err := CodeTrace()
	if err != nil {
		t.Fatal(err)
	}
	part := code[:500]
	var bytes atomic.Int64
	rep, err := Run(t.Context(), Config{
		URL: srv.URL + "/v1", Stream: true, Speed: 200, Timeout: MaxSpan, Observe: func(r Result) { bytes.Add(r.Bytes) },
	}, part.Source())
	if err != nil {
		t.Fatal(err)
	}
	if rep.Arrivals != 500 || rep.ByOutcome[OK] != 500 || bytes.Load() != int64(500*len(stream)) {
		t.Errorf("got %+v and %d bytes, want 500 ok and every byte counted", rep, bytes.Load())
	}
}

func TestOwnClientFollowsNoRedirectAndConnectsNowhere(t *testing.T) {
	srv := httptest.NewServer(http.RedirectHandler("/other", http.StatusPermanentRedirect))
	address := srv.URL
	rep, err := Run(t.Context(), Config{URL: address}, arrivalsAt(0).Source())
	if err != nil || rep.ByCause[BadStatus] != 1 {
		t.Errorf("got %v and %+v, want the redirect itself", err, rep)
	}
	srv.Close()
	rep, err = Run(t.Context(), Config{URL: address}, arrivalsAt(0).Source())
	if err != nil || rep.ByCause[Connect] != 1 {
		t.Errorf("got %v and %+v, want no connection", err, rep)
	}
}

func BenchmarkArrival(b *testing.B) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		writeJSON(w, answer)
	}))
	defer srv.Close()
	arrivals := make(Arrivals, b.N)
	for i := range arrivals {
		arrivals[i] = Arrival{At: time.Duration(i) * 200 * time.Microsecond, PromptTokens: 1000}
	}
	b.ReportAllocs()
	b.ResetTimer()
	rep, err := Run(b.Context(), Config{URL: srv.URL}, arrivals.Source())
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(rep.SendLag.P99*1e3, "ms-lag-p99")
	b.ReportMetric(rep.Turnaround.P50*1e3, "ms-p50")
}
