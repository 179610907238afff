package demo

import (
	"fmt"
	"maps"
	"time"

	"headgate/internal/format"
	"headgate/internal/loadgen"
)

// window is the period of the live 95th percentile.
const window = 60 * time.Second

// State is the state of a demo at one moment.
type State struct {
	At             time.Duration // scenario time
	Phase          Phase
	Gated, Ungated Reading
	DrainEstimate  time.Duration // until the backlogs have drained, roughly
	Outcome        Outcome       // empty while the demo goes on
	Alerts         *AlertState   // nil without Slack
}

// Reading is the state of one side. Times are scenario time.
type Reading struct {
	Arrivals int            // sent so far
	Admitted int            // of Arrivals, those that were not refused at once
	InFlight int            // as the endpoint sees it
	Queued   int            // sent, and not seen by the endpoint
	Oldest   time.Duration  // since the oldest of them should have been sent
	P95      time.Duration  // turnaround of admitted tasks that ended in the last 60 s
	Ended    int            // number of those; without any, P95 is undefined
	InTime   int            // answered within the SLO
	OverSLO  int            // over the SLO, ended or not
	Refused  map[string]int // by reason, including deadline_passed
	Depth    []Step         // queued tasks over time
}

// TotalRefused is the number of refusals for any reason.
func (r Reading) TotalRefused() int {
	n := 0
	for _, k := range r.Refused {
		n += k
	}
	return n
}

// newReading takes a reading at now.
func newReading(tasks []task, slo, now time.Duration) Reading {
	c := countTasks(tasks, slo, now)
	r := Reading{
		Arrivals: c.Arrivals, Admitted: c.Admitted, Queued: c.queued, Oldest: c.oldest, InTime: c.InTime, OverSLO: c.overSLO,
		Refused: maps.Clone(c.ByReason), Depth: queueDepth(tasks, slo, now),
	}
	if c.DeadlinePassed > 0 {
		r.Refused[deadlineReason] = c.DeadlinePassed
	}
	ended := recentTurnarounds(tasks, slo, now)
	r.Ended, r.P95 = len(ended), loadgen.Quantile(ended, 0.95)
	return r
}

// recentTurnarounds are the turnarounds of admitted tasks that ended in the window up
// to now.
func recentTurnarounds(tasks []task, slo, now time.Duration) []time.Duration {
	var out []time.Duration
	for _, t := range tasks {
		if t.status(slo).answered() && t.ended <= now && t.ended > now-window {
			out = append(out, t.ended-t.intended)
		}
	}
	return out
}

// Outcome says how a demo ended.
type Outcome string

// The outcomes.
const (
	Complete    Outcome = "complete"    // everything was answered
	Interrupted Outcome = "interrupted" // a signal or a failure ended it
	DrainLimit  Outcome = "drain_limit" // the backlog took too long to drain
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
	// Slack sums up alerting on the gated side; absent without it.
	Slack *AlertSummary `json:"slack,omitempty"`
	Notes []string      `json:"notes"` // the result in sentences

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
	DeadlinePassed int            `json:"deadline_passed"` // admitted, and left the queue unserved
	InTime         int            `json:"in_time"`         // answered within the SLO
	Late           int            `json:"late"`            // answered after it
	Failed         int            `json:"failed"`          // admitted, and answered with an error
	Unfinished     int            `json:"unfinished"`      // open when the demo ended
	UnfinishedOver int            `json:"unfinished_over_slo"`

	// Turnaround of admitted tasks that have ended, from their intended arrival to
	// the last byte of the answer.
	Turnaround Quantiles `json:"turnaround"`
	MaxQueue   int       `json:"worst_queue"` // most tasks queued at one time
	// EmptyAfter is the time from the end of the burst, or of the load without one,
	// until the queue was empty; null if that was not observed.
	EmptyAfter *float64 `json:"queue_empty_after_burst_s"`
	// PerMinute is InTime divided by the minutes up to the last answer.
	PerMinute    float64 `json:"in_time_per_minute"`
	PeakInFlight int     `json:"endpoint_peak_in_flight"` // as the endpoint saw it
	// RetryMin and RetryMax bound the Retry-After of refusals; 0 without any.
	RetryMin float64 `json:"retry_after_min_wall_s"`
	RetryMax float64 `json:"retry_after_max_wall_s"`
	KeptRate bool    `json:"kept_rate"` // the generator sent all arrivals on time
	RateNote string  `json:"rate_note"` // why not; empty when it did
}

