package replay

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"headgate/internal/loadgen"
)

func TestEnforce(t *testing.T) {
	t.Parallel()
	for name, stream := range map[string]bool{"plain": false, "streamed": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := replay(t, "", loadgen.Config{Stream: stream})
			r.checkAgreement(t)
			if r.report.Refusals == 0 || r.report.ByOutcome[loadgen.OK] == 0 {
				t.Fatalf("%d refusals and %d answers: the load is unsuitable", r.report.Refusals, r.report.ByOutcome[loadgen.OK])
			}
			if diff := cmp.Diff(r.report.ByReason, r.metrics.By("headgate_refusals_total", "reason")); diff != "" {
				t.Errorf("reasons, as the generator got them (-), as the gate counted them (+):\n%s", diff)
			}
		})
	}
}

// Clients that retry after Retry-After send more requests, and each is counted.
func TestEnforceWithRetries(t *testing.T) {
	t.Parallel()
	r := replay(t, "", loadgen.Config{Stream: true, MaxAttempts: 2})
	r.checkAgreement(t)
	if r.report.Requests <= tasks {
		t.Errorf("%d requests for %d tasks: no client retried", r.report.Requests, tasks)
	}
}

// Observe counts what enforce would refuse, and refuses nothing.
func TestObserveAndPassThrough(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"observe", "passthrough"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			r := replay(t, "mode: "+mode, loadgen.Config{})
			r.checkAgreement(t)
			if r.report.ByOutcome[loadgen.OK] != tasks {
				t.Errorf("%d of %d tasks were served: %v", r.report.ByOutcome[loadgen.OK], tasks, r.report.ByOutcome)
			}
			if would := r.metrics.Sum("headgate_would_refuse_total"); (would > 0) != (mode == "observe") {
				t.Errorf("%v tasks would have been refused", would)
			}
		})
	}
}

// Clients that give up free their permits, and the counts agree. (The stub notices a disconnect
// later than the gate, so its peak is not checked.)
func TestImpatientClients(t *testing.T) {
	t.Parallel()
	r := replay(t, "mode: passthrough", loadgen.Config{Stream: true, Timeout: 10 * time.Second})
	outcomes := r.metrics.By("headgate_tasks_total", "outcome")
	arrived := int(r.metrics.Sum("headgate_arrivals_total")) // fewer than were sent if some gave up before they had got through
	if outcomes["client_gone"] == 0 || outcomes["completed"] == 0 || outcomes["client_gone"]+outcomes["completed"] != arrived || arrived > tasks {
		t.Errorf("outcomes %v of %d arrivals, want client_gone and completed, some of both", outcomes, arrived)
	}
	if got := r.report.ByCause[loadgen.Timeout]; got < outcomes["client_gone"] {
		t.Errorf("%d clients gave up, the gate counts %d", got, outcomes["client_gone"])
	}
	if got := r.report.ByOutcome[loadgen.OK]; got > outcomes["completed"] {
		t.Errorf("%d clients were served, the gate counts %d", got, outcomes["completed"])
	}
}
