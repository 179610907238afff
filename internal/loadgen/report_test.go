package loadgen

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func reportOf(t *testing.T, results ...Result) *Report {
	t.Helper()
	cfg, err := Config{URL: "http://x", SLO: 10 * time.Second}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	tl := newAggregator(cfg)
	for _, r := range results {
		tl.add(r)
	}
	return tl.report(false)
}

// resultAfter is a sent result at a time, in seconds, with its turnaround.
func resultAfter(o Outcome, intended, turnaround float64) Result {
	at := seconds(intended)
	return Result{Outcome: o, Intended: at, Sent: at, End: at + seconds(turnaround), Attempts: 1, Status: 200}
}

func TestReportCounts(t *testing.T) {
	refused := resultAfter(Refused, 3, 0)
	refused.Status, refused.Reason, refused.Refusals = 429, "queue_age", 1
	nameless := resultAfter(Refused, 4, 0)
	nameless.Status, nameless.Refusals, nameless.NoReason, nameless.NoRetryAfter = 429, 1, 1, 1
	broke := resultAfter(Failed, 5, 2)
	broke.Status, broke.Cause = 500, BadStatus
	timedOut := resultAfter(Failed, 6, 30)
	timedOut.Status, timedOut.Cause = 0, Timeout
	cut := resultAfter(Truncated, 7, 3)
	again := resultAfter(OK, 2, 4)
	again.Attempts, again.Refusals = 3, 2
	rep := reportOf(t, resultAfter(OK, 0, 1), resultAfter(OK, 1, 10), again, refused, nameless, broke, timedOut, cut,
		Result{Outcome: Dropped, Intended: 8 * time.Second}, resultAfter(Cancelled, 10, 100))
	want := &Report{
		Arrivals: 10, Admitted: 6,
		ByOutcome: map[Outcome]int{OK: 3, Refused: 2, Failed: 2, Truncated: 1, Dropped: 1, Cancelled: 1},
		ByReason:  map[string]int{"queue_age": 1, "none": 1},
		ByCause:   map[Cause]int{BadStatus: 1, Timeout: 1},
		Requests:  11, Refusals: 4, NoReason: 1, NoRetryAfter: 1,
		Turnaround: Quantiles{Count: 4, P50: 4, P95: 30, P99: 30, Max: 30},
		Late:       1,
		SendLag:    Quantiles{Count: 9},
		RateNote:   "1 of 10 arrivals were dropped by the generator: raise MaxOutstanding",
	}
	if d := cmp.Diff(want, rep); d != "" {
		t.Error(d)
	}
	sum := 0
	for _, n := range rep.ByOutcome {
		sum += n
	}
	if sum != rep.Arrivals {
		t.Errorf("outcomes add up to %d of %d arrivals", sum, rep.Arrivals)
	}
}

func TestQuantilesAreExact(t *testing.T) {
	var all []time.Duration
	for i := range 1000 {
		all = append(all, time.Duration(1000-i)*time.Second)
	}
	if d := cmp.Diff(Quantiles{Count: 1000, P50: 500, P95: 950, P99: 990, Max: 1000}, quantiles(all)); d != "" {
		t.Error(d)
	}
}

func TestRateIsJudgedAtTheNinetyNinth(t *testing.T) {
	for _, c := range []struct {
		lagging int
		kept    bool
	}{{0, true}, {2, true}, {3, false}} {
		var results []Result
		for i := range 200 {
			r := resultAfter(OK, float64(i), 1)
			if i < c.lagging {
				r.Sent += 51 * time.Millisecond
			}
			results = append(results, r)
		}
		rep := reportOf(t, results...)
		if rep.KeptRate != c.kept || (rep.RateNote == "") != c.kept {
			t.Errorf("%d of 200 over the bound: kept %v with note %q, want %v", c.lagging, rep.KeptRate, rep.RateNote, c.kept)
		}
	}
}

func TestRateNoteNamesBothCauses(t *testing.T) {
	slow := resultAfter(OK, 0, 1)
	slow.Sent += time.Second
	rep := reportOf(t, slow, Result{Outcome: Dropped})
	wantError(t, errors.New(rep.RateNote), "dropped by the generator", "; send lag")
}
