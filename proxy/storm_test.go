package proxy

import (
	"context"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"headgate/internal/loadgen"
	"headgate/proxy/admission"
)

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
	report, err := loadgen.Run(context.Background(), loadgen.Config{URL: r.server.url(), Header: http.Header{"Stub-Service": {"20ms"}}}, source)
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
