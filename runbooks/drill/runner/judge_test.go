package runner_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"headgate/runbooks/drill"
	"headgate/runbooks/drill/judge"
	"headgate/runbooks/drill/spec"
)

// judgeBuiltIn plays a built-in drill to its end without a clock, and judges it.
func judgeBuiltIn(t *testing.T, id string, sab defects) (drill.Verdict, string, []drill.Hypothesis) {
	t.Helper()
	spec, ok := spec.Find(builtIn(t), id)
	if !ok {
		t.Fatalf("no drill %s", id)
	}
	f := simulatedFacts(spec, sab)
	return judge.Judge(f)
}

func simulatedFacts(spec drill.Spec, sab defects) judge.Facts {
	e := simulate(spec, sab)
	f := judge.Facts{
		Run: drill.Run{Spec: spec, Speed: spec.Speed}, ScenarioStart: testStart, Evidence: e, SteadyState: true, Complete: true,
		Drift:        drill.Reading{Measured: true, Samples: 10, Source: "production"},
		ClearResults: []drill.ClearResult{{Took: time.Millisecond, Confirmed: true}},
	}
	for _, st := range spec.Scenario.Steps {
		t := judge.StepResult{Step: st, Requested: st.At, Completed: st.At + tick/2}
		if st.For > 0 {
			t.RevertedAt, t.Reverted = st.At+st.For, true
		}
		f.Steps = append(f.Steps, t)
	}
	return f
}

func TestBuiltInsPassOnHealthySystem(t *testing.T) {
	for _, s := range builtIn(t) {
		t.Run(s.ID, func(t *testing.T) {
			verdict, reason, all := judgeBuiltIn(t, s.ID, defects{})
			if verdict != drill.Passed {
				t.Errorf("%s: %s", verdict, reason)
			}
			for _, h := range all {
				t.Logf("%-70s %v %.3f margin %.2f (%s; %s)", h.Expectation, h.Measured, h.Value, h.Margin, h.Evidence, h.Reason)
			}
		})
	}
}

