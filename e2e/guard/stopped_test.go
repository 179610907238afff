package guard

import (
	"syscall"
	"testing"
	"time"

	"headgate/e2e/harness"
	"headgate/internal/modelstub"
)

// TestStoppedProcessIsNoSlowGate: a process that stands still for seconds, as on a
// machine that is being moved, holds up whoever is in the gate just then. That
// is not the gate's fault, and passes.
func TestStoppedProcessIsNoSlowGate(t *testing.T) {
	t.Parallel()
	stub := harness.StartStub(t, modelstub.Config{})
	r := start(t, harness.Settings{Upstream: stub.V1(), Workers: 16})
	stopped := time.AfterFunc(3*time.Second, func() {
		r.Signal(t, syscall.SIGSTOP)
		time.Sleep(3 * time.Second) // as long as it stands still
		r.Signal(t, syscall.SIGCONT)
	})
	took, flipped := r.watch(28*time.Second, 8, func() {
		_, _ = r.ask("Stub-Service", "1ms")
		time.Sleep(10 * time.Millisecond) // a light load
	})
	if flipped || stopped.Stop() {
		t.Fatalf("in pass-through after %s", took)
	}
	m := r.Scrape(t)
	if n := m.Sum("headgate_gate_free_seconds"); !(n > 100) {
		t.Errorf("%v found a worker free: nothing was tried", n)
	}
	wantCalm(t, m)
}
