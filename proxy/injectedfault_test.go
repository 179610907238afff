package proxy

import (
	"bytes"
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"headgate/internal/modelstub"
	"headgate/proxy/admission"
	"headgate/proxy/fault"
)

// withInjector puts faults on the way to the rig's endpoint.
func withInjector(p *fixture) *fault.Injector {
	way := fault.New(&http.Transport{DialContext: p.network.dial, DisableCompression: true}, 1)
	p.pool.Transport = way
	return way
}

// What a fault does upstream is told to the client, and named in the outcome, as
// if the endpoint had done it.
func TestInjectedFaultsAreUpstreamFaults(t *testing.T) {
	for name, c := range map[string]struct {
		fault   fault.Fault
		body    string
		outcome admission.Outcome
		status  int // of the answer
		broken  bool
	}{
		"none":             {fault.Fault{Kind: fault.Hang, Share: 0}, stream, admission.Completed, 200, false},
		"status":           {fault.Fault{Kind: fault.Status, Code: 503, Share: 1}, chat, admission.UpstreamError, 503, false},
		"its refusal":      {fault.Fault{Kind: fault.Status, Code: 429, Share: 1}, chat, admission.UpstreamRefused, 429, false},
		"reset":            {fault.Fault{Kind: fault.Reset, Share: 1}, chat, admission.UpstreamError, 502, false},
		"refuse":           {fault.Fault{Kind: fault.Refuse, Share: 1}, stream, admission.UpstreamError, 502, false},
		"truncated stream": {fault.Fault{Kind: fault.Truncate, Share: 1}, stream, admission.Truncated, 200, true},
		"truncated answer": {fault.Fault{Kind: fault.Truncate, Share: 1}, chat, admission.Truncated, 200, true},
		"malformed answer": {fault.Fault{Kind: fault.Malformed, Share: 1}, chat, admission.Truncated, 200, true},
		"slow drip":        {fault.Fault{Kind: fault.Drip, Delay: time.Millisecond, Share: 1}, stream, admission.Completed, 200, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var way *fault.Injector
			r := newTestProxy(t, func(p *fixture) { way = withInjector(p) })
			if _, err := way.Inject(c.fault, fault.Scope{}, fault.MaxTTL); err != nil {
				t.Fatal(err)
			}
			a := r.post(chatPath, c.body)
			if (a.err != nil) != c.broken || !c.broken && a.status != c.status {
				t.Errorf("status %d, broken: %v; want %d, %t", a.status, a.err, c.status, c.broken)
			}
			if c.broken && (bytes.Contains(a.body, []byte("[DONE]")) || strings.HasSuffix(string(a.body), "}\n")) {
				t.Errorf("a broken answer looks whole: %q", a.body)
			}
			r.wantOutcome(c.outcome, c.status)
			if befell := way.Report().TotalHits(); befell != 1 && c.fault.Share > 0 {
				t.Errorf("%d calls befallen, want 1", befell)
			}
		})
	}
}

// A call that hangs takes a permit, until the endpoint has been silent for too
// long.
func TestHangTimesOut(t *testing.T) {
	withSynctest(t, func(p *fixture) {
		way := withInjector(p)
		p.pool.IdleTimeout = 30 * time.Second
		p.stub = modelstub.Config{}
		if _, err := way.Inject(fault.Fault{Kind: fault.Hang, Share: 1}, fault.Scope{}, fault.MaxTTL); err != nil {
			t.Fatal(err)
		}
	}, func(r *testProxy) {
		if a := r.chat(); a.status != http.StatusGatewayTimeout {
			t.Errorf("%d, %v", a.status, a.err)
		}
		r.wantOutcome(admission.UpstreamTimeout, http.StatusGatewayTimeout)
	})
}

// When the fault is cleared the task goes on as if nothing had been, and the next
// one has normal latency.
func TestClearedHangContinues(t *testing.T) {
	var way *fault.Injector
	withSynctest(t, func(p *fixture) { way = withInjector(p) }, func(r *testProxy) {
		if _, err := way.Inject(fault.Fault{Kind: fault.Hang, Share: 1}, fault.Scope{}, fault.MaxTTL); err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(10*time.Second, func() {
			if got, err := way.Clear(context.Background()); err != nil || got.Released != 1 {
				t.Errorf("%+v, %v", got, err)
			}
		})
		for i, want := range []time.Duration{10 * time.Second, 0} {
			if a := r.chat(); a.status != http.StatusOK || a.err != nil {
				t.Errorf("%d, %v", a.status, a.err)
			}
			if got := r.task(i + 1).Turnaround; got != want {
				t.Errorf("task %d took %v, want %v", i, got, want)
			}
		}
	})
}