// TestDefectsAreNamed breaks one part after the other.
func TestDefectsAreNamed(t *testing.T) {
	for _, c := range []struct {
		name, drill string
		sab         defects
		verdict     drill.Verdict
		want        string
	}{
		{"refusals off", "burst", defects{neverRefuse: true}, drill.Failed, "the gate does not refuse"},
		{"refusals off", "overload", defects{neverRefuse: true}, drill.Failed, "the gate does not refuse"},
		{"refusals off", "slow-upstream", defects{neverRefuse: true}, drill.Failed, "the gate does not refuse"},
		{"refusals off", "worker-loss", defects{neverRefuse: true}, drill.Failed, "the gate does not refuse"},
		{"refusing everything", "burst", defects{alwaysRefuse: true}, drill.Failed, "although a worker was free and no task waited"},
		{"refusing everything", "overload", defects{alwaysRefuse: true}, drill.Failed, "although a worker was free and no task waited"},
		{"no Retry-After", "burst", defects{retryAfter: "none"}, drill.Failed, "refusals without Retry-After"},
		{"Retry-After 0", "overload", defects{retryAfter: "0"}, drill.Failed, `refusals with Retry-After "0"`},
		{"Retry-After far away", "burst", defects{retryAfter: "90"}, drill.Failed, `Retry-After "90"`},
		{"Retry-After a date", "rollback", defects{retryAfter: "Sun, 01 Mar 2026 12:00:00 GMT"}, drill.Failed, "which is not 1 to 59"},
		{"permit leak", "burst", defects{leak: 6}, drill.Failed, "permits are not returned"},
		{"permit leak", "hung-upstream", defects{leak: 6}, drill.Failed, "permits are not returned"},
		{"too many at once", "overload", defects{extraCalls: 1}, drill.Failed, "in flight 5 of 4"},
		{"Slack is dead", "alert-path", defects{slackDown: true}, drill.Failed, "no message was accepted by Slack, of 20 tries"},
		{"Slack stays dead", "slack-outage", defects{slackDown: true}, drill.Failed, "no message announced incident"},
		{"warn never fires", "alert-path", defects{neverWarn: true}, drill.Failed, "notification was too late"},
		{"page never fires", "alert-path", defects{neverPage: true}, drill.Failed, "no page arrived"},
		{"never resolved", "alert-path", defects{neverResolve: true}, drill.Failed, "no resolved message arrived"},
		{"wrong pool", "alert-path", defects{pool: "other"}, drill.Failed, `names pool "other", not default`},
		{"wrong pool", "burst", defects{pool: "other"}, drill.Failed, `names pool "other", not default`},
		{"not marked", "alert-path", defects{noDrillMark: true}, drill.Failed, "does not say DRILL"},
		{"late notification", "alert-path", defects{messageDelay: 10 * time.Minute}, drill.Failed, "notification was too late"},
		{"rollback only said", "rollback", defects{rollbackIgnored: true}, drill.Failed, "pass-through did not stop refusals"},
		{"restore only said", "rollback", defects{restoreIgnored: true}, drill.Failed, "nothing was refused after the restore"},
		{"faults without effect", "slow-upstream", defects{faultsHaveNoEffect: true}, drill.Inconclusive, "the endpoint did not slow down"},
		{"faults without effect", "upstream-errors", defects{faultsHaveNoEffect: true}, drill.Inconclusive, "injection not confirmed: the endpoint did not fail"},
		{"faults stay", "upstream-errors", defects{faultsNotCleared: true}, drill.Failed, "it did not clear"},
		{"endpoint never slows", "burst", defects{instantEndpoint: true}, drill.Inconclusive, "the endpoint's service time is wrong"},
		{"endpoint never slows", "overload", defects{instantEndpoint: true}, drill.Inconclusive, "the endpoint's service time is wrong"},
		{"cut but whole", "truncated-streams", defects{falseCompletions: true}, drill.Failed, "fault truncate had broken its answer"},
		{"errors look whole", "upstream-errors", defects{falseCompletions: true}, drill.Failed, "fault status had broken its answer"},
		{"other answers", "burst", defects{alteredAnswers: true}, drill.Failed, "got another answer than the endpoint gave"},
		{"called twice", "burst", defects{duplicateCalls: true}, drill.Failed, "was called 2 times for task 40"},
		{"refused and called", "overload", defects{callsForRefused: true}, drill.Failed, "refused tasks reached the endpoint"},
		{"task lost", "burst", defects{loseTask: true}, drill.Failed, "task 40 was never answered"},
		{"answers held back", "burst", defects{delayAnswers: true}, drill.Failed, "after the endpoint was done with them"},
		{"errors out of nothing", "database-locked", defects{spuriousErrors: true}, drill.Failed, "no fault had hit it"},
		{"half the load", "burst", defects{generatorBehind: true}, drill.Inconclusive, "the generator sent"},
		{"half the load, as planned", "upstream-errors", defects{halfLoad: true}, drill.Inconclusive, "the load was not as specified"},
		{"half the burst", "burst", defects{halfLoad: true}, drill.Inconclusive, "the burst from 120s was not as specified"},
		{"last come first served", "burst", defects{lifo: true}, drill.Failed, "not served in order of arrival"},
		{"an age that stays", "burst", defects{stuckAge: true}, drill.Failed, "the queue was neither long nor old"},
		{"a rollback drops who waits", "rollback", defects{dropQueue: true}, drill.Failed, "waiting tasks were rejected by the rollback"},
		{"record not locked", "database-locked", defects{recordUnlocked: true}, drill.Inconclusive, "the record was not locked: it could be written at 101 s"},
		{"crowded endpoint", "upstream-errors", defects{slotContention: true}, drill.Inconclusive, "the endpoint was overloaded"},
	} {
		t.Run(c.name+" "+c.drill, func(t *testing.T) {
			verdict, reason, _ := judgeBuiltIn(t, c.drill, c.sab)
			if verdict != c.verdict || !strings.Contains(reason, c.want) {
				t.Errorf("%s: %s\nwant %s: ...%s", verdict, reason, c.verdict, c.want)
			}
		})
	}
}

