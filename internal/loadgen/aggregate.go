package loadgen

import (
	"slices"
	"strconv"
	"time"
)

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

// aggregate tallies results until there are no more, telling the observer of each.
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
