package demo

import (
	"bytes"
	"encoding/json"
	"math"
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