// TestStalledMachineIsInconclusive: what comes too late is nobody's fault when nobody could
// work, and what is wrong at any pace stays wrong.
func TestStalledMachineIsInconclusive(t *testing.T) {
	spec, _ := spec.Find(builtIn(t), "burst")
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
		{"tasks fail", defects{spuriousErrors: true}, nil, drill.Failed, []string{"no fault had hit it"}},
		{"tasks fail on a busy machine", defects{spuriousErrors: true}, lull, drill.Inconclusive, []string{"held up", "no fault had hit it"}},
		{"nothing is wrong on a busy machine", defects{}, lull, drill.Passed, nil},
		{"a short lull", defects{delayAnswers: true}, []drill.Stall{{Took: 260 * time.Millisecond}}, drill.Failed, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := simulatedFacts(spec, c.sab)
			f.Evidence.Stalls = c.lulls
			verdict, reason, _ := judge.Judge(f)
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
	spec, _ := spec.Find(builtIn(t), "upstream-errors")
	f := simulatedFacts(spec, defects{})
	for i := range f.Evidence.Tasks {
		f.Evidence.Tasks[i].Sent -= 3 * time.Second
		f.Evidence.Tasks[i].Due -= 3 * time.Second
	}
	if verdict, reason, _ := judge.Judge(f); verdict != drill.Passed {
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
		}, "the gate refuses too early"},
		{"rejected by a gate that shuts down", "rollback", func(e *drill.Evidence) {
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
		}, "the gate ignores the queue age"},
		{"streams do not flow", "overload", func(e *drill.Evidence) {
			for i := range e.Calls {
				c := &e.Calls[i]
				t := &e.Tasks[c.Task]
				c.FirstByte, t.FirstByte = c.Started+time.Second, max(t.Ended, c.Started+20*time.Second)
			}
		}, "they are not streamed"},
		{"an order is answered and not carried out", "rollback", func(e *drill.Evidence) {
			e.UnappliedRequests = []string{"after the order passthrough the gate says that it is in mode observe"}
		}, "is in mode observe"},
		{"the record was never tried", "database-locked", func(e *drill.Evidence) { e.WriteProbes = nil }, "no write to the record was attempted"},
		{"slots do not come back", "worker-loss", func(e *drill.Evidence) {
			for i := range e.Calls {
				if c := &e.Calls[i]; c.Arrived > 200*time.Second && c.Arrived < 220*time.Second {
					c.SlotWait = 10 * time.Second
				}
			}
		}, "did not get its slots back"},
		{"the endpoint is quick", "burst", func(e *drill.Evidence) { e.ServiceMean = 28 * time.Second }, "service time is wrong"},
		{"permits come back late", "burst", func(e *drill.Evidence) {
			for i := range e.Calls {
				c := &e.Calls[i]
				c.Ended -= (c.Ended - c.Started) / 2
			}
		}, "permits are not returned at once"},
	} {
		t.Run(c.name, func(t *testing.T) {
			spec, _ := spec.Find(builtIn(t), c.drill)
			f := simulatedFacts(spec, defects{})
			c.change(&f.Evidence)
			if verdict, reason, _ := judge.Judge(f); verdict == drill.Passed || !strings.Contains(reason, c.want) {
				t.Errorf("%s: %s, want %q", verdict, reason, c.want)
			}
		})
	}
}

