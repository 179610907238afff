package demo

import (
	"time"

	"headgate/internal/loadgen"
)

// Outcome says how a demo came to its end.
type Outcome string

// The endings.
const (
	Complete    Outcome = "complete"    // everything was answered
	Interrupted Outcome = "interrupted" // somebody or something ended it
	DrainLimit  Outcome = "drain_limit" // the backlog took too long
)

// Summary sums up a demo. Times are seconds of scenario time unless a name says
// wall. As JSON its keys are stable and its numbers finite.
type Summary struct {
	Outcome     Outcome `json:"ending"`
	Elapsed     float64 `json:"elapsed_s"`
	Speed       float64 `json:"speed"` // scenario seconds in one of the wall clock
	Workers     int     `json:"workers"`
	Service     string  `json:"service"`
	Seed        uint64  `json:"seed"`
	SLO         float64 `json:"slo_s"`
	MaxQueueAge float64 `json:"max_queue_age_s"`
	Planned     int     `json:"planned_arrivals"`
	Duration    float64 `json:"duration_s"`     // of the load
	BaseLoad    float64 `json:"base_load"`      // share of capacity outside the burst
	BurstLoad   float64 `json:"burst_load"`     // the same in the burst; 0 without one
	MeanService float64 `json:"mean_service_s"` // expected
	Gated       Side    `json:"gated"`
	Ungated     Side    `json:"ungated"`
	// Slack is what was told about the gated side; absent if nobody was to be told.
	Slack *AlertSummary `json:"slack,omitempty"`
	Notes []string      `json:"notes"` // what one has seen, in sentences

	plan   Plan
	depths [2][]Step
	tasks  [2][]task
}

// Side sums up one side. Arrivals are Refused + DeadlinePassed + InTime + Late +
// Failed + Unfinished.
type Side struct {
	Arrivals       int            `json:"arrivals"`
	Admitted       int            `json:"admitted"` // Arrivals without Refused
	Refused        int            `json:"refused"`  // at once
	ByReason       map[string]int `json:"refused_by_reason"`
	DeadlinePassed int            `json:"deadline_passed"` // let in, and given up in the queue
	InTime         int            `json:"in_time"`         // answered within the SLO
	Late           int            `json:"late"`            // answered after it
	Failed         int            `json:"failed"`          // let in, and not answered as it should be
	Unfinished     int            `json:"unfinished"`      // open when the demo ended
	UnfinishedOver int            `json:"unfinished_over_slo"`

	// Turnaround of admitted tasks that have ended, from when they should have
	// been sent to the last byte of the answer.
	Turnaround Quantiles `json:"turnaround"`
	MaxQueue   int       `json:"worst_queue"` // most tasks that waited at one time
	// EmptyAfter is how long after the burst (or the load, when there was none)
	// nobody waited any more; null when that was not seen.
	EmptyAfter *float64 `json:"queue_empty_after_burst_s"`
	// PerMinute is InTime by the minutes up to the last answer.
	PerMinute    float64 `json:"in_time_per_minute"`
	PeakInFlight int     `json:"endpoint_peak_in_flight"` // as the endpoint saw it
	// RetryMin and RetryMax bound the Retry-After of refusals; 0 without any.
	RetryMin float64 `json:"retry_after_min_wall_s"`
	RetryMax float64 `json:"retry_after_max_wall_s"`
	KeptRate bool    `json:"kept_rate"` // the generator sent everything on time
	RateNote string  `json:"rate_note"` // why not; empty when it did
}

// Quantiles are by nearest rank, in seconds; 0 when Count is.
type Quantiles struct {
	Count int     `json:"count"`
	P50   float64 `json:"p50_s"`
	P95   float64 `json:"p95_s"`
	Max   float64 `json:"max_s"`
}

// missedSLO is the number of admitted tasks that broke the promise or surely will.
func (s Side) missedSLO() int { return s.Late + s.DeadlinePassed + s.Failed + s.UnfinishedOver }

func (d *Demo) summary(now time.Duration, load *playback, cause error) *Summary {
	p := d.plan
	s := &Summary{
		Outcome: Complete, Elapsed: now.Seconds(), Speed: p.Speed, Workers: p.Workers, Service: p.Service, Seed: p.Seed,
		SLO: p.SLO.Seconds(), MaxQueueAge: p.MaxQueueAge.Seconds(), Planned: p.Arrivals, Duration: p.Duration.Seconds(),
		BaseLoad: p.Load(1), MeanService: p.MeanService.Seconds(), plan: p,
	}
	if p.Burst != nil {
		s.BurstLoad = p.Load(p.Burst.Multiple)
	}
	switch {
	case load.cancelled() && cause == errDrainLimit:
		s.Outcome = DrainLimit
	case load.cancelled():
		s.Outcome = Interrupted
	}
	sides := [2]*Side{&s.Gated, &s.Ungated}
	for i, y := range d.sides() {
		s.tasks[i] = y.tracker.snapshot()
		s.depths[i] = queueDepth(s.tasks[i], p.SLO, now)
		*sides[i] = summarize(s.tasks[i], s.depths[i], p, now)
		sides[i].PeakInFlight = y.stub.Stats().PeakInFlight
		sides[i].setRate(load.reports[i])
	}
	s.Notes = s.notes()
	return s
}

func (s *Side) setRate(r *loadgen.Report) {
	if r != nil {
		s.KeptRate, s.RateNote = r.KeptRate, r.RateNote
	}
}

// summarize counts the tasks of one side, as they are at now.
func summarize(tasks []task, steps []Step, p Plan, now time.Duration) Side {
	s := Side{ByReason: map[string]int{}, MaxQueue: maxDepth(steps)}
	var turnarounds []time.Duration
	var last time.Duration
	for _, t := range tasks {
		f := t.status(p.SLO)
		s.count(t, f, p.SLO, now)
		switch f {
		case inTime, late, failed, deadlinePassed:
			turnarounds = append(turnarounds, t.ended-t.intended)
			last = max(last, t.ended)
		}
	}
	s.Admitted = s.Arrivals - s.Refused
	s.Turnaround = Quantiles{
		Count: len(turnarounds),
		P50:   quantile(turnarounds, 0.50).Seconds(),
		P95:   quantile(turnarounds, 0.95).Seconds(),
		Max:   quantile(turnarounds, 1).Seconds(),
	}
	if last > 0 {
		s.PerMinute = float64(s.InTime) / last.Minutes()
	}
	if at, ok := firstEmpty(steps, p.recoveryStart(), now); ok {
		after := (at - p.recoveryStart()).Seconds()
		s.EmptyAfter = &after
	}
	return s
}

func (s *Side) count(t task, f taskStatus, slo, now time.Duration) {
	if f == notSent {
		return
	}
	s.Arrivals++
	switch f {
	case refused:
		s.Refused++
		s.ByReason[t.refusalReason()]++
		s.addRetryAfter(t.retryAfter.Seconds())
	case deadlinePassed:
		s.DeadlinePassed++
	case inTime:
		s.InTime++
	case late:
		s.Late++
	case failed:
		s.Failed++
	default:
		s.Unfinished++
		if t.overSLO(slo, now) {
			s.UnfinishedOver++
		}
	}
}

func (s *Side) addRetryAfter(seconds float64) {
	if seconds <= 0 {
		return
	}
	if s.RetryMin == 0 || seconds < s.RetryMin {
		s.RetryMin = seconds
	}
	s.RetryMax = max(s.RetryMax, seconds)
}
