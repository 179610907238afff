package judge_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"headgate/proxy/fault"
	"headgate/runbooks/drill"
	"headgate/runbooks/drill/judge"
)

const sec = time.Second

// servedTask is a task that was answered, by one call.
func servedTask(id int, due, took time.Duration) (drill.Task, drill.Call) {
	return drill.Task{ID: id, Due: due, Sent: due, Ended: due + took, Outcome: drill.Served, Status: 200},
		drill.Call{Task: id, Started: due, Ended: due + took, Arrived: due, Finished: due + took, Reached: true, Complete: true, Status: 200}
}

// newFacts are those of a scenario of 100 s, with a burst from 20 s to 60 s.
func newFacts(change func(f *judge.Facts)) judge.Facts {
	f := judge.Facts{ScenarioStart: testStart, Complete: true, Run: drill.Run{Speed: 10, Spec: drill.Spec{Scenario: drill.Scenario{
		Duration: 100 * sec, Baseline: 20 * sec,
		Arrivals: drill.Arrivals{Rate: 1, Bursts: []drill.Burst{{From: 20 * sec, To: 60 * sec, Multiple: 2}}},
	}}}}
	f.Evidence = drill.Evidence{At: 200 * sec, Pool: "default", Workers: 2, SLO: 60 * sec}
	change(&f)
	return f
}

// addTasks appends n tasks, one each second from a time on.
func addTasks(f *judge.Facts, n int, from, took time.Duration, end drill.TaskOutcome) {
	for i := range n {
		t, c := servedTask(len(f.Evidence.Tasks), from+time.Duration(i)*sec, took)
		t.Outcome = end
		f.Evidence.Tasks = append(f.Evidence.Tasks, t)
		if end != drill.Refused {
			f.Evidence.Calls = append(f.Evidence.Calls, c)
		}
	}
}

func addMessage(f *judge.Facts, incident, kind, level, text string, at time.Duration) {
	f.Evidence.Messages = append(f.Evidence.Messages, drill.Message{
		Incident: incident, Kind: kind, Level: level, Text: text, Accepted: testStart.Add(at / 10),
	})
}