// TestMissingEvidenceDoesNotPass: without something to judge by, a run has not passed.
func TestMissingEvidenceDoesNotPass(t *testing.T) {
	spec, _ := spec.Find(builtIn(t), "upstream-errors")
	for _, c := range []struct {
		name    string
		change  func(f *judge.Facts)
		verdict drill.Verdict
		want    string
	}{
		{"all is seen", func(*judge.Facts) {}, drill.Passed, "all 9 hypotheses held"},
		{"nothing was sent", func(f *judge.Facts) { f.Evidence.Tasks, f.Evidence.Calls, f.Evidence.Planned = nil, nil, 0 }, drill.Inconclusive, "only 0 tasks were sent"},
		{"the generator stood still", func(f *judge.Facts) { f.Evidence.Tasks = f.Evidence.Tasks[:40] }, drill.Failed, "belong to no task that was sent"},
		{"eyes closed", func(f *judge.Facts) { f.Evidence.StaleReason = "the book is lost" }, drill.Inconclusive, "not all was seen: the book is lost"},
		{"rate not kept", func(f *judge.Facts) { f.Evidence.KeptRate, f.Evidence.RateNote = false, "too busy" }, drill.Inconclusive, "the generator did not keep its rate: too busy"},
		{"production not observed", func(f *judge.Facts) { f.Drift = drill.Reading{Reason: "no answer"} }, drill.Inconclusive, "production_drift is not known: no answer"},
		{"production was touched", func(f *judge.Facts) { f.Drift.Value = 2; f.Drift.Reason = "2 tasks of the drill" }, drill.Failed, "2 tasks of the drill"},
		{"nothing was expected", func(f *judge.Facts) { f.Run.Spec.Expect = nil }, drill.Inconclusive, "nothing was checked"},
		{"not as before", func(f *judge.Facts) { f.SteadyState, f.UnsteadyReason = false, "3 of 9 tasks were late" }, drill.Failed, "after 5m the steady state did not return: 3 of 9 tasks were late"},
		{"not cleared", func(f *judge.Facts) { f.ClearResults = []drill.ClearResult{{Held: 2}} }, drill.Failed, "the faults did not clear: 2 calls are still held"},
		{"cleared slowly", func(f *judge.Facts) {
			f.ClearResults = []drill.ClearResult{{Took: 1500 * time.Millisecond, Confirmed: true}}
		}, drill.Failed, "clearing the faults took 1.5 s, of at most 1"},
		{"no call was hit", func(f *judge.Facts) {
			for i := range f.Evidence.Calls {
				f.Evidence.Calls[i].Fault = ""
			}
		}, drill.Failed, "no fault had hit it"},
		{"half of those that should be", func(f *judge.Facts) {
			for i := range f.Evidence.Calls {
				if c := &f.Evidence.Calls[i]; c.Fault != "" && i%3 > 0 {
					c.Fault, c.Status, c.Reached, c.Complete, c.Arrived, c.Finished = "", 200, true, true, c.Started, c.Started+5*time.Second
					f.Evidence.Tasks[c.Task].Outcome = drill.Served
				}
			}
		}, drill.Inconclusive, "injection not confirmed: fault status hit"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := simulatedFacts(spec, defects{})
			c.change(&f)
			verdict, reason, _ := judge.Judge(f)
			if verdict != c.verdict || !strings.Contains(reason, c.want) {
				t.Errorf("%s: %s\nwant %s: %s", verdict, reason, c.verdict, c.want)
			}
		})
	}
}

// TestSeriesAddsUp: every task is in the series once when it arrives, and once when
// it ends.
func TestSeriesAddsUp(t *testing.T) {
	spec, _ := spec.Find(builtIn(t), "burst")
	f := simulatedFacts(spec, defects{})
	points := judge.NewEvaluation(f).Series()
	var arrived, served, refused, errs, deepest, busiest int
	for i, p := range points {
		if want := float64(i+1) - spec.Scenario.Baseline.Seconds(); p.At != want {
			t.Fatalf("point %d is at %v, want %v", i, p.At, want)
		}
		arrived, served, refused, errs = arrived+p.Arrived, served+p.Served, refused+p.Refused, errs+p.Errors
		deepest, busiest = max(deepest, p.Depth), max(busiest, p.InFlight)
		if (p.Depth == 0) != (p.QueueAge == 0) && p.QueueAge > 1 || p.Turnaround < -1 || p.QueueAge < 0 {
			t.Errorf("%+v", p)
		}
	}
	ends := map[drill.TaskOutcome]int{}
	for _, task := range f.Evidence.Tasks {
		ends[task.Outcome]++
	}
	if arrived != len(f.Evidence.Tasks) || refused != ends[drill.Refused] || errs != 0 || served+ends[drill.Pending] > ends[drill.Served]+ends[drill.Pending] || served < ends[drill.Served]-5 {
		t.Errorf("arrived %d, served %d, refused %d, errors %d; the ends are %v", arrived, served, refused, errs, ends)
	}
	if busiest != 16 || deepest < 16 || deepest > 33 {
		t.Errorf("%d in flight and %d waiting at most", busiest, deepest)
	}
}
