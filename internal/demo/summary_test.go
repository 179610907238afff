package demo

import (
	"bytes"
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"headgate/internal/loadgen"
)

// wantConsistent checks that every arrival has exactly one fate, and the reasons add up.
func wantConsistent(t *testing.T, name string, s Side) {
	t.Helper()
	if sum := s.Refused + s.DeadlinePassed + s.InTime + s.Late + s.Failed + s.Unfinished; sum != s.Arrivals {
		t.Errorf("%s: fates add up to %d, arrivals are %d: %+v", name, sum, s.Arrivals, s)
	}
	reasons := 0
	for _, n := range s.ByReason {
		reasons += n
	}
	if reasons != s.Refused || s.Admitted != s.Arrivals-s.Refused {
		t.Errorf("%s: %d reasons, %d refused, %d admitted of %d", name, reasons, s.Refused, s.Admitted, s.Arrivals)
	}
}

func TestSumUp(t *testing.T) {
	expired := refusedTask(10, deadlineReason)
	expired.ended = sec(70)
	broken := answeredTask(12, 13, 14)
	broken.outcome = loadgen.Truncated
	stopped, fresh := waitingTask(20), waitingTask(110)
	stopped.ended, stopped.outcome = sec(120), loadgen.Cancelled
	fresh.ended, fresh.outcome = sec(120), loadgen.Cancelled
	patient := refusedTask(31, "queue_depth")
	patient.retryAfter = 9 * time.Second
	tasks := []task{
		answeredTask(0, 0, 10), answeredTask(1, 10, 41), answeredTask(2, 30, 90), refusedTask(30, "queue_age"), patient,
		expired, broken, stopped, fresh, {sent: unset, started: unset, ended: unset},
	}
	p := Plan{SLO: slo, Duration: sec(100), Workers: 1}
	got := summarize(tasks, queueDepth(tasks, slo, sec(120)), p, sec(120))
	want := Side{
		Arrivals: 9, Admitted: 7, Refused: 2, ByReason: map[string]int{"queue_age": 1, "queue_depth": 1},
		DeadlinePassed: 1, InTime: 2, Late: 1, Failed: 1, Unfinished: 2, UnfinishedOver: 1,
		Turnaround: Quantiles{Count: 5, P50: 40, P95: 88, Max: 88},
		MaxQueue:   3, PerMinute: 2 / 1.5, RetryMin: 2, RetryMax: 9,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("side (-want +got):\n%s", diff)
	}
	wantConsistent(t, "side", got)
}

func TestQueueEmptyIsCountedFromTheBurstsEnd(t *testing.T) {
	p := Plan{SLO: slo, Duration: sec(100), Workers: 1, Burst: &loadgen.Burst{From: sec(10), To: sec(50), Multiple: 2}}
	tasks := []task{answeredTask(40, 65, 70), answeredTask(90, 95, 99)}
	got := summarize(tasks, queueDepth(tasks, slo, sec(100)), p, sec(100)).EmptyAfter
	if got == nil || *got != 15 {
		t.Errorf("empty after %v, want 15 s", got)
	}
	if got := summarize(tasks, queueDepth(tasks, slo, sec(45)), p, sec(45)).EmptyAfter; got != nil {
		t.Errorf("a demo that ended in the burst says that the queue was empty %v s later", *got)
	}
}

// The article's scenario, simulated: the gate holds the promise with 16 workers,
// and without it the promise breaks.
func TestArticleSimulated(t *testing.T) {
	w := newSimulation(t, DefaultOptions())
	s := w.summary(sec(500), Complete)
	wantConsistent(t, "gated", s.Gated)
	wantConsistent(t, "ungated", s.Ungated)
	if s.Gated.Turnaround.P95 > s.SLO || s.Ungated.Turnaround.P95 <= s.SLO {
		t.Errorf("p95 %.1f s with and %.1f s without, want the SLO of %.0f s between", s.Gated.Turnaround.P95, s.Ungated.Turnaround.P95, s.SLO)
	}
	if s.Gated.MaxQueue > w.plan.Depth+1 || s.Ungated.MaxQueue < 2*s.Gated.MaxQueue {
		t.Errorf("queues of %d and %d, want at most %d and far more", s.Gated.MaxQueue, s.Ungated.MaxQueue, w.plan.Depth+1)
	}
	if s.BaseLoad != 0.875 || s.BurstLoad != 1.75 {
		t.Errorf("load %v and %v, want 0.875 and 1.75", s.BaseLoad, s.BurstLoad)
	}
}

