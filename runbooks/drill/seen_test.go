package drill_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"headgate/runbooks/drill"
)

// TestStalledMachineIsInconclusive: what comes too late is nobody's fault when nobody could
// work, and what is wrong at any pace stays wrong.
func TestStalledMachineIsInconclusive(t *testing.T) {
	spec, _ := drill.Find(builtIn(t), "burst")
	lull := []drill.Stall{{At: 150 * time.Second, Took: 2 * time.Second}}
	for _, c := range []struct {
		name    string
		sab     defects
		lulls   []drill.Stall
		verdict drill.Verdict
		want    []string
	}{
		{"answers come late", defects{delayAnswers: true}, nil, drill.Failed, []string{"after the endpoint was done"}},
		{"answers come late on a busy machine", defects{delayAnswers: true}, lull, drill.Inconclusive, []string{"the generator was held up for 2.0 s at 150 s", "after the endpoint was done"}},
		{"called twice on a busy machine", defects{duplicateCalls: true}, lull, drill.Failed, []string{"was called 2 times"}},
		{"tasks fail", defects{spuriousErrors: true}, nil, drill.Failed, []string{"no fault had befallen it"}},
		{"tasks fail on a busy machine", defects{spuriousErrors: true}, lull, drill.Inconclusive, []string{"held up", "no fault had befallen it"}},
		{"nothing is wrong on a busy machine", defects{}, lull, drill.Passed, nil},
		{"a short lull", defects{delayAnswers: true}, []drill.Stall{{Took: 260 * time.Millisecond}}, drill.Failed, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := simulatedFacts(spec, c.sab)
			f.Evidence.Stalls = c.lulls
			verdict, reason, _ := drill.Judge(f)
			if verdict != c.verdict {
				t.Errorf("%s, want %s: %s", verdict, c.verdict, reason)
			}
			for _, want := range c.want {
				if !strings.Contains(reason, want) {
					t.Errorf("%s: want %q", reason, want)
				}
			}
		})
	}
}

// TestShortWaitsAreIgnored: a busy machine hands everything on a little later.
func TestShortWaitsAreIgnored(t *testing.T) {
	spec, _ := drill.Find(builtIn(t), "upstream-errors")
	f := simulatedFacts(spec, defects{})
	for i := range f.Evidence.Tasks {
		f.Evidence.Tasks[i].Sent -= 3 * time.Second
		f.Evidence.Tasks[i].Due -= 3 * time.Second
	}
	if verdict, reason, _ := drill.Judge(f); verdict != drill.Passed {
		t.Errorf("%s: %s", verdict, reason)
	}
}

// TestViolationsAreNamed changes what was seen of a run that passes.
func TestViolationsAreNamed(t *testing.T) {
	for _, c := range []struct {
		name, drill string
		change      func(*drill.Evidence)
		want        string
	}{
		{"called after its deadline", "burst", func(e *drill.Evidence) {
			i := slices.IndexFunc(e.Tasks, func(t drill.Task) bool { return t.Due > 100*time.Second && t.Outcome == drill.Served })
			e.Tasks[i].Due -= 80 * time.Second
			e.Tasks[i].Sent -= 80 * time.Second
		}, "1 tasks went to the endpoint after their deadline"},
		{"overtaken, and still waiting", "burst", func(e *drill.Evidence) {
			for n := range 16 {
				at := time.Duration(20+n) * time.Second
				e.Tasks = append(e.Tasks, drill.Task{ID: 10_000 + n, Due: at, Sent: at})
			}
		}, "16 of "},
		{"a reason that is not so", "burst", func(e *drill.Evidence) {
			for i := range e.Tasks {
				if e.Tasks[i].Reason == "queue_age" {
					e.Tasks[i].Reason = "queue_depth"
				}
			}
		}, "the gate refuses before it is due"},
		{"turned away by a gate that goes down", "rollback", func(e *drill.Evidence) {
			i := slices.IndexFunc(e.Tasks, func(t drill.Task) bool { return t.Outcome == drill.Refused })
			e.Tasks[i].Status, e.Tasks[i].Reason = 503, "draining"
		}, "was refused with status 503"},
		{"the age is overlooked", "overload", func(e *drill.Evidence) {
			e.MaxQueueAge = 10 * time.Second
			for i := range e.Tasks {
				if e.Tasks[i].Outcome == drill.Refused {
					e.Tasks[i].Reason = "queue_depth"
				}
			}
		}, "the gate does not look at the age"},
		{"streams do not flow", "overload", func(e *drill.Evidence) {
			for i := range e.Calls {
				c := &e.Calls[i]
				t := &e.Tasks[c.Task]
				c.FirstByte, t.FirstByte = c.Started+time.Second, max(t.Ended, c.Started+20*time.Second)
			}
		}, "they do not flow as they come"},
		{"an order is answered and not carried out", "rollback", func(e *drill.Evidence) {
			e.UnappliedRequests = []string{"after the order passthrough the gate says that it is in mode observe"}
		}, "is in mode observe"},
		{"the record was never tried", "database-locked", func(e *drill.Evidence) { e.WriteProbes = nil }, "nobody tried to write to the record"},
		{"slots do not come back", "worker-loss", func(e *drill.Evidence) {
			for i := range e.Calls {
				if c := &e.Calls[i]; c.Arrived > 200*time.Second && c.Arrived < 220*time.Second {
					c.SlotWait = 10 * time.Second
				}
			}
		}, "did not get its slots back"},
		{"the endpoint is quick", "burst", func(e *drill.Evidence) { e.ServiceMean = 28 * time.Second }, "did not take its time"},
		{"permits come back late", "burst", func(e *drill.Evidence) {
			for i := range e.Calls {
				c := &e.Calls[i]
				c.Ended -= (c.Ended - c.Started) / 2
			}
		}, "permits do not come back at once"},
	} {
		t.Run(c.name, func(t *testing.T) {
			spec, _ := drill.Find(builtIn(t), c.drill)
			f := simulatedFacts(spec, defects{})
			c.change(&f.Evidence)
			if verdict, reason, _ := drill.Judge(f); verdict == drill.Passed || !strings.Contains(reason, c.want) {
				t.Errorf("%s: %s, want %q", verdict, reason, c.want)
			}
		})
	}
}
