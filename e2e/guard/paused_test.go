package guard

import (
	"syscall"
	"testing"
	"time"

	"headgate/e2e/harness"
	"headgate/internal/modelstub"
)

// A process that does not run for seconds, as during a live migration of its machine, delays
// the tasks in the gate. That is no fault of the gate, and does not roll it back.
func TestPausedProcessIsNotRolledBack(t *testing.T) {
	t.Parallel()
	stub := harness.StartStub(t, modelstub.Config{})
	r := start(t, harness.Settings{Upstream: stub.V1(), Workers: 16})
	stopped := time.AfterFunc(3*time.Second, func() {
		r.Signal(t, syscall.SIGSTOP)
		time.Sleep(3 * time.Second) // for how long the process is stopped
		r.Signal(t, syscall.SIGCONT)
	})
	took, rolledBack := r.watch(28*time.Second, 8, func() {
		_, _ = r.ask("Stub-Service", "1ms")
		time.Sleep(10 * time.Millisecond) // a light load
	})
	if rolledBack || stopped.Stop() {
		t.Fatalf("in pass-through after %s", took)
	}
	m := r.Scrape(t)
	if n := m.Sum("headgate_gate_free_seconds"); !(n > 100) {
		t.Errorf("%v tasks found a free worker: the load was too low", n)
	}
	wantHealthy(t, m)
}
