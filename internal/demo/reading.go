package demo

import (
	"math"
	"slices"
	"time"
)

// window is the time over which the live 95th percentile looks back.
const window = 60 * time.Second

// State is what there is to see at one moment.
type State struct {
	At             time.Duration // scenario time
	Phase          Phase
	Gated, Ungated Reading
	DrainEstimate  time.Duration // how long the backlogs will take, about
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
	Ended    int            // how many those were; P95 says nothing when 0
	InTime   int            // answered within the SLO
	OverSLO  int            // over the SLO, ended or not
	Refused  map[string]int // by reason; those that gave up waiting included
	Depth    []Step         // tasks that waited, over time
}

// TotalRefused is the number of refusals, whatever the reason.
func (r Reading) TotalRefused() int {
	n := 0
	for _, k := range r.Refused {
		n += k
	}
	return n
}

// newReading takes a reading at now.
func newReading(tasks []task, slo, now time.Duration) Reading {
	r := Reading{Refused: map[string]int{}, Depth: queueDepth(tasks, slo, now)}
	for _, t := range tasks {
		f := t.status(slo)
		if f == notSent {
			continue
		}
		r.Arrivals++
		r.count(t, f)
		if f == refused {
			continue
		}
		r.Admitted++
		if t.overSLO(slo, now) {
			r.OverSLO++
		}
		if f == pending && t.started == unset {
			r.Queued++
			r.Oldest = max(r.Oldest, now-t.intended)
		}
	}
	ended := recentTurnarounds(tasks, slo, now)
	r.Ended, r.P95 = len(ended), quantile(ended, 0.95)
	return r
}

// recentTurnarounds are the turnarounds of the admitted tasks that ended in the window up
// to now.
func recentTurnarounds(tasks []task, slo, now time.Duration) []time.Duration {
	var out []time.Duration
	for _, t := range tasks {
		switch t.status(slo) {
		case inTime, late, failed, deadlinePassed:
			if t.ended <= now && t.ended > now-window {
				out = append(out, t.ended-t.intended)
			}
		}
	}
	return out
}

func (r *Reading) count(t task, f taskStatus) {
	switch f {
	case inTime:
		r.InTime++
	case refused, deadlinePassed:
		r.Refused[t.refusalReason()]++
	}
}

func (t task) refusalReason() string {
	if t.reason == "" {
		return "none"
	}
	return t.reason
}

// overSLO says whether a task that was let in is over the SLO. One that gave up
// has been away for all of it.
func (t task) overSLO(slo, now time.Duration) bool {
	if t.ended != unset {
		now = t.ended
	}
	return t.status(slo) == deadlinePassed || now-t.intended > slo
}

// quantile is the smallest value that at least the share q does not exceed, 0
// without values. It sorts its argument.
func quantile(all []time.Duration, q float64) time.Duration {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	// q·n in floating point can land just above a whole number (0.95·20).
	rank := int(math.Ceil(q*float64(len(all)) - 1e-9))
	return all[min(max(rank, 1), len(all))-1]
}