// Quantiles are by nearest rank, in seconds; all 0 if Count is 0.
type Quantiles struct {
	Count int     `json:"count"`
	P50   float64 `json:"p50_s"`
	P95   float64 `json:"p95_s"`
	Max   float64 `json:"max_s"`
}

// missedSLO is the number of admitted tasks that missed the SLO or certainly will.
func (s Side) missedSLO() int { return s.Late + s.DeadlinePassed + s.Failed + s.UnfinishedOver }

// summary sums up both sides at now; cause is why the load ended, if it ended early.
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
		if r := load.reports[i]; r != nil {
			sides[i].KeptRate, sides[i].RateNote = r.KeptRate, r.RateNote
		}
	}
	s.Notes = s.notes()
	return s
}

// summarize sums up the tasks of one side as they are at now.
func summarize(tasks []task, steps []Step, p Plan, now time.Duration) Side {
	c := countTasks(tasks, p.SLO, now)
	s := c.Side
	s.MaxQueue = maxDepth(steps)
	s.Turnaround = Quantiles{
		Count: len(c.turnarounds),
		P50:   loadgen.Quantile(c.turnarounds, 0.50).Seconds(),
		P95:   loadgen.Quantile(c.turnarounds, 0.95).Seconds(),
		Max:   loadgen.Quantile(c.turnarounds, 1).Seconds(),
	}
	if c.lastEnd > 0 {
		s.PerMinute = float64(s.InTime) / c.lastEnd.Minutes()
	}
	if at, ok := firstEmpty(steps, p.recoveryStart(), now); ok {
		after := (at - p.recoveryStart()).Seconds()
		s.EmptyAfter = &after
	}
	return s
}

// taskCounts are the counters of a Side, and what else one pass over its tasks yields.
type taskCounts struct {
	Side
	overSLO, queued int
	oldest          time.Duration   // of the queued tasks
	turnarounds     []time.Duration // of admitted tasks that have ended
	lastEnd         time.Duration
}

