package loadgen

import (
	"fmt"
	"strings"
)

// Report sums up a run. Times are seconds of scenario time, rates are per second
// of it, except where a name says wall. As JSON its keys are stable and its
// numbers finite; a number without any sample is 0, and the counts beside it
// tell.
type Report struct {
	Arrivals  int             `json:"arrivals"`   // sent or dropped; the outcomes add up to it
	Admitted  int             `json:"admitted"`   // ok, error and truncated
	ByOutcome map[Outcome]int `json:"by_outcome"` // every outcome is present
	ByStatus  map[string]int  `json:"by_status"`  // of the last response of each arrival
	ByReason  map[string]int  `json:"by_reason"`  // of arrivals that ended refused; "none" without one
	ByCause   map[Cause]int   `json:"by_cause"`   // of errors

	Requests     int   `json:"requests"`                     // HTTP requests, retries included
	Refusals     int   `json:"refusals"`                     // refused responses, retried ones included
	NoReason     int   `json:"refusals_without_reason"`      // of Refusals
	NoRetryAfter int   `json:"refusals_without_retry_after"` // of Refusals: none, or not 1 to 60 whole seconds
	Bytes        int64 `json:"response_bytes"`

	// Turnaround of whole responses, from the intended arrival. A task that timed
	// out counts with the time after which it was given up.
	Turnaround Quantiles `json:"turnaround"`
	SLO        float64   `json:"slo_s"`
	Late       int       `json:"late"`       // admitted that ended after the SLO, in whatever way
	LateShare  float64   `json:"late_share"` // of Admitted
	Bad        int       `json:"bad"`        // admitted that were late, or no ok
	BadShare   float64   `json:"bad_share"`  // of Admitted

	Speed           float64 `json:"speed"`               // scenario seconds in one of the wall clock
	Span            float64 `json:"span_s"`              // from the first intended arrival to the last
	IntendedRate    float64 `json:"intended_rate_per_s"` // over Span
	AchievedRate    float64 `json:"achieved_rate_per_s"` // of arrivals as they were really sent
	WallRate        float64 `json:"wall_rate_per_s"`     // the achieved rate on the wall clock
	PeakOutstanding int     `json:"peak_outstanding"`

	SendLag      Quantiles `json:"send_lag"`
	SendLagBound float64   `json:"send_lag_bound_s"`
	KeptRate     bool      `json:"kept_rate"` // no drops, and the send lag's p99 within its bound
	RateNote     string    `json:"rate_note"` // why the rate was not kept; empty when it was
	Cancelled    bool      `json:"cancelled"` // the run was ended before its source
}

// Quantiles are exact, by nearest rank, in seconds.
type Quantiles struct {
	Count int     `json:"count"`
	P50   float64 `json:"p50_s"`
	P95   float64 `json:"p95_s"`
	P99   float64 `json:"p99_s"`
	Max   float64 `json:"max_s"`
}

// setRateKept decides whether the generator did what it was asked to.
func (r *Report) setRateKept() {
	var why []string
	if n := r.ByOutcome[Dropped]; n > 0 {
		why = append(why, fmt.Sprintf("%d of %d arrivals were dropped by the generator: raise MaxOutstanding", n, r.Arrivals))
	}
	if r.SendLag.P99 > r.SendLagBound {
		why = append(why, fmt.Sprintf("send lag p99 %.3f s is over %.3f s: lower the rate or the speed", r.SendLag.P99, r.SendLagBound))
	}
	r.RateNote = strings.Join(why, "; ")
	r.KeptRate = len(why) == 0
}
