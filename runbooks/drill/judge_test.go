package drill_test

import (
	"strings"
	"testing"
	"time"

	"headgate/runbooks/drill"
)

// judgeBuiltIn plays a built-in drill to its end without a clock, and judges it.
func judgeBuiltIn(t *testing.T, id string, sab defects) (drill.Verdict, string, []drill.Hypothesis) {
	t.Helper()
	spec, ok := drill.Find(builtIn(t), id)
	if !ok {
		t.Fatalf("no drill %s", id)
	}
	f := simulatedFacts(spec, sab)
	return drill.Judge(f)
}

func simulatedFacts(spec drill.Spec, sab defects) drill.Facts {
	e := simulate(spec, sab)
	f := drill.Facts{
		Run: drill.Run{Spec: spec, Speed: spec.Speed}, ScenarioStart: testStart, Evidence: e, SteadyState: true, Complete: true,
		Drift:        drill.Reading{Measured: true, Samples: 10, Source: "production"},
		ClearResults: []drill.ClearResult{{Took: time.Millisecond, Confirmed: true}},
	}
	for _, st := range spec.Scenario.Steps {
		t := drill.StepResult{Step: st, Requested: st.At, Completed: st.At + tick/2}
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
		{"refusing everything", "burst", defects{alwaysRefuse: true}, drill.Failed, "although a worker was free and nobody waited"},
		{"refusing everything", "overload", defects{alwaysRefuse: true}, drill.Failed, "although a worker was free and nobody waited"},
		{"no Retry-After", "burst", defects{retryAfter: "none"}, drill.Failed, "refusals without Retry-After"},
		{"Retry-After 0", "overload", defects{retryAfter: "0"}, drill.Failed, `refusals with Retry-After "0"`},
		{"Retry-After far away", "burst", defects{retryAfter: "90"}, drill.Failed, `Retry-After "90"`},
		{"Retry-After a date", "rollback", defects{retryAfter: "Sun, 01 Mar 2026 12:00:00 GMT"}, drill.Failed, "which is not 1 to 60"},
		{"permit leak", "burst", defects{leak: 6}, drill.Failed, "permits do not come back"},
		{"permit leak", "hung-upstream", defects{leak: 6}, drill.Failed, "permits do not come back"},
		{"too many at once", "overload", defects{extraCalls: 1}, drill.Failed, "in flight 5 of 4"},
		{"Slack is dead", "alert-path", defects{slackDown: true}, drill.Failed, "no message was accepted by Slack, of 20 tries"},
		{"Slack stays dead", "slack-outage", defects{slackDown: true}, drill.Failed, "nobody was told of incident"},
		{"warn never fires", "alert-path", defects{neverWarn: true}, drill.Failed, "told too late"},
		{"page never fires", "alert-path", defects{neverPage: true}, drill.Failed, "a page never came"},
		{"never resolved", "alert-path", defects{neverResolve: true}, drill.Failed, "message that all is over never came"},
		{"wrong pool", "alert-path", defects{pool: "other"}, drill.Failed, `names pool "other", not default`},
		{"wrong pool", "burst", defects{pool: "other"}, drill.Failed, `names pool "other", not default`},
		{"not marked", "alert-path", defects{noDrillMark: true}, drill.Failed, "does not say DRILL"},
		{"told late", "alert-path", defects{messageDelay: 10 * time.Minute}, drill.Failed, "told too late"},
		{"rollback only said", "rollback", defects{rollbackIgnored: true}, drill.Failed, "pass-through did not stop refusals"},
		{"restore only said", "rollback", defects{restoreIgnored: true}, drill.Failed, "nothing was refused after the restore"},
		{"faults without effect", "slow-upstream", defects{faultsHaveNoEffect: true}, drill.Inconclusive, "the endpoint did not slow down"},
		{"faults without effect", "upstream-errors", defects{faultsHaveNoEffect: true}, drill.Inconclusive, "injection not confirmed: the endpoint did not fail"},
		{"faults stay", "upstream-errors", defects{faultsNotCleared: true}, drill.Failed, "it did not clear"},
		{"endpoint never slows", "burst", defects{instantEndpoint: true}, drill.Inconclusive, "the endpoint did not take its time"},
		{"endpoint never slows", "overload", defects{instantEndpoint: true}, drill.Inconclusive, "the endpoint did not take its time"},
		{"cut but whole", "truncated-streams", defects{falseCompletions: true}, drill.Failed, "fault truncate had broken its answer"},
		{"errors look whole", "upstream-errors", defects{falseCompletions: true}, drill.Failed, "fault status had broken its answer"},
		{"other answers", "burst", defects{alteredAnswers: true}, drill.Failed, "got another answer than the endpoint gave"},
		{"called twice", "burst", defects{duplicateCalls: true}, drill.Failed, "was called 2 times for task 40"},
		{"refused and called", "overload", defects{callsForRefused: true}, drill.Failed, "refused tasks reached the endpoint"},
		{"task lost", "burst", defects{loseTask: true}, drill.Failed, "task 40 was never answered"},
		{"answers held back", "burst", defects{delayAnswers: true}, drill.Failed, "after the endpoint was done with them"},
		{"errors out of nothing", "database-locked", defects{spuriousErrors: true}, drill.Failed, "no fault had befallen it"},
		{"half the load", "burst", defects{generatorBehind: true}, drill.Inconclusive, "the generator sent"},
		{"half the load, as planned", "upstream-errors", defects{halfLoad: true}, drill.Inconclusive, "the load did not come as it should"},
		{"half the burst", "burst", defects{halfLoad: true}, drill.Inconclusive, "the burst from 120s did not come"},
		{"last come first served", "burst", defects{lifo: true}, drill.Failed, "not served in the order in which they came"},
		{"an age that stays", "burst", defects{stuckAge: true}, drill.Failed, "the queue was neither long nor old"},
		{"a rollback drops who waits", "rollback", defects{dropQueue: true}, drill.Failed, "tasks that waited were turned away by the rollback"},
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
