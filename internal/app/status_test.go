package app

import (
	"net/http"
	"testing"
	"time"

	"headgate/runbooks/control"
)

// TestStatusLeavesOutWhatIsInvalid: a client that sends what is not right makes
// the gate neither refuse nor full.
func TestStatusLeavesOutWhatIsInvalid(t *testing.T) {
	r := newFixture(t, nil)
	close(r.upstream.release)
	if a := <-r.sendChat(); a.status != http.StatusOK {
		t.Fatalf("status %d (%v)", a.status, a.err)
	}
	pool := func() control.PoolStatus { return r.app.Status(time.Now()).Pools[0] }
	r.eventually("one was served", func() bool { return pool().EnvelopeUse != nil && pool().P95TurnaroundS != nil })
	before := *pool().EnvelopeUse
	if before <= 0 {
		t.Fatalf("use %v of one task", before)
	}
	const wrong = 50
	for range wrong {
		if a := r.do(r.request(http.MethodPost, "http://"+r.app.DataAddr()+chatPath, "{")); a.status != http.StatusBadRequest {
			t.Fatalf("status %d (%v)", a.status, a.err)
		}
	}
	r.eventually("all have ended", func() bool { return r.app.metrics.proxy.Recent("default", time.Now()).Invalid == wrong })
	if p := pool(); p.Admitted1m != 1 || p.Refused1m != 0 || *p.EnvelopeUse != before {
		t.Errorf("%d admitted, %d refused, use %v; want 1, 0 and %v", p.Admitted1m, p.Refused1m, *p.EnvelopeUse, before)
	}
}
