package proxy

import (
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"headgate/internal/loadgen"
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

// Whatever the projected wait, Retry-After is a whole number from 1 to 59.
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

func TestQueuedClientLeavesAtOnce(t *testing.T) {
	for name, body := range map[string]string{"JSON": chat, "stream": stream} {
		t.Run(name, func(t *testing.T) {
			r := newTestProxy(t, withOneWorker)
			leave := r.occupy(1)
			r.eventually("the first call is upstream", func() bool { return r.stub.Stats().Calls == 1 })
			waiting := r.queueCalls(2, body)
			waiting[0].leave()
			<-waiting[0].answer
			r.eventually("the queue is one shorter", func() bool { return r.heldResources().depth == 1 })
			if n := r.stub.Stats().Calls; n != 1 {
				t.Errorf("%d calls went upstream while one ran", n)
			}
			leave()
			r.wantCompleted(waiting[1].wait())
			if n := r.stub.Stats().Calls; n != 2 {
				t.Errorf("%d calls went upstream, want the one that ran and the one that stayed", n)
			}
			r.wantIdle()
			if n := r.recorder.outcomes(); n[admission.ClientGone] != 2 || n[admission.Completed] != 1 {
				t.Errorf("outcomes %v", n)
			}
		})
	}
}

func TestManyQueuedClientsLeave(t *testing.T) {
	r := newTestProxy(t, func(p *fixture) { withOneWorker(p); p.gate.Policy = admission.None{} })
	leave := r.occupy(1)
	var group sync.WaitGroup
	ctx, vanish := context.WithCancel(context.Background())
	for range 50 {
		req := r.request(ctx, chatPath, chat)
		group.Go(func() { r.do(req) })
	}
	r.eventually("all wait", func() bool { return r.heldResources().depth == 50 })
	vanish()
	group.Wait()
	r.eventually("nobody waits", func() bool { return r.heldResources().depth == 0 })
	leave()
	r.wantCompleted(r.chat())
	if n := r.stub.Stats().Calls; n != 2 {
		t.Errorf("%d calls went upstream, want 2", n)
	}
}

// The grant and the departure meet at every possible moment.
func TestClientLeavesWhileThePermitComes(t *testing.T) {
	r := newTestProxy(t, withOneWorker)
	for i := range 200 {
		leave := r.occupy(1)
		waiting := r.queueCalls(1, chat)[0]
		var group sync.WaitGroup
		group.Go(leave)
		group.Go(func() {
			for range i * 10 { // later and later, within what a grant takes
				r.gate.Snapshot(time.Now())
			}
			waiting.leave()
		})
		group.Wait()
		<-waiting.answer
		r.eventually("the permit is back", func() bool { return r.heldResources() == (resources{}) })
	}
}

func TestClientLeavesBetweenGrantAndDispatch(t *testing.T) {
	ctx, leave := context.WithCancel(context.Background())
	r := newTestProxy(t, func(p *fixture) { p.gate.Policy = hookedPolicy{Policy: p.gate.Policy, onDispatch: leave} })
	if _, aborted := r.serveRecorded(r.request(ctx, chatPath, chat)); !aborted {
		t.Error("a client that has gone was answered")
	}
	if o := r.wantOutcome(admission.ClientGone, 0); !o.Granted {
		t.Error("it held a permit")
	}
	if n := r.stub.Stats().Calls; n != 0 {
		t.Errorf("%d calls went upstream", n)
	}
}

// Before the queue or in it: a client that has gone is the same to us.
func TestClientLeavesBeforeTheQueue(t *testing.T) {
	ctx, leave := context.WithCancel(context.Background())
	leave()
	r := newTestProxy(t, nil)
	if rec, aborted := r.serveRecorded(r.request(ctx, chatPath, chat)); !aborted {
		t.Errorf("a client that has gone was answered with %d", rec.Code)
	}
	r.wantOutcome(admission.ClientGone, 0)
	if n := r.stub.Stats().Calls; n != 0 {
		t.Errorf("%d calls went upstream", n)
	}
}

func TestDrainRefusesWaitingAndNewTasks(t *testing.T) {
	withSynctest(t, withOneWorker, func(r *testProxy) {
		running := r.start(chatPath, chat, "Stub-Service", "10s")
		r.eventually("one runs", func() bool { return r.heldResources().inFlight == 1 })
		queued := r.queueCalls(2, chat)
		r.gate.Drain(time.Now())
		for _, c := range queued {
			r.wantRefused(c.wait(), admission.ReasonDraining)
		}
		r.wantRefused(r.chat(), admission.ReasonDraining)
		r.wantCompleted(running.wait())
		if n := r.recorder.outcomes(); n[admission.Drained] != 3 || n[admission.Completed] != 1 {
			t.Errorf("outcomes %v", n)
		}
	})
}

// What runs when the drain time is over is cut off, and counts as drained.
func TestDrainTimeoutCancelsTasks(t *testing.T) {
	ctx, cut := context.WithCancelCause(context.Background())
	r := newTestProxy(t, func(p *fixture) { withOneWorker(p); p.base = func() context.Context { return ctx } })
	running := r.start(chatPath, stream, "Stub-Fault", "hang_after=1")
	r.eventually("one runs", func() bool { return r.stub.Stats().InFlight == 1 })
	waiting := r.queueCalls(1, chat)[0]
	cut(ErrDrainTimeout)
	for _, c := range []call{running, waiting} {
		if a := c.wait(); a.err == nil {
			t.Errorf("a whole answer: %d %s", a.status, a.body)
		}
	}
	r.wantIdle()
	if n := r.recorder.outcomes(); n[admission.Drained] != 2 {
		t.Errorf("outcomes %v", n)
	}
}

func TestLimitOfTheQueueHoldsInPassThrough(t *testing.T) {
	r := newTestProxy(t, func(p *fixture) { withOneWorker(p); p.gate.Mode, p.gate.QueueLimit = admission.PassThrough, 5 })
	leave := r.occupy(1)
	waiting := r.queueCalls(5, chat)
	r.wantRefused(r.chat(), admission.ReasonMemory)
	leave()
	for _, c := range waiting {
		r.wantCompleted(c.wait())
	}
}

func TestModelsTakeNoPermit(t *testing.T) {
	r := newTestProxy(t, withOneWorker)
	leave := r.occupy(1)
	defer leave()
	res, err := r.client.Get(r.server.url() + modelsPath)
	if err != nil {
		t.Fatal(err)
	}
	if a := read(res); a.status != http.StatusOK || a.err != nil {
		t.Errorf("status %d (%v)", a.status, a.err)
	}
	if h := r.heldResources(); h.inFlight != 1 || h.depth != 0 {
		t.Errorf("held %+v", h)
	}
}

// Everything at once: five hundred clients, every fault, every way to leave.
// What must hold then is in the rig: all observed, nothing held, counts add up.
func TestStorm(t *testing.T) {
	r := newTestProxy(t, func(p *fixture) {
		p.gate.Workers = 8
		p.pool.IdleTimeout = 200 * time.Millisecond
		p.pool.BufferLimit, p.pool.BodyLimit = 1<<20, 64<<10
		p.pool.StreamKeepAlive = 20 * time.Millisecond
		p.pool.Models = []string{"m"}
	})
	faults := []string{
		"", "", "", "", "status=429", "status=500", "hang", "reset", "truncate=2", "truncate=half", "malformed=1", "error_event=1",
		"hang_after=1", "reset_after=1", "latency=10ms",
	}
	bodies := []string{chat, stream, chat, stream, "{", `{"model":"other"}`, `{"model":"m","input":"x"}`}
	rng := rand.New(rand.NewPCG(1, 2))
	var group sync.WaitGroup
	const clients = 500
	for range clients {
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(rng.IntN(300)+1)*time.Millisecond)
		if rng.IntN(3) > 0 {
			ctx = context.WithoutCancel(ctx)
		}
		req := r.request(ctx, chatPath, bodies[rng.IntN(len(bodies))], "Stub-Fault", faults[rng.IntN(len(faults))], "Stub-Service", "5ms")
		if rng.IntN(10) == 0 {
			req.Header.Set(deadlineHeader, "0.02")
		}
		group.Go(func() {
			defer cancel()
			a := r.do(req)
			if a.status == http.StatusTooManyRequests && a.reason() != "" && a.header.Get("Retry-After") == "" {
				t.Error("a refusal without Retry-After")
			}
		})
	}
	group.Wait()
	r.wantIdle()
	outcomes := r.recorder.outcomes()
	// Who leaves in time depends on the machine: one that is too busy sees all of
	// them gone before they have sent anything.
	for _, o := range []admission.Outcome{admission.Completed, admission.Refused, admission.Invalid} {
		if outcomes[o] == 0 {
			t.Errorf("no task ended as %s: %v", o, outcomes)
		}
	}
	if n := r.sum("headgate_panics_total"); n != 0 {
		t.Errorf("%v panics\n%s", n, r.logs)
	}
	r.wantCompleted(r.chat())
}

