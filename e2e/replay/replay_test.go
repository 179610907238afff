package replay

import (
	"cmp"
	"fmt"
	"os"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"headgate/e2e/harness"
	"headgate/internal/loadgen"
	"headgate/internal/modelstub"
)

func TestMain(m *testing.M) { os.Exit(harness.Run(m)) }

const (
	tasks   = 600
	workers = 4
	speed   = 30
	slo     = 60 * time.Second
	age     = 25 * time.Second
)

// service reads 3,000 tokens a second and writes 50: the bursts of the recording then exceed the
// capacity of four workers.
const service = "tokens:3000,50"

// run is a replay with the counts of generator, gate and stub.
type run struct {
	report  *loadgen.Report
	metrics harness.Metrics
	stub    modelstub.Stats
	results []loadgen.Result
}

// replay sends the first arrivals of the recording.
func replay(t *testing.T, pool string, c loadgen.Config) run {
	t.Helper()
	svc, err := modelstub.ParseService(service)
	if err != nil {
		t.Fatal(err)
	}
	stub := harness.StartStub(t, modelstub.Config{Service: svc, Speed: speed, Seed: 1})
	gate := harness.StartGate(t, harness.Settings{
		Upstream: stub.V1(), Workers: workers,
		Pool: fmt.Sprintf("slo: {turnaround: %v}\nadmission: {max_queue_age: %v}\n%s", slo/speed, (age / speed).Round(time.Millisecond), pool),
	})
	arrivals, err := loadgen.CodeTrace()
	if err != nil {
		t.Fatal(err)
	}
	var r run
	c.URL, c.Model, c.Speed, c.SLO = gate.URL, "stub-model", speed, slo
	c.Timeout = cmp.Or(c.Timeout, 24*time.Hour) // no client gives up on a slow machine
	c.Observe = func(result loadgen.Result) { r.results = append(r.results, result) }
	if r.report, err = loadgen.Run(t.Context(), c, arrivals[:tasks].Source()); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, "the gate and the stub are empty", func() bool {
		r.metrics, r.stub = gate.Scrape(t), stub.Stats()
		return r.metrics.Sum("headgate_in_flight") == 0 && r.metrics.Sum("headgate_queue_depth") == 0 &&
			r.metrics.Sum("headgate_tasks_total") == r.metrics.Sum("headgate_arrivals_total") && r.stub.InFlight == 0
	})
	t.Logf("outcomes %v, refusals %v, would refuse %v, SLO bad %v of %v; stub: %d calls, peak %d; late %d of %d, p95 %.1f s; kept rate %v %s",
		r.metrics.By("headgate_tasks_total", "outcome"), r.metrics.By("headgate_refusals_total", "reason"),
		r.metrics.By("headgate_would_refuse_total", "reason"), r.metrics.Sum("headgate_slo_bad_tasks_total"),
		r.metrics.Sum("headgate_slo_tasks_total"), r.stub.Calls, r.stub.PeakInFlight,
		r.report.Late, r.report.Admitted, r.report.Turnaround.P95, r.report.KeptRate, r.report.RateNote)
	return r
}

// checkTotals checks the counts of every replay.
func (r run) checkTotals(t *testing.T) {
	t.Helper()
	arrived := r.metrics.Sum("headgate_arrivals_total", "pool", "default")
	ended := 0
	for _, n := range r.metrics.By("headgate_tasks_total", "outcome") {
		ended += n
	}
	if int(arrived) != r.report.Requests || ended != r.report.Requests || r.report.Arrivals != tasks {
		t.Errorf("%d arrivals made %d requests; the gate counted %v arrivals and %d outcomes",
			r.report.Arrivals, r.report.Requests, arrived, ended)
	}
	if n := r.report.ByOutcome[loadgen.Dropped] + r.report.ByOutcome[loadgen.Cancelled]; n != 0 {
		t.Errorf("the generator dropped or cancelled %d arrivals", n)
	}
	if r.stub.PeakInFlight > workers || r.stub.PeakInFlight == 0 {
		t.Errorf("the stub saw up to %d calls at once, want 1 to %d", r.stub.PeakInFlight, workers)
	}
	if got := r.metrics.Sum("headgate_service_seconds"); got != float64(r.stub.Calls) {
		t.Errorf("the gate counts %v services, the stub %d calls", got, r.stub.Calls)
	}
	if n := r.metrics.Sum("headgate_panics_total"); n != 0 {
		t.Errorf("%v panics", n)
	}
}

// checkAgreement checks that the three counts agree when no client gives up.
func (r run) checkAgreement(t *testing.T) {
	t.Helper()
	r.checkTotals(t)
	got := r.metrics.By("headgate_tasks_total", "outcome")
	want := map[string]int{"completed": int(r.stub.Completed), "refused": r.report.Refusals}
	got["refused"] += got["deadline_passed"] // a refusal after a wait, where this machine is slow
	delete(got, "deadline_passed")
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("outcomes, as the stub and the generator have them (-), as the gate has them (+):\n%s", diff)
	}
	if r.stub.Completed != r.stub.Calls || r.report.ByOutcome[loadgen.OK] != int(r.stub.Completed) {
		t.Errorf("the stub completed %d of %d calls, the generator got %d whole answers",
			r.stub.Completed, r.stub.Calls, r.report.ByOutcome[loadgen.OK])
	}
	if r.report.NoReason != 0 || r.report.NoRetryAfter != 0 {
		t.Errorf("of %d refusals %d had no reason, %d no valid Retry-After", r.report.Refusals, r.report.NoReason, r.report.NoRetryAfter)
	}
	for _, result := range r.results {
		if result.Outcome == loadgen.Refused && (result.Status != 429 || !result.RetryAfter.OK) {
			t.Errorf("arrival %d was refused with status %d and Retry-After %q", result.Index, result.Status, result.RetryAfter.Raw)
		}
		if result.Outcome == loadgen.OK && result.TaskID == "" {
			t.Errorf("arrival %d was served without a task ID", result.Index)
		}
	}
}