func TestJSONKeys(t *testing.T) {
	w := newSimulation(t, DefaultOptions())
	var keys []string
	for _, s := range []*Summary{w.summary(sec(500), Complete), w.summary(0, Interrupted)} {
		var b bytes.Buffer
		if err := s.WriteJSON(&b); err != nil {
			t.Fatal(err)
		}
		var all map[string]any
		if err := json.Unmarshal(b.Bytes(), &all); err != nil {
			t.Fatal(err)
		}
		found := paths("", all)
		if keys == nil {
			keys = found
		}
		if diff := cmp.Diff(keys, found); diff != "" {
			t.Errorf("keys depend on the run (-complete +interrupted):\n%s", diff)
		}
	}
	golden(t, "keys.txt", strings.Join(keys, "\n")+"\n")
}

// paths lists the keys of an object, with the kind of each value. Reasons come
// and go, and so do their keys.
func paths(under string, object map[string]any) []string {
	var out []string
	for key, value := range object {
		path := under + key
		switch v := value.(type) {
		case map[string]any:
			if key != "refused_by_reason" {
				out = append(out, paths(path+".", v)...)
				continue
			}
			path += " {}"
		case float64:
			path += " number"
			if math.IsNaN(v) || math.IsInf(v, 0) {
				path += " not finite"
			}
		case nil: // queue_empty_after_burst_s
			path += " number"
		case bool:
			path += " bool"
		case string:
			path += " string"
		case []any:
			path += " []"
		}
		out = append(out, path)
	}
	slices.Sort(out)
	return out
}

// a side of which so many were answered.
func side(arrivals, refused, inTime, late int, p95 float64) Side {
	return Side{
		Arrivals: arrivals, Refused: refused, Admitted: arrivals - refused, InTime: inTime, Late: late,
		Turnaround: Quantiles{Count: inTime + late, P95: p95}, MaxQueue: 9, KeptRate: true,
	}
}

