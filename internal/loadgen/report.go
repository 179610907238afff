package loadgen

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
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

// setRateKept decides whether the generator kept the requested rate.
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

// maxReasons bounds the distinct reasons of a report: they come from outside.
const maxReasons = 64

// aggregator gathers results. It belongs to one goroutine.
type aggregator struct {
	cfg         Config
	totals      Report
	turnarounds []time.Duration
	lags        []time.Duration
	intended    timeRange
	sent        timeRange
	peak        int
}

// timeRange is the extent of a series of times.
type timeRange struct {
	n           int
	first, last time.Duration
}

func (s *timeRange) add(at time.Duration) {
	if s.n == 0 {
		s.first, s.last = at, at
	}
	s.n++
	s.first, s.last = min(s.first, at), max(s.last, at)
}

func (s *timeRange) length() time.Duration { return s.last - s.first }

// rate is gaps per second between the first and the last; 0 without a length.
func (s *timeRange) rate() float64 {
	return ratio(float64(s.n-1), s.length().Seconds())
}

// ratio is 0 when it has no meaning.
func ratio(a, b float64) float64 {
	if b <= 0 {
		return 0
	}
	return a / b
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
	t := &aggregator{cfg: cfg, totals: Report{
		ByOutcome: make(map[Outcome]int, len(outcomes)),
		ByStatus:  map[string]int{},
		ByReason:  map[string]int{},
		ByCause:   map[Cause]int{},
	}}
	for _, o := range outcomes {
		t.totals.ByOutcome[o] = 0
	}
	return t
}

func (t *aggregator) add(r Result) {
	t.totals.Arrivals++
	t.totals.ByOutcome[r.Outcome]++
	t.intended.add(r.Intended)
	if r.Outcome == Dropped {
		return
	}
	t.sent.add(r.Sent)
	t.lags = append(t.lags, r.SendLag())
	t.totals.Requests += r.Attempts
	t.totals.Refusals += r.Refusals
	t.totals.NoReason += r.NoReason
	t.totals.NoRetryAfter += r.NoRetryAfter
	t.totals.Bytes += r.Bytes
	if r.Status != 0 {
		t.totals.ByStatus[strconv.Itoa(r.Status)]++
	}
	if r.Outcome == Refused {
		t.addReason(r.Reason)
	}
	if r.Outcome == Failed {
		t.totals.ByCause[r.Cause]++
	}
	if r.admitted() {
		t.addAdmitted(r)
	}
}

func (t *aggregator) addReason(reason string) {
	if reason == "" {
		reason = "none"
	}
	if _, known := t.totals.ByReason[reason]; !known && len(t.totals.ByReason) >= maxReasons {
		reason = "other"
	}
	t.totals.ByReason[reason]++
}

// addAdmitted counts lateness. A task that timed out took at least this long, so
// it belongs among the turnarounds: leaving out the slowest would flatter them.
func (t *aggregator) addAdmitted(r Result) {
	late := r.Turnaround() > t.cfg.SLO
	t.totals.Admitted++
	if late {
		t.totals.Late++
	}
	if late || r.Outcome != OK {
		t.totals.Bad++
	}
	if r.Outcome == OK || r.Cause == Timeout {
		t.turnarounds = append(t.turnarounds, r.Turnaround())
	}
}

// report closes the tally.
func (t *aggregator) report(cancelled bool) *Report {
	r := &t.totals
	r.Cancelled = cancelled
	r.PeakOutstanding = t.peak
	r.Turnaround = quantiles(t.turnarounds)
	r.SLO = t.cfg.SLO.Seconds()
	r.LateShare = ratio(float64(r.Late), float64(r.Admitted))
	r.BadShare = ratio(float64(r.Bad), float64(r.Admitted))
	r.Speed = t.cfg.Speed
	r.Span = t.intended.length().Seconds()
	r.IntendedRate, r.AchievedRate = t.intended.rate(), t.sent.rate()
	r.WallRate = r.AchievedRate * t.cfg.Speed
	r.SendLag = quantiles(t.lags)
	r.SendLagBound = t.cfg.MaxSendLag.Seconds()
	r.setRateKept()
	return r
}

// quantiles sorts its argument.
func quantiles(d []time.Duration) Quantiles {
	q := Quantiles{Count: len(d)}
	if len(d) == 0 {
		return q
	}
	slices.Sort(d)
	q.P50 = d[rank(len(d), 0.50)].Seconds()
	q.P95 = d[rank(len(d), 0.95)].Seconds()
	q.P99 = d[rank(len(d), 0.99)].Seconds()
	q.Max = d[len(d)-1].Seconds()
	return q
}

// rank is the index of the nearest-rank quantile q among n > 0 sorted values:
// the smallest value that at least the share q of them does not exceed.
func rank(n int, q float64) int {
	// q·n in floating point can land just above a whole number (0.95·20).
	return min(max(int(math.Ceil(q*float64(n)-1e-9))-1, 0), n-1)
}