func TestMeasures(t *testing.T) {
	const good = "DRILL · WARNING · it waits (pool default): 16 s, limit 15 s"
	for _, c := range []struct {
		name    string
		measure drill.Measure
		change  func(f *judge.Facts)
		want    string // known value, or why not
	}{
		{"late", drill.LateShare, func(f *judge.Facts) {
			addTasks(f, 30, 0, 10*sec, drill.Served)
			addTasks(f, 10, 40*sec, 61*sec, drill.Served)
		}, "0.25 10 of 40 served later than 60s"},
		{"too few", drill.LateShare, func(f *judge.Facts) { addTasks(f, 19, 0, sec, drill.Served) }, "unknown: 19 tasks were served"},
		{"not those of the baseline", drill.LateShare, func(f *judge.Facts) { addTasks(f, 20, -20*sec, sec, drill.Served) }, "unknown: 0 tasks were served"},
		{"p95", drill.P95, func(f *judge.Facts) {
			addTasks(f, 38, 0, 10*sec, drill.Served)
			addTasks(f, 2, 50*sec, 50*sec, drill.Served)
		}, "10 of 40 served"},
		{"refused", drill.RefusedShare, func(f *judge.Facts) {
			addTasks(f, 15, 0, sec, drill.Served)
			addTasks(f, 5, 20*sec, 0, drill.Refused)
		}, "0.25 5 of 20"},
		{"errors", drill.ErrorShare, func(f *judge.Facts) {
			addTasks(f, 15, 0, sec, drill.Served)
			addTasks(f, 3, 20*sec, sec, drill.Errored)
			addTasks(f, 2, 30*sec, sec, drill.Broken)
		}, "0.25 5 of 20"},
		{"served", drill.ServedShare, func(f *judge.Facts) {
			addTasks(f, 15, 0, sec, drill.Served)
			addTasks(f, 5, 20*sec, sec, drill.TimedOut)
		}, "0.75 15 of 20"},
		{"nothing refused", drill.BadRetryAfter, func(f *judge.Facts) { addTasks(f, 3, 0, sec, drill.Served) }, "unknown: nothing was refused"},
		{"baseline", drill.RefusedInBaseline, func(f *judge.Facts) {
			addTasks(f, 3, -10*sec, sec, drill.Served)
			addTasks(f, 2, -5*sec, sec, drill.Refused)
			addTasks(f, 2, 5*sec, sec, drill.Refused)
		}, "2 2 of 5 tasks"},
		{"within the limit", drill.OverLimit, func(f *judge.Facts) { addTasks(f, 9, 0, 2*sec, drill.Served) }, "0 in flight 2 of 2"},
		{"over the limit", drill.OverLimit, func(f *judge.Facts) { addTasks(f, 9, 0, 5*sec, drill.Served) }, "3 in flight 5 of 2"},
		{"warning", drill.TimeToWarn, func(f *judge.Facts) {
			addMessage(f, "a", "post", "warn", good, 10*sec) // before the disturbance
			addMessage(f, "b", "post", "warn", good, 50*sec)
			addMessage(f, "b", "reply", "page", good, 70*sec)
		}, "30 when the warning was accepted"},
		{"page at once is a warning too", drill.TimeToWarn, func(f *judge.Facts) { addMessage(f, "b", "post", "page", good, 70*sec) }, "50 when the warning was accepted"},
		{"an edit is no page", drill.TimeToPage, func(f *judge.Facts) { addMessage(f, "b", "edit", "page", good, 70*sec) }, "never: no page arrived within 180 s"},
		{"what Slack takes is real time", drill.TimeToPage, func(f *judge.Facts) {
			addMessage(f, "b", "post", "page", good, 100*sec)
			f.Evidence.Messages[0].FirstAttempt = testStart.Add(7 * sec) // 70 s into the scenario; accepted 3 s later
		}, "53 when the page was accepted"},
		{"Slack refuses", drill.TimeToWarn, func(f *judge.Facts) { f.Evidence.SlackCalls = 4 }, "never: no message was accepted by Slack, of 4 tries"},
		{"no attempt", drill.TimeToWarn, func(*judge.Facts) {}, "never: no message was accepted by Slack: no attempt"},
		{"too early to say never", drill.TimeToWarn, func(f *judge.Facts) { f.Complete = false }, "unknown: no message was accepted"},
		{"resolved", drill.TimeToResolve, func(f *judge.Facts) {
			addMessage(f, "a", "post", "warn", good, 50*sec)
			addMessage(f, "a", "reply", "resolved", good, 90*sec)
			addMessage(f, "b", "post", "page", good, 50*sec)
			addMessage(f, "b", "edit", "resolved", good, 120*sec)
		}, "60 when the resolved message was accepted"},
		{"one is not resolved", drill.TimeToResolve, func(f *judge.Facts) {
			addMessage(f, "a", "post", "warn", good, 50*sec)
			addMessage(f, "a", "reply", "resolved", good, 90*sec)
			addMessage(f, "b", "post", "page", good, 50*sec)
		}, "never: no resolved message arrived"},
		{"back after it was over", drill.TimeToResolve, func(f *judge.Facts) {
			addMessage(f, "a", "reply", "resolved", good, 90*sec)
			addMessage(f, "a", "reply", "warn", good, 95*sec)
		}, "never: no resolved message arrived"},
		{"pages", drill.Pages, func(f *judge.Facts) {
			addMessage(f, "a", "post", "page", good, 50*sec)
			addMessage(f, "b", "reply", "page", good, 60*sec)
			addMessage(f, "b", "edit", "page", good, 61*sec)
		}, "2 pages accepted"},
		{"good messages", drill.MessageFaults, func(f *judge.Facts) { addMessage(f, "a", "post", "warn", good, 50*sec) }, "0 every message"},
		{"no limit", drill.MessageFaults, func(f *judge.Facts) {
			addMessage(f, "a", "post", "warn", "DRILL · WARNING · it waits (pool default)", 50*sec)
		}, "1 a message about a breach does not say the value and the limit"},
		{"no pool", drill.MessageFaults, func(f *judge.Facts) {
			addMessage(f, "a", "post", "warn", "DRILL · WARNING · it waits: 16 s, limit 15 s\nrule `queue_age`", 50*sec)
		}, "1 a message does not name the pool"},
		{"of headgate itself", drill.MessageFaults, func(f *judge.Facts) {
			addMessage(f, "a", "post", "warn", "DRILL · WARNING · the record fails: 3 errors, limit 3 errors\nrule `journal_failing`", 50*sec)
			addMessage(f, "a", "reply", "resolved", "DRILL · Resolved after 3 s", 50*sec)
			addMessage(f, "a", "edit", "resolved", "DRILL · RESOLVED · the record fails\nrule `journal_failing`", 50*sec)
		}, "0 every message"},
		{"over in the thread alone", drill.MessageFaults, func(f *judge.Facts) {
			addMessage(f, "a", "post", "warn", good, 50*sec)
			addMessage(f, "a", "reply", "resolved", strings.Replace(good, "WARNING", "Resolved after 3 s", 1), 50*sec)
		}, "1 incident a has ended, and its message still says warn"},
		{"sent twice", drill.MessageFaults, func(f *judge.Facts) {
			addMessage(f, "a", "post", "warn", good, 50*sec)
			f.Evidence.DuplicateMessages = 2
		}, "2 2 messages were sent twice"},
		{"never a breach", drill.MessageFaults, func(f *judge.Facts) {
			for range 3 {
				addMessage(f, "a", "edit", "warn", strings.Replace(good, "16 s", "0 s", 1), 50*sec)
			}
		}, "1 no message about incident a says a value that breaches its limit"},
		{"untold", drill.MessagesLost, func(f *judge.Facts) {
			addMessage(f, "a", "post", "warn", good, 50*sec)
			f.Evidence.Incidents = []string{"a", "b"}
		}, "1 no message announced incident b"},
		{"drained", drill.DrainedWithin, func(f *judge.Facts) { addTasks(f, 5, 94*sec, 30*sec, drill.Served) }, "28 when the last task ended"},
		{"not drained", drill.DrainedWithin, func(f *judge.Facts) { addTasks(f, 1, 94*sec, 30*sec, drill.Pending) }, "never: task 0 has not ended"},
		{"lost", drill.TasksLost, func(f *judge.Facts) { addTasks(f, 1, 94*sec, 0, drill.Pending) }, "1 task 0 was never answered"},
		{"of the recovery", drill.TasksLost, func(f *judge.Facts) { addTasks(f, 1, 194*sec, 0, drill.Pending) }, "0 every task"},
		{"error without fault", drill.TasksLost, func(f *judge.Facts) { addTasks(f, 1, 0, sec, drill.Errored) }, "1 task 0 ended with an error"},
		{"error by a fault", drill.TasksLost, func(f *judge.Facts) {
			addTasks(f, 1, 0, sec, drill.Errored)
			f.Evidence.Calls[0].Fault = fault.Status
		}, "0 every task"},
		{"cut by the endpoint", drill.FalseCompletions, func(f *judge.Facts) {
			addTasks(f, 2, 0, sec, drill.Served)
			f.Evidence.Calls[1].Complete = false
		}, "1 task 1 ended as if it were whole, and the endpoint did not answer to the end"},
		{"other bytes", drill.FalseCompletions, func(f *judge.Facts) {
			addTasks(f, 2, 0, sec, drill.Served)
			f.Evidence.Calls[1].Checksum, f.Evidence.Calls[1].Bytes, f.Evidence.Tasks[1].Checksum, f.Evidence.Tasks[1].Bytes = 1, 9, 2, 5
		}, "1 task 1 ended as if it were whole, and its answer is not the endpoint's: 5 bytes of 9"},
		{"cut, and ended well", drill.FalseCompletions, func(f *judge.Facts) {
			addTasks(f, 2, 0, sec, drill.Broken)
			f.Evidence.Tasks[0].CleanEOF = true
		}, "1 task 0 ended as if it were whole, and its answer was cut"},
		{"cut, and broken off", drill.FalseCompletions, func(f *judge.Facts) {
			addTasks(f, 2, 0, sec, drill.Broken)
			addTasks(f, 1, 0, sec, drill.Served)
		}, "0 every answer"},
		{"no rollback", drill.RollbackTime, func(*judge.Facts) {}, "unknown: no rollback was ordered"},
		{"rollback", drill.RollbackTime, func(f *judge.Facts) { addRollback(f, 30) }, "0 29 tasks were admitted after it, and none refused"},
		{"rollback that ends early", drill.RollbackTime, func(f *judge.Facts) { addRollback(f, 10) }, "never: pass-through did not stop refusals"},
		{"drift", drill.ProductionDrift, func(f *judge.Facts) { f.Drift = drill.Reading{Measured: true, Value: 2, Reason: "tasks"} }, "2 tasks"},
		{"no such measure", "lateness", func(*judge.Facts) {}, "unknown: there is no such measure"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := judge.NewEvaluation(newFacts(c.change)).Measure(c.measure)
			got := fmt.Sprintf("%v %s", r.Value, r.Reason)
			switch {
			case !r.Measured:
				got = "unknown: " + r.Reason
			case r.NotObserved:
				got = "never: " + r.Reason
			}
			if !strings.HasPrefix(got, c.want) {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// addRollback adds a task a second: every second one is refused, but for a number of them
// after a rollback at 30 s. The last four before the restore at 60 s are admitted too, as
// happens by chance.
func addRollback(f *judge.Facts, admitted int) {
	rollback := drill.Step{Kind: drill.StepRollback, At: 30 * sec}
	restore := drill.Step{Kind: drill.StepRestore, At: 60 * sec}
	f.Run.Spec.Scenario.Steps = []drill.Step{rollback, restore}
	f.Steps = []judge.StepResult{{Step: rollback, Requested: 30 * sec, Completed: 30 * sec}, {Step: restore, Requested: 60 * sec, Completed: 60 * sec}}
	for n := range 60 {
		outcome := drill.Served
		if n%2 == 0 && (n < 30 || n >= 30+admitted && n < 56) {
			outcome = drill.Refused
		}
		addTasks(f, 1, time.Duration(n)*sec, sec/10, outcome)
	}
}

func TestMargins(t *testing.T) {
	for _, c := range []struct {
		text   string
		value  float64
		holds  bool
		margin float64
	}{
		{"late_share <= 10%", 0.08, true, 0.2},
		{"late_share <= 10%", 0.15, false, -0.5},
		{"refused_share >= 10%", 0.15, true, 0.5},
		{"pages == 2", 2, true, 0},
		{"pages == 2", 3, false, -0.5},
		{"tasks_lost == 0", 0, true, 0},
		{"tasks_lost == 0", 3, false, -3},
		{"tasks_lost <= 0", 2, false, -2},
	} {
		e, err := drill.ParseExpectation(c.text)
		if err != nil {
			t.Fatal(err)
		}
		if m := e.Margin(c.value); e.Holds(c.value) != c.holds || m < c.margin-1e-9 || m > c.margin+1e-9 {
			t.Errorf("%s of %v: %v, margin %v", c.text, c.value, e.Holds(c.value), m)
		}
		if e.String() != c.text {
			t.Errorf("%s is written %s", c.text, e)
		}
	}
}

// TestLiveSources: a live run sends nothing itself, so its tasks are seen where production takes them in.
func TestLiveSources(t *testing.T) {
	f := newFacts(func(f *judge.Facts) {
		f.Run.Spec.Target, f.Run.Spec.Share = drill.Live, 0.25
		f.Run.Spec.Scenario.Faults = []drill.Injection{{Fault: fault.Fault{Kind: fault.Status, Code: 503, Share: 1}, For: sec}}
		addTasks(f, 30, 0, sec, drill.Served)
	})
	twin := f
	twin.Run.Spec.Target = drill.Twin
	for _, m := range []drill.Measure{drill.ErrorShare, drill.TasksLost} {
		live, own := judge.NewEvaluation(f).Measure(m), judge.NewEvaluation(twin).Measure(m)
		if !live.Measured || live.Source == own.Source || strings.Contains(live.Source, "generator") {
			t.Errorf("%s: seen by %q live and by %q in a twin", m, live.Source, own.Source)
		}
	}
}

// testStart is when the scenario's time is 0.
var testStart = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// TestEveryMeasureIsRead: each measure of the table has a function that reads it.
func TestEveryMeasureIsRead(t *testing.T) {
	e := judge.NewEvaluation(judge.Facts{Drift: drill.Reading{Reason: "production was not observed"}})
	for _, m := range drill.Measures() {
		if r := e.Measure(m); r.Reason == "" || strings.Contains(r.Reason, "no such measure") {
			t.Errorf("%s: %+v", m, r)
		}
	}
}
