package proxy

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"headgate/proxy/admission"
)

func withOneWorker(p *fixture) { p.gate.Workers = 1 }

// With one worker, whatever happens to one task must leave the permit to the
// next one.
func TestPermitComesBackAfterEveryEnd(t *testing.T) {
	cases := map[string]struct {
		body    string
		header  []string
		outcome admission.Outcome
	}{
		"completed":                   {chat, nil, admission.Completed},
		"completed stream":            {stream, nil, admission.Completed},
		"upstream 400":                {chat, []string{"Stub-Fault", "status=400"}, admission.Completed},
		"upstream 429":                {chat, []string{"Stub-Fault", "status=429"}, admission.UpstreamRefused},
		"upstream 500":                {chat, []string{"Stub-Fault", "status=500"}, admission.UpstreamError},
		"upstream 504":                {chat, []string{"Stub-Fault", "status=504"}, admission.UpstreamError},
		"reset before the headers":    {chat, []string{"Stub-Fault", "reset"}, admission.UpstreamError},
		"reset mid-stream":            {stream, []string{"Stub-Fault", "reset_after=1"}, admission.Truncated},
		"broken framing":              {stream, []string{"Stub-Fault", "malformed=1"}, admission.Truncated},
		"cut stream":                  {stream, []string{"Stub-Fault", "truncate=1"}, admission.Truncated},
		"half a body":                 {chat, []string{"Stub-Fault", "truncate=half"}, admission.Truncated},
		"half a body, whole length":   {chat, []string{"Stub-Fault", "truncate=half;length=wrong"}, admission.Truncated},
		"error event":                 {stream, []string{"Stub-Fault", "error_event=1"}, admission.UpstreamError},
		"silence before the headers":  {chat, []string{"Stub-Fault", "hang"}, admission.UpstreamTimeout},
		"silence mid-stream":          {stream, []string{"Stub-Fault", "hang_after=1"}, admission.UpstreamTimeout},
		"malformed JSON":              {`{"model":`, nil, admission.Invalid},
		"no model":                    {`{}`, nil, admission.Invalid},
		"deadline that says nothing":  {chat, []string{"Headgate-Deadline", "soon"}, admission.Invalid},
		"priority that says nothing":  {chat, []string{"Headgate-Priority", "royal"}, admission.Invalid},
		"a body that is not JSON":     {"hello", []string{"Content-Type", "text/plain"}, admission.Invalid},
		"a body that does not decode": {chat, []string{"Content-Encoding", "gzip"}, admission.Invalid},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			withSynctest(t, withOneWorker, func(r *testProxy) {
				a := r.post(chatPath, c.body, c.header...)
				if o := r.task(1); o.Outcome != c.outcome || a.err == nil && o.Status != a.status {
					t.Errorf("outcome %s, status %d told and %d seen, want %s", o.Outcome, o.Status, a.status, c.outcome)
				}
				r.wantCompleted(r.chat())
			})
		})
	}
}

func TestPermitComesBackWhenTheClientLeavesMidStream(t *testing.T) {
	r := newTestProxy(t, withOneWorker)
	for i := range 5 {
		ctx, cancel := context.WithCancel(context.Background())
		res, err := r.client.Do(r.request(ctx, chatPath, stream, "Stub-Fault", "hang_after=2"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := res.Body.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		cancel()
		_ = res.Body.Close()
		r.wantCompleted(r.post(chatPath, stream))
		r.eventually("the upstream was told", func() bool { return r.stub.Stats().ClientGone == int64(i+1) })
	}
	if n := r.recorder.outcomes()[admission.ClientGone]; n != 5 {
		t.Errorf("%d clients counted as gone, want 5", n)
	}
}

// Whatever the client waits for when it dies, its upstream call dies with it.
func TestUpstreamIsCancelledWhenTheClientDies(t *testing.T) {
	for name, c := range map[string]struct{ body, fault string }{
		"before the first token": {stream, "hang"},
		"mid-stream":             {stream, "hang_after=1"},
		"waiting for JSON":       {chat, "hang"},
		"half-way in JSON":       {chat, "hang_after=1"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newTestProxy(t, withOneWorker)
			call := r.start(chatPath, c.body, "Stub-Fault", c.fault)
			r.eventually("the call is upstream", func() bool { return r.stub.Stats().InFlight == 1 })
			call.leave()
			<-call.answer
			r.eventually("the upstream was told", func() bool { return r.stub.Stats().ClientGone == 1 })
			if o := r.task(1); o.Outcome != admission.ClientGone {
				t.Errorf("outcome %s (%v)", o.Outcome, o.Err)
			}
			r.wantCompleted(r.chat())
		})
	}
}

func TestTimeoutsReturnAllPermits(t *testing.T) {
	withSynctest(t, func(p *fixture) { p.gate.Workers = 10 }, func(r *testProxy) {
		for _, fault := range []string{"status=504", "hang"} {
			var calls []call
			for range 10 {
				calls = append(calls, r.start(chatPath, chat, "Stub-Fault", fault))
			}
			for _, c := range calls {
				if a := c.wait(); a.status != http.StatusGatewayTimeout {
					t.Errorf("status %d (%v)", a.status, a.err)
				}
			}
			r.eventually("all permits are back", func() bool { return r.heldResources().inFlight == 0 })
		}
		r.wantCompleted(r.chat())
		if n := r.recorder.outcomes(); n[admission.UpstreamError] != 10 || n[admission.UpstreamTimeout] != 10 {
			t.Errorf("outcomes %v", n)
		}
	})
}

// panickingWriter panics as net/http's middle layers do when a client has gone.
type panickingWriter struct {
	http.ResponseWriter
	value any
}

func (b panickingWriter) Write([]byte) (int, error) { panic(b.value) }

func (b panickingWriter) Unwrap() http.ResponseWriter { return b.ResponseWriter }

func TestPanicAfterTheHeadersReleasesOnce(t *testing.T) {
	for name, c := range map[string]struct {
		value    any
		outcome  admission.Outcome
		panicked bool
	}{
		"the abort of net/http": {http.ErrAbortHandler, admission.ClientGone, false},
		"a fault of our own":    {"oops", admission.UpstreamError, true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newTestProxy(t, withOneWorker)
			broken := serve(t, r.network, &http.Server{ErrorLog: discardLog(), Handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				r.proxy.ServeHTTP(panickingWriter{w, c.value}, req)
			})})
			defer broken.close()
			req := r.request(context.Background(), chatPath, stream)
			req.URL.Host = broken.host
			if a := r.do(req); a.err == nil {
				t.Errorf("the client saw a whole answer: %d %s", a.status, a.body)
			}
			o := r.task(1)
			if o.Outcome != c.outcome || o.Panicked != c.panicked {
				t.Errorf("outcome %s, panicked %t", o.Outcome, o.Panicked)
			}
			if n := r.sum("headgate_panics_total"); (n == 1) != c.panicked {
				t.Errorf("%v panics counted", n)
			}
			r.wantCompleted(r.chat())
		})
	}
}

