package loadgen

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Report sums up a run. Times are seconds of scenario time. A number without any
// sample is 0.
type Report struct {
	Arrivals  int             // sent or dropped; the outcomes add up to it
	Admitted  int             // ok, error and truncated
	ByOutcome map[Outcome]int // every outcome is present
	ByReason  map[string]int  // of arrivals that ended refused; "none" without one
	ByCause   map[Cause]int   // of errors

	Requests     int // HTTP requests, retries included
	Refusals     int // refused responses, retried ones included
	NoReason     int // of Refusals
	NoRetryAfter int // of Refusals: none, or not 1 to 59 whole seconds

	// Turnaround of whole responses, from the intended arrival. A task that timed
	// out counts with the time after which it was given up.
	Turnaround Quantiles
	Late       int // admitted that ended after the SLO, in whatever way

	SendLag   Quantiles
	KeptRate  bool   // no drops, and the send lag's p99 within its bound
	RateNote  string // why the rate was not kept; empty when it was
	Cancelled bool   // the run was ended before its source
}

// Quantiles are exact, by nearest rank, in seconds.
type Quantiles struct {
	Count              int
	P50, P95, P99, Max float64
}

// aggregator gathers results. It belongs to one goroutine.
type aggregator struct {
	cfg         Config
	totals      Report
	turnarounds []time.Duration
	lags        []time.Duration
}

// aggregate tallies all results and passes each to the observer.
func aggregate(cfg Config, results <-chan Result) *aggregator {
	t := newAggregator(cfg)
	for r := range results {
		t.add(r)
		if cfg.Observe != nil {
			cfg.Observe(r)
		}
	}
	return t
}

func newAggregator(cfg Config) *aggregator {
	t := &aggregator{cfg: cfg, totals: Report{ByOutcome: map[Outcome]int{}, ByReason: map[string]int{}, ByCause: map[Cause]int{}}}
	for _, o := range outcomes {
		t.totals.ByOutcome[o] = 0
	}
	return t
}

func (t *aggregator) add(r Result) {
	sum := &t.totals
	sum.Arrivals++
	sum.ByOutcome[r.Outcome]++
	if r.Outcome == Dropped {
		return
	}
	t.lags = append(t.lags, max(r.Sent-r.Intended, 0))
	sum.Requests += r.Attempts
	sum.Refusals += r.Refusals
	sum.NoReason += r.NoReason
	sum.NoRetryAfter += r.NoRetryAfter
	switch r.Outcome {
	case Refused:
		sum.ByReason[cmp.Or(r.Reason, "none")]++
	case Failed:
		sum.ByCause[r.Cause]++
		t.addAdmitted(r)
	case OK, Truncated:
		t.addAdmitted(r)
	}
}

// addAdmitted counts lateness. A task that timed out took at least this long, so
// it belongs among the turnarounds: leaving out the slowest would flatter them.
func (t *aggregator) addAdmitted(r Result) {
	t.totals.Admitted++
	if r.Turnaround() > t.cfg.SLO {
		t.totals.Late++
	}
	if r.Outcome == OK || r.Cause == Timeout {
		t.turnarounds = append(t.turnarounds, r.Turnaround())
	}
}

// report closes the tally, and decides whether the generator kept the requested rate.
func (t *aggregator) report(cancelled bool) *Report {
	r := &t.totals
	r.Cancelled = cancelled
	r.Turnaround, r.SendLag = quantiles(t.turnarounds), quantiles(t.lags)
	var why []string
	if n := r.ByOutcome[Dropped]; n > 0 {
		why = append(why, fmt.Sprintf("%d of %d arrivals were dropped by the generator: raise MaxOutstanding", n, r.Arrivals))
	}
	if bound := maxSendLag.Seconds() * t.cfg.Speed; r.SendLag.P99 > bound {
		why = append(why, fmt.Sprintf("send lag p99 %.3f s is over %.3f s: lower the rate or the speed", r.SendLag.P99, bound))
	}
	r.RateNote = strings.Join(why, "; ")
	r.KeptRate = len(why) == 0
	return r
}

func quantiles(d []time.Duration) Quantiles {
	of := func(q float64) float64 { return Quantile(d, q).Seconds() }
	return Quantiles{Count: len(d), P50: of(0.50), P95: of(0.95), P99: of(0.99), Max: of(1)}
}

// Quantile is the smallest value that is not exceeded by at least the share q of all,
// 0 without values. It sorts its argument.
func Quantile(all []time.Duration, q float64) time.Duration {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[rank(len(all), q)]
}

// rank is the index of the nearest-rank quantile q among n > 0 sorted values.
func rank(n int, q float64) int {
	// q·n in floating point can land just above a whole number (0.95·20).
	return min(max(int(math.Ceil(q*float64(n)-1e-9))-1, 0), n-1)
}
