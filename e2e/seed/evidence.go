package seed

import (
	"fmt"
	"math"
	"time"

	"headgate/runbooks/drill"
)

// addEvidence makes up what was seen in a run.
func (m *generator) addEvidence(r *drill.Run) {
	sc := r.Spec.Scenario
	real := func(d time.Duration) time.Duration { return time.Duration(float64(d) / r.Speed) }
	r.Recovered = time.Duration(20+m.random.IntN(70)) * time.Second
	at := r.Started
	phase := func(name drill.PhaseName, long time.Duration, note string) {
		r.Phases = append(r.Phases, drill.Phase{Name: name, Started: at, Ended: at.Add(long), Note: note})
		at = at.Add(long)
	}
	ms := time.Millisecond
	phase(drill.PhaseClaim, 12*ms, "")
	phase(drill.PhasePreflight, 35*ms, "no open page, enforce, budget 91 % left")
	phase(drill.PhaseClearCheck, 140*ms, "a canary fault was cleared in 3 ms")
	if sc.Baseline > 0 {
		phase(drill.PhaseBaseline, real(sc.Baseline), "the steady state holds")
	}
	phase(drill.PhaseInject, real(sc.Duration/2), "")
	if r.Verdict == drill.Aborted || r.Verdict == drill.Interrupted {
		r.Phases[len(r.Phases)-1].Note = "stopped"
	} else {
		phase(drill.PhaseHold, real(sc.Duration/2), "")
		r.ClearTook = time.Duration(2+m.random.IntN(60)) * ms
		phase(drill.PhaseClear, r.ClearTook, "confirmed")
		phase(drill.PhaseRecover, real(r.Recovered), "all is as before")
		phase(drill.PhaseVerdict, 9*ms, "")
	}
	r.Ended = at
	r.Injected = 20 + m.random.IntN(200)
	r.Series = m.series(r)
	m.addHypotheses(r)
	m.addMessages(r)
	for _, f := range sc.Faults {
		r.Reverts = append(r.Reverts, drill.RevertResult{What: fmt.Sprintf("fault %s on the way to upstream", f.Kind), At: at, Took: 4 * ms, OK: true, Note: "3 calls were let go"})
	}
	for _, s := range sc.Steps {
		r.Reverts = append(r.Reverts, drill.RevertResult{What: fmt.Sprintf("step %s at %s", s.Kind, s.At), At: at, Took: 2 * ms, OK: true})
	}
}

// series is what a queue in front of some workers does, reckoned roughly.
func (m *generator) series(r *drill.Run) (points []drill.Point) {
	sc := r.Spec.Scenario
	workers := float64(max(sc.Workers, 4))
	waiting, busy := 0.0, 0.0
	last := int((sc.Duration + r.Recovered) / time.Second)
	for s := -int(sc.Baseline / time.Second); s < last; s++ {
		at := time.Duration(s) * time.Second
		rate, each := sc.Arrivals.Rate, 17.5
		for _, b := range sc.Arrivals.Bursts {
			if at >= b.From && at < b.To {
				rate *= b.Multiple
			}
		}
		for _, f := range sc.Faults {
			if at >= f.From && at < f.From+f.For {
				each += f.Delay.Seconds()
			}
		}
		if at > sc.Duration {
			rate = sc.Arrivals.Rest
		}
		come := int(rate * (0.4 + 1.2*m.random.Float64()) * 1.7 * m.random.Float64() * 1.3)
		gone := min(waiting+float64(come)+busy, workers/each*(0.7+0.6*m.random.Float64()))
		refused := 0
		if age := waiting / (workers / each); age > 25 {
			refused = come
		}
		waiting = max(0, waiting+rate*(0.8+0.4*m.random.Float64())-float64(refused)*0.8-gone)
		busy = min(workers, rate*each)
		age := min(waiting/(workers/each), 27)
		points = append(points, drill.Point{
			At: float64(s + 1), Turnaround: 24 + age + 4*m.random.Float64(), QueueAge: age, Depth: int(waiting), InFlight: int(busy),
			Arrived: come, Served: int(gone + m.random.Float64()), Refused: refused,
		})
	}
	return points
}

// addHypotheses puts a value to each expectation. In a run that failed one does not hold.
func (m *generator) addHypotheses(r *drill.Run) {
	broken := -1
	if r.Verdict == drill.Failed {
		for broken < 0 || r.Spec.Expect[broken].Limit == 0 && m.random.IntN(8) > 0 {
			broken = m.random.IntN(len(r.Spec.Expect))
		}
	}
	for n, e := range r.Spec.Expect {
		h := drill.Hypothesis{Expectation: e, Measured: true, Value: m.passingValue(e), Evidence: "load generator and endpoint: 268 tasks, 251 calls"}
		switch {
		case n == broken && e.Compare == drill.AtLeast:
			h.Value = e.Limit * 0.85
		case n == broken:
			h.Value = m.round(e.Limit*(1.05+0.5*m.random.Float64())+0.001, e.Unit)
		case r.Verdict == drill.Inconclusive && n == 0, r.Verdict == drill.Aborted && n%2 == 0:
			h.Measured, h.Value, h.Evidence, h.Reason = false, 0, "", "too few tasks ended: 7 of 20"
		}
		if h.Measured {
			h.Passed, h.Margin = e.Holds(h.Value), e.Margin(h.Value)
		}
		if n == broken {
			r.Reason = fmt.Sprintf("%s was %s, must be %s %s", e.Measure, drill.FormatAmount(h.Value, e.Unit), e.Compare, drill.FormatAmount(e.Limit, e.Unit))
		}
		r.Hypotheses = append(r.Hypotheses, h)
	}
}

// passingValue is one that holds, mostly with something to spare.
func (m *generator) passingValue(e drill.Expectation) float64 {
	to := e.Limit
	spare := 0.08 + 0.4*m.random.Float64()
	switch e.Compare {
	case drill.AtMost:
		to = e.Limit * (1 - spare)
	case drill.AtLeast:
		to = e.Limit * (1 + spare)
	}
	return m.round(to, e.Unit)
}

// round leaves as many digits as there can be: no half tasks.
func (m *generator) round(v float64, unit string) float64 {
	if unit != drill.UnitSeconds && unit != drill.UnitRatio {
		return math.Ceil(v)
	}
	return math.Round(v*1000) / 1000
}

// addMessages makes up the messages of a drill that is about them.
func (m *generator) addMessages(r *drill.Run) {
	if r.Drill != "alert-path" && r.Drill != "overload" {
		return
	}
	incident := m.id(r.Started.Add(time.Second))
	for n, level := range []string{"warn", "page", "resolved"} {
		r.Messages = append(r.Messages, drill.Message{
			Incident: incident, Kind: []string{"post", "edit", "edit"}[n], Level: level, Channel: "#drills",
			Text:     "DRILL " + r.Name + ": the oldest task of pool default has waited for 27 s, at most 25 s\nWhat to do: nothing, it is a drill.",
			Accepted: r.Started.Add(time.Duration(n+1) * 9 * time.Second),
		})
	}
}