// panickingTransport fails in our own code's place before anything was sent.
type panickingTransport struct{}

func (panickingTransport) RoundTrip(*http.Request) (*http.Response, error) {
	panic("secret-in-a-panic")
}

func TestPanicBeforeTheHeadersIsA500(t *testing.T) {
	r := newTestProxy(t, func(p *fixture) { withOneWorker(p); p.pool.Transport = panickingTransport{} })
	for i := range 2 {
		a := r.chat()
		if a.status != http.StatusInternalServerError {
			t.Fatalf("call %d: status %d (%v)", i, a.status, a.err)
		}
		r.wantErrorBody(a.body, "internal_error")
	}
	if n := r.sum("headgate_panics_total"); n != 2 {
		t.Errorf("%v panics counted", n)
	}
}

func TestHundredArrivalsAtOnceNeverExceedTheWorkers(t *testing.T) {
	r := newTestProxy(t, func(p *fixture) { p.gate.Workers = 8; p.gate.Policy = admission.None{} })
	var group sync.WaitGroup
	for range 100 {
		group.Go(func() { r.wantCompleted(r.chat("Stub-Service", "2ms")) })
	}
	group.Wait()
	if s := r.stub.Stats(); s.PeakInFlight > 8 || s.Completed != 100 {
		t.Errorf("the upstream saw %d calls, %d at once", s.Completed, s.PeakInFlight)
	}
}

func TestRefusalsAreFullAnswers(t *testing.T) {
	r := newTestProxy(t, withOneWorker)
	leave := r.occupy(1)
	queued := r.queueCalls(3, chat)
	for range 5 {
		r.wantRefused(r.chat(), admission.ReasonQueueDepth)
		r.wantRefused(r.post(chatPath, stream), admission.ReasonQueueDepth)
	}
	leave()
	for _, c := range queued {
		r.wantCompleted(c.wait())
	}
	if n := r.recorder.outcomes(); n[admission.Refused] != 10 || n[admission.Completed] != 3 {
		t.Errorf("outcomes %v", n)
	}
	if n := r.sum("headgate_refusals_total", "pool", "main", "reason", "queue_depth"); n != 10 {
		t.Errorf("%v refusals counted", n)
	}
}

// Whatever the projected wait, Retry-After is a whole number from 1 to 60.
func TestRetryAfterAtEveryProjection(t *testing.T) {
	for _, service := range []time.Duration{time.Nanosecond, 200 * time.Millisecond, 493 * time.Millisecond, 15 * time.Second, 24 * time.Hour} {
		r := newTestProxy(t, func(p *fixture) { withOneWorker(p); p.gate.AssumedService = service })
		leave := r.occupy(1)
		queued := r.queueCalls(3, chat)
		for range 20 {
			r.wantRefused(r.chat(), admission.ReasonQueueDepth)
		}
		leave()
		for _, c := range queued {
			c.wait()
		}
	}
}

func TestAgeOfTheQueueRefuses(t *testing.T) {
	withSynctest(t, withOneWorker, func(r *testProxy) {
		leave := r.occupy(1)
		queued := r.queueCalls(1, chat)
		time.Sleep(25*time.Second + time.Millisecond)
		r.wantRefused(r.chat(), admission.ReasonQueueAge)
		leave()
		r.wantCompleted(queued[0].wait())
	})
}

func TestQueueWaitHeader(t *testing.T) {
	withSynctest(t, withOneWorker, func(r *testProxy) {
		first := r.start(chatPath, chat, "Stub-Service", "7s")
		r.eventually("the first runs", func() bool { return r.heldResources().inFlight == 1 })
		second := r.queueCalls(1, chat)[0].wait()
		first.wait()
		ms, err := strconv.Atoi(second.header.Get("Headgate-Queue-Wait-Ms"))
		if err != nil || ms < 6900 || ms > 7000 {
			t.Errorf("Headgate-Queue-Wait-Ms %d (%v), want what is left of 7 s", ms, err)
		}
	})
}

func TestIdleConnectionsAreKept(t *testing.T) {
	r := newTestProxy(t, nil)
	for range 20 {
		res, err := r.client.Do(r.request(context.Background(), chatPath, stream))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, res.Body); err != nil || res.Close {
			t.Fatalf("the connection ends after a whole stream (%v)", err)
		}
		_ = res.Body.Close()
	}
}
