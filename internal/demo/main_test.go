package demo

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"headgate/internal/loadgen"
	"headgate/internal/modelstub"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// golden compares text with a file in testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

// sec is a scenario time in seconds.
func sec(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// answeredTask is a task that waited and was then served.
func answeredTask(intended, started, ended float64) task {
	return task{intended: sec(intended), sent: sec(intended), started: sec(started), ended: sec(ended), outcome: loadgen.OK}
}

// refusedTask is a task that was refused at its arrival.
func refusedTask(at float64, reason string) task {
	return task{intended: sec(at), sent: sec(at), started: unset, ended: sec(at), outcome: loadgen.Refused, reason: reason, retryAfter: 2 * time.Second}
}

// waitingTask is a task that was sent and has come to nothing yet.
func waitingTask(intended float64) task {
	return task{intended: sec(intended), sent: sec(intended), started: unset, ended: unset}
}

// simulate is what the two sides would see of a script if nothing but the
// service took any time: first come first served, with the article's rule or
// without.
func simulate(s workload, p Plan, gate bool) []task {
	free := make([]time.Duration, p.Workers) // when each worker is free
	var tasks []task
	for i, a := range s.arrivals {
		t := task{intended: a.At, sent: a.At, started: unset, ended: a.At, outcome: loadgen.Refused, retryAfter: time.Second}
		t.reason = policyReason(tasks, free, a.At, p)
		if !gate || t.reason == "" {
			w := earliest(free)
			start := max(a.At, free[w])
			free[w] = start + s.serviceTimes[i]
			t = task{intended: a.At, sent: a.At, started: start, ended: free[w], outcome: loadgen.OK}
		}
		tasks = append(tasks, t)
	}
	return tasks
}

// policyReason is the article's sentence.
func policyReason(tasks []task, free []time.Duration, now time.Duration, p Plan) string {
	queued, oldest := 0, time.Duration(0)
	for _, t := range tasks {
		if t.started > now {
			queued++
			oldest = max(oldest, now-t.intended)
		}
	}
	switch {
	case oldest > p.MaxQueueAge:
		return "queue_age"
	case free[earliest(free)] > now && queued > p.Depth:
		return "queue_depth"
	}
	return ""
}

func earliest(free []time.Duration) int {
	first := 0
	for i, at := range free {
		if at < free[first] {
			first = i
		}
	}
	return first
}

// until is what had been seen of tasks up to a time.
func until(tasks []task, now time.Duration) []task {
	var out []task
	for _, t := range tasks {
		if t.sent > now {
			t.sent = unset
		}
		if t.started > now {
			t.started = unset
		}
		if t.ended > now {
			t.ended = unset
		}
		out = append(out, t)
	}
	return out
}

// simulation is the article's scenario, simulated.
type simulation struct {
	plan  Plan
	sides [2][]task
}

func newSimulation(t *testing.T, o Options) simulation {
	t.Helper()
	s, err := newWorkload(o)
	if err != nil {
		t.Fatal(err)
	}
	p := newPlan(o, s)
	return simulation{plan: p, sides: [2][]task{simulate(s, p, true), simulate(s, p, false)}}
}

// at is the state that would be shown at a time.
func (w simulation) at(now time.Duration) State {
	s := State{At: now, Phase: w.plan.Phase(now), DrainEstimate: 90 * time.Second}
	for i, r := range []*Reading{&s.Gated, &s.Ungated} {
		tasks := until(w.sides[i], now)
		*r = newReading(tasks, w.plan.SLO, now)
		for _, t := range tasks {
			if t.started != unset && t.ended == unset {
				r.InFlight++
			}
		}
	}
	return s
}

// summary is what would be summed up at a time.
func (w simulation) summary(now time.Duration, ending Outcome) *Summary {
	p := w.plan
	s := &Summary{
		Outcome: ending, Elapsed: now.Seconds(), Speed: p.Speed, Workers: p.Workers, Service: p.Service, Seed: p.Seed,
		SLO: p.SLO.Seconds(), MaxQueueAge: p.MaxQueueAge.Seconds(), Planned: p.Arrivals, Duration: p.Duration.Seconds(),
		BaseLoad: p.Load(1), BurstLoad: p.Load(2), MeanService: p.MeanService.Seconds(), plan: p,
	}
	for i, side := range []*Side{&s.Gated, &s.Ungated} {
		s.tasks[i] = until(w.sides[i], now)
		s.depths[i] = queueDepth(s.tasks[i], p.SLO, now)
		*side = summarize(s.tasks[i], s.depths[i], p, now)
		side.PeakInFlight, side.KeptRate = p.Workers, true
	}
	s.Notes = s.notes()
	return s
}

// shortOptions are a scenario that is over soon: a third of a second of load on the wall
// clock.
func shortOptions() Options {
	o := DefaultOptions()
	o.Speed, o.Workers, o.Service = 100, 4, modelstub.Fixed(time.Second)
	o.Profile.Duration, o.Profile.BaseRate, o.Profile.Bursts = 30*time.Second, 1, nil
	return o
}
