package loadgen

import (
	"slices"
	"strconv"
	"time"
)

// maxReasons bounds the distinct reasons of a report: they come from outside.
const maxReasons = 64

// tally gathers results. It belongs to one goroutine.
type tally struct {
	cfg         Config
	r           Report
	turnarounds []time.Duration
	lags        []time.Duration
	intended    span
	sent        span
	peak        int
}

// span is the extent of a series of times.
type span struct {
	n           int
	first, last time.Duration
}

func (s *span) add(at time.Duration) {
	if s.n == 0 {
		s.first, s.last = at, at
	}
	s.n++
	s.first, s.last = min(s.first, at), max(s.last, at)
}

func (s *span) length() time.Duration { return s.last - s.first }

// rate is gaps per second between the first and the last; 0 without a length.
func (s *span) rate() float64 {
	return ratio(float64(s.n-1), s.length().Seconds())
}

// ratio is 0 when it has no meaning.
func ratio(a, b float64) float64 {
	if b <= 0 {
		return 0
	}
	return a / b
}

// gather tallies results until there are no more, telling the observer of each.
func gather(cfg Config, results <-chan Result) *tally {
	t := newTally(cfg)
	for r := range results {
		t.add(r)
		if cfg.Observe != nil {
			cfg.Observe(r)
		}
	}
	return t
}

func newTally(cfg Config) *tally {
	t := &tally{cfg: cfg, r: Report{
		ByOutcome: make(map[Outcome]int, len(outcomes)),
		ByStatus:  map[string]int{},
		ByReason:  map[string]int{},
		ByCause:   map[Cause]int{},
	}}
	for _, o := range outcomes {
		t.r.ByOutcome[o] = 0
	}
	return t
}

func (t *tally) add(r Result) {
	t.r.Arrivals++
	t.r.ByOutcome[r.Outcome]++
	t.intended.add(r.Intended)
	if r.Outcome == Dropped {
		return
	}
	t.sent.add(r.Sent)
	t.lags = append(t.lags, r.SendLag())
	t.r.Requests += r.Attempts
	t.r.Refusals += r.Refusals
	t.r.NoReason += r.NoReason
	t.r.NoRetryAfter += r.NoRetry
	t.r.Bytes += r.Bytes
	if r.Status != 0 {
		t.r.ByStatus[strconv.Itoa(r.Status)]++
	}
	if r.Outcome == Refused {
		t.addReason(r.Reason)
	}
	if r.Outcome == Failed {
		t.r.ByCause[r.Cause]++
	}
	if r.admitted() {
		t.addAdmitted(r)
	}
}

func (t *tally) addReason(reason string) {
	if reason == "" {
		reason = "none"
	}
	if _, known := t.r.ByReason[reason]; !known && len(t.r.ByReason) >= maxReasons {
		reason = "other"
	}
	t.r.ByReason[reason]++
}

// addAdmitted counts lateness. A task that timed out took at least this long, so
// it belongs among the turnarounds: leaving out the slowest would flatter them.
func (t *tally) addAdmitted(r Result) {
	late := r.Turnaround() > t.cfg.SLO
	t.r.Admitted++
	if late {
		t.r.Late++
	}
	if late || r.Outcome != OK {
		t.r.Bad++
	}
	if r.Outcome == OK || r.Cause == Timeout {
		t.turnarounds = append(t.turnarounds, r.Turnaround())
	}
}

// report closes the tally.
func (t *tally) report(cancelled bool) *Report {
	r := &t.r
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
	r.judgeRate()
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