// Under open-loop load above capacity the upstream never sees more than the
// workers at once, and every refusal tells when to come back.
func TestOverload(t *testing.T) {
	r := newTestProxy(t, nil)
	source := must(loadgen.Poisson(400, time.Second, 1))
	report, err := loadgen.Run(context.Background(), loadgen.Config{URL: r.server.url(), HeaderFor: func(int) http.Header { return http.Header{"Stub-Service": {"20ms"}} }}, source.Source())
	if err != nil {
		t.Fatal(err)
	}
	s := r.stub.Stats()
	if s.PeakInFlight > 4 || s.Calls != int64(report.ByOutcome[loadgen.OK]) {
		t.Errorf("the upstream saw %d calls, %d at once; %d clients were served", s.Calls, s.PeakInFlight, report.ByOutcome[loadgen.OK])
	}
	if report.Refusals == 0 || report.NoReason+report.NoRetryAfter != 0 {
		t.Errorf("%d refusals, %d without a reason, %d without Retry-After", report.Refusals, report.NoReason, report.NoRetryAfter)
	}
	r.wantIdle()
	if n := r.recorder.outcomes(); n[admission.Completed] != report.ByOutcome[loadgen.OK] || n[admission.Refused] != report.ByOutcome[loadgen.Refused] {
		t.Errorf("outcomes %v, the clients say %v", n, report.ByOutcome)
	}
}