// countTasks counts the tasks of one side as they are at now.
func countTasks(tasks []task, slo, now time.Duration) taskCounts {
	c := taskCounts{Side: Side{ByReason: map[string]int{}}}
	for _, t := range tasks {
		status := t.status(slo)
		switch status {
		case notSent:
			continue
		case refused:
			c.Refused++
			c.ByReason[t.refusalReason()]++
			c.addRetryAfter(t.retryAfter.Seconds())
		case deadlinePassed:
			c.DeadlinePassed++
		case inTime:
			c.InTime++
		case late:
			c.Late++
		case failed:
			c.Failed++
		default:
			c.Unfinished++
		}
		c.Arrivals++
		if status.answered() {
			c.turnarounds = append(c.turnarounds, t.ended-t.intended)
			c.lastEnd = max(c.lastEnd, t.ended)
		}
		if status != refused && t.overSLO(slo, now) {
			c.overSLO++
			if status == pending || status == cancelled {
				c.UnfinishedOver++
			}
		}
		if status == pending && t.started == unset {
			c.queued++
			c.oldest = max(c.oldest, now-t.intended)
		}
	}
	c.Admitted = c.Arrivals - c.Refused
	return c
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

// notes are the result in a few sentences.
func (s *Summary) notes() []string {
	out := s.loadNotes()
	if s.Slack != nil {
		out = append(out, s.Slack.notes(s.plan.Burst != nil)...)
	}
	return out
}

func (s *Summary) loadNotes() (out []string) {
	addf := func(text string, args ...any) { out = append(out, fmt.Sprintf(text, args...)) }
	g, u := s.Gated, s.Ungated
	if s.Outcome == Interrupted && s.Elapsed < s.Duration {
		addf("Stopped after %.0f of %.0f s, so the result is incomplete.", s.Elapsed, s.Duration)
	}
	if g.Turnaround.Count+u.Turnaround.Count == 0 {
		addf("No task had been answered yet.")
		return out
	}
	quiet := g.Refused == 0 && g.missedSLO() == 0 && u.missedSLO() == 0
	switch {
	case quiet && s.Outcome == Complete:
		addf("There was nothing to refuse: with %s every task was answered in time.", format.Plural(s.Workers, "worker"))
	case quiet:
		addf("Until then no task was refused, and none was over the SLO.")
	default:
		out = append(out, s.gatedNote(), s.ungatedNote())
		switch {
		case g.InTime > u.InTime:
			addf("Answered in time: %d with the gate, %d without.", g.InTime, u.InTime)
		case g.InTime < u.InTime:
			addf("Fewer tasks were answered in time with the gate (%d) than without (%d): for a short overload, refusing has a cost.", g.InTime, u.InTime)
		}
		if missed := g.Late + g.DeadlinePassed + g.UnfinishedOver; missed > 0 {
			addf("%d of the admitted tasks were late or left the queue unserved with the gate (%.0f %%): the policy checks the queue at arrival only, and admitted tasks keep ageing.",
				missed, 100*float64(missed)/float64(max(g.Admitted, 1)))
		}
	}
	if s.Outcome == DrainLimit {
		addf("The backlog did not drain in time: %d tasks with the gate and %d without were still open after %.0f s.", g.Unfinished, u.Unfinished, s.Elapsed)
	}
	if n := g.Failed + u.Failed; n > 0 {
		addf("%s failed, which the demo does not expect.", format.Plural(n, "call"))
	}
	for _, side := range []Side{g, u} {
		if side.RateNote != "" {
			addf("This machine did not keep the pace, so the numbers are approximate: %s.", side.RateNote)
			break
		}
	}
	return out
}

func (s *Summary) gatedNote() string {
	g := s.Gated
	text := fmt.Sprintf("With the gate, %s refused at once", shareText(g.Refused, g.Arrivals))
	if g.Turnaround.Count == 0 {
		return text + "."
	}
	if g.Turnaround.P95 <= s.SLO {
		return text + fmt.Sprintf(", and the p95 turnaround of admitted tasks stayed within the SLO: %.0f of %.0f s.", g.Turnaround.P95, s.SLO)
	}
	return text + fmt.Sprintf(", and the p95 turnaround of admitted tasks exceeded the SLO of %.0f s: %.0f s.", s.SLO, g.Turnaround.P95)
}

func (s *Summary) ungatedNote() string {
	u := s.Ungated
	switch {
	case u.missedSLO() == 0 && u.Unfinished > 0:
		return fmt.Sprintf("Without it the queue grew to %d, and no task was over the SLO yet.", u.MaxQueue)
	case u.missedSLO() == 0:
		return fmt.Sprintf("Without it the queue grew to %d, and every task was still answered in time.", u.MaxQueue)
	}
	text := fmt.Sprintf("Without it the same arrivals made a queue of up to %d, and %s over the SLO", u.MaxQueue, shareText(u.missedSLO(), u.Admitted))
	if u.Turnaround.Count == 0 {
		return text + "."
	}
	return text + fmt.Sprintf(" (p95 %.0f s).", u.Turnaround.P95)
}

// shareText is "3 of 10 (30 %) were".
func shareText(n, all int) string {
	verb := "were"
	if n == 1 {
		verb = "was"
	}
	if all == 0 {
		return "none was"
	}
	return fmt.Sprintf("%d of %d (%.0f %%) %s", n, all, 100*float64(n)/float64(all), verb)
}