func TestNotesSayWhatTheNumbersSay(t *testing.T) {
	expired := side(100, 20, 70, 2, 61)
	expired.DeadlinePassed = 8
	stuck := side(100, 0, 10, 30, 300)
	stuck.Unfinished, stuck.UnfinishedOver = 60, 50
	busy := side(100, 0, 50, 0, 41)
	busy.Unfinished = 50
	slow := side(10, 0, 10, 0, 9)
	slow.KeptRate, slow.RateNote = false, "send lag"
	over := "over the SLO (p95 "
	for _, c := range []struct {
		name    string
		summary Summary
		want    []string // a part of each note
	}{
		{"the gate holds", Summary{Outcome: Complete, Gated: side(100, 20, 80, 0, 51), Ungated: side(100, 0, 50, 50, 120)}, []string{
			"20 of 100 (20 %) were refused at once, and the p95 turnaround of admitted tasks stayed within the SLO: 51 of 60 s",
			"a queue of up to 9, and 50 of 100 (50 %) were " + over + "120 s)",
			"80 with the gate, 50 without",
		}},
		{"nothing happened", Summary{Outcome: Complete, Workers: 64, Gated: side(10, 0, 10, 0, 9), Ungated: side(10, 0, 10, 0, 9)}, []string{
			"nothing to refuse: with 64 workers",
		}},
		{"nothing had happened yet", Summary{Outcome: Interrupted, Elapsed: 50, Duration: 300, Gated: side(10, 0, 10, 0, 9), Ungated: side(10, 0, 10, 0, 9)}, []string{
			"Stopped after 50 of 300 s", "Until then no task was refused",
		}},
		{"stopped in the burst", Summary{Outcome: Interrupted, Elapsed: 200, Duration: 300, Gated: side(100, 20, 50, 0, 41), Ungated: busy}, []string{
			"Stopped after 200 of 300 s", "20 of 100 (20 %) were refused at once", "the queue grew to 9, and no task was over the SLO yet",
		}},
		{"stopped at once", Summary{Outcome: Interrupted, Duration: 300}, []string{"Stopped after 0 of 300 s", "No task had been answered"}},
		{"the gate admits late work", Summary{Outcome: Complete, Gated: expired, Ungated: side(100, 0, 5, 95, 900)}, []string{
			"20 of 100 (20 %) were refused at once, and the p95 turnaround of admitted tasks exceeded the SLO of 60 s: 61 s",
			"95 of 100 (95 %) were " + over + "900 s)", "70 with the gate, 5 without", "10 of the admitted tasks were late or left the queue unserved with the gate (12 %)",
		}},
		{"the gate refuses for nothing", Summary{Outcome: Complete, Gated: side(10, 1, 9, 0, 30), Ungated: side(10, 0, 10, 0, 55)}, []string{
			"1 of 10 (10 %) was refused at once", "the queue grew to 9, and every task was still answered in time", "Fewer tasks were answered in time with the gate (9) than without (10)",
		}},
		{"too long a backlog", Summary{Outcome: DrainLimit, Elapsed: 2100, Gated: side(100, 60, 40, 0, 50), Ungated: stuck}, []string{
			"60 of 100 (60 %) were refused at once", "80 of 100 (80 %) were " + over + "300 s)", "40 with the gate, 10 without", "0 tasks with the gate and 60 without were still open after 2100 s",
		}},
		{"a slow machine", Summary{Outcome: Complete, Workers: 1, Gated: slow, Ungated: slow}, []string{"nothing to refuse: with 1 worker ", "did not keep the pace"}},
	} {
		c.summary.SLO = 60
		notes := c.summary.notes()
		if len(notes) != len(c.want) {
			t.Errorf("%s: %q, want %d notes", c.name, notes, len(c.want))
			continue
		}
		for i, part := range c.want {
			if !strings.Contains(notes[i], part) {
				t.Errorf("%s: note %q, want %q in it", c.name, notes[i], part)
			}
		}
	}
}

func TestNotesOwnUpToFailures(t *testing.T) {
	s := Summary{Outcome: Complete, SLO: 60, Gated: side(10, 0, 9, 0, 9), Ungated: side(10, 0, 10, 0, 9)}
	s.Gated.Failed = 1
	notes := strings.Join(s.notes(), "\n")
	if !strings.Contains(notes, "1 call failed") || strings.Contains(notes, "nothing to refuse") {
		t.Errorf("a failed call is passed over:\n%s", notes)
	}
}

func TestReadingCountsEveryTaskOnce(t *testing.T) {
	expired := refusedTask(20, deadlineReason)
	expired.ended = sec(80)
	tasks := []task{
		answeredTask(0, 0, 10),   // in time, too long ago for the p95
		answeredTask(10, 20, 45), // in time, 35 s
		answeredTask(11, 30, 90), // late, 79 s
		refusedTask(50, "queue_age"),
		refusedTask(51, "queue_age"),
		refusedTask(52, ""),
		expired,         // 60 s
		waitingTask(30), // over the SLO already
		waitingTask(95),
		{intended: sec(60), sent: sec(60), started: sec(70), ended: unset},
		{intended: sec(200), sent: unset, started: unset, ended: unset},
	}
	got := newReading(tasks, slo, sec(100))
	got.Depth = nil
	want := Reading{
		Arrivals: 10, Admitted: 7, Queued: 2, Oldest: sec(70),
		P95: sec(79), Ended: 3, InTime: 2, OverSLO: 3,
		Refused: map[string]int{"queue_age": 2, "none": 1, "deadline_passed": 1},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("reading (-want +got):\n%s", diff)
	}
	if got.TotalRefused() != 4 {
		t.Errorf("turned %d, want 4", got.TotalRefused())
	}
}

func TestReadingOfNothing(t *testing.T) {
	got := newReading(nil, slo, 0)
	want := Reading{Refused: map[string]int{}, Depth: []Step{{}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("reading (-want +got):\n%s", diff)
	}
}

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

// Every task is counted once, and reading, summary and queue agree.
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
