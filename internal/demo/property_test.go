package demo

import (
	"math/rand/v2"
	"testing"
	"time"

	"headgate/internal/loadgen"
)

// randomTasks makes tasks of every fate, in order of arrival, as they would be
// seen at now.
func randomTasks(r *rand.Rand, now time.Duration) []task {
	outcomes := []loadgen.Outcome{loadgen.OK, loadgen.OK, loadgen.OK, loadgen.Failed, loadgen.Truncated, loadgen.Cancelled}
	reasons := []string{"queue_age", "queue_depth", "memory", deadlineReason, ""}
	var tasks []task
	for at := sec(r.ExpFloat64()); at < now+sec(20); at += sec(r.ExpFloat64() * 3) {
		t := task{intended: at, sent: at + sec(r.Float64()/10), started: unset}
		if r.IntN(4) == 0 {
			t.outcome, t.reason, t.ended = loadgen.Refused, reasons[r.IntN(len(reasons))], t.sent
			if t.reason == deadlineReason {
				t.ended += slo
			}
		} else {
			t.started = t.sent + sec(r.ExpFloat64()*30)
			t.outcome, t.ended = outcomes[r.IntN(len(outcomes))], t.started+sec(5+25*r.Float64())
		}
		tasks = append(tasks, t)
	}
	return until(tasks, now)
}

// Whatever tasks there are, every one is counted once, and reading, summary and
// queue tell the same story.
func TestReadingAndSummaryAgree(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 11))
	p := Plan{SLO: slo, Duration: sec(200), Workers: 4}
	for range 300 {
		now := sec(200 * r.Float64())
		tasks := randomTasks(r, now)
		live := newReading(tasks, slo, now)
		sum := summarize(tasks, live.Depth, p, now)
		wantConsistent(t, "side", sum)
		switch {
		case live.Arrivals != sum.Arrivals || live.Admitted != sum.Admitted || live.InTime != sum.InTime:
			t.Fatalf("live %+v\nsummary %+v", live, sum)
		case live.TotalRefused() != sum.Refused+sum.DeadlinePassed:
			t.Fatalf("live has %d refusals, the summary %d and %d", live.TotalRefused(), sum.Refused, sum.DeadlinePassed)
		case live.OverSLO < sum.Late+sum.DeadlinePassed+sum.UnfinishedOver:
			t.Fatalf("live has %d over the SLO, the summary %d late, %d given up, %d open", live.OverSLO, sum.Late, sum.DeadlinePassed, sum.UnfinishedOver)
		case live.Queued > sum.MaxQueue || live.Queued > sum.Unfinished:
			t.Fatalf("%d wait, of at most %d ever and %d unfinished", live.Queued, sum.MaxQueue, sum.Unfinished)
		case live.Queued == 0 && live.Oldest != 0, live.Oldest > now:
			t.Fatalf("%d wait, the oldest for %v at %v", live.Queued, live.Oldest, now)
		}
		if q := sum.Turnaround; q.P50 > q.P95 || q.P95 > q.Max || q.Count > sum.Admitted {
			t.Fatalf("turnaround %+v of %d admitted", q, sum.Admitted)
		}
	}
}

// Steps are in order, never negative, and end with those who wait.
func TestDepthIsAQueue(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 5))
	for range 300 {
		now := sec(200 * r.Float64())
		tasks := randomTasks(r, now)
		steps := queueDepth(tasks, slo, now)
		for i, s := range steps {
			if s.Depth < 0 || i > 0 && s.At <= steps[i-1].At || s.At > now {
				t.Fatalf("step %d of %v at %v", i, steps, now)
			}
		}
		if got, want := steps[len(steps)-1].Depth, newReading(tasks, slo, now).Queued; got != want {
			t.Fatalf("the queue ends with %d, %d wait", got, want)
		}
		for _, n := range []int{1, 10, 97} {
			most := 0
			for _, v := range bucketMax(steps, n, max(now, 1)) {
				most = max(most, v)
			}
			if most != maxDepth(steps) {
				t.Fatalf("%d columns show at most %d, the queue had %d", n, most, maxDepth(steps))
			}
		}
	}
}

// Notes, tables and pictures can be made of anything that may be seen.
func TestAnySummaryCanBeShown(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 17))
	base := newSimulation(t, DefaultOptions())
	for range 100 {
		now := sec(400 * r.Float64())
		w := simulation{plan: base.plan, sides: [2][]task{randomTasks(r, now), randomTasks(r, now)}}
		s := w.summary(now, Interrupted)
		if len(s.Notes) == 0 {
			t.Fatalf("nothing to say about %+v", s)
		}
		var b buffer
		if err := s.Write(&b, 20+r.IntN(100), true); err != nil {
			t.Fatal(err)
		}
		if err := s.WriteSVG(&b); err != nil {
			t.Fatal(err)
		}
		frame(w.at(now), w.plan, r.IntN(200), r.IntN(60))
	}
}
