package drill_test

import (
	"strings"
	"testing"
	"time"

	"headgate/runbooks/drill"
)

// judged plays a built-in drill to its end without a clock, and judges it.
func judged(t *testing.T, id string, sab sabotage) (drill.Verdict, string, []drill.Hypothesis) {
	t.Helper()
	spec, ok := drill.Find(builtIn(t), id)
	if !ok {
		t.Fatalf("no drill %s", id)
	}
	f := factsOf(spec, sab)
	return drill.Judge(f)
}

func factsOf(spec drill.Spec, sab sabotage) drill.Facts {
	e := play(spec, sab)
	f := drill.Facts{
		Run: drill.Run{Spec: spec, Speed: spec.Speed}, Zero: zero, Evidence: e, Steady: true, Over: true,
		Drift:  drill.Reading{Known: true, Samples: 10, Seen: "production"},
		Clears: []drill.Cleared{{Took: time.Millisecond, Confirmed: true}},
	}
	for _, st := range spec.Scenario.Steps {
		t := drill.Taken{Step: st, Ordered: st.At, Answered: st.At + tick/2}
		if st.For > 0 {
			t.Undone, t.Back = st.At+st.For, true
		}
		f.Taken = append(f.Taken, t)
	}
	return f
}

func TestBuiltInsPassOnWhatWorks(t *testing.T) {
	for _, s := range builtIn(t) {
		t.Run(s.ID, func(t *testing.T) {
			verdict, reason, all := judged(t, s.ID, sabotage{})
			if verdict != drill.Passed {
				t.Errorf("%s: %s", verdict, reason)
			}
			for _, h := range all {
				t.Logf("%-70s %v %.3f margin %.2f (%s; %s)", h.Expectation, h.Known, h.Value, h.Margin, h.Evidence, h.Why)
			}
		})
	}
}

// TestBrokenPartsAreNamed breaks one part after the other.
func TestBrokenPartsAreNamed(t *testing.T) {
	for _, c := range []struct {
		name, drill string
		sab         sabotage
		verdict     drill.Verdict
		want        string
	}{
		{"refusals off", "burst", sabotage{neverRefuse: true}, drill.Failed, "the gate does not refuse"},
		{"refusals off", "overload", sabotage{neverRefuse: true}, drill.Failed, "the gate does not refuse"},
		{"refusals off", "slow-upstream", sabotage{neverRefuse: true}, drill.Failed, "the gate does not refuse"},
		{"refusals off", "worker-loss", sabotage{neverRefuse: true}, drill.Failed, "the gate does not refuse"},
		{"refusing everything", "burst", sabotage{alwaysRefuse: true}, drill.Failed, "although a worker was free and nobody waited"},
		{"refusing everything", "overload", sabotage{alwaysRefuse: true}, drill.Failed, "although a worker was free and nobody waited"},
		{"no Retry-After", "burst", sabotage{retryAfter: "none"}, drill.Failed, "refusals without Retry-After"},
		{"Retry-After 0", "overload", sabotage{retryAfter: "0"}, drill.Failed, `refusals with Retry-After "0"`},
		{"Retry-After far away", "burst", sabotage{retryAfter: "90"}, drill.Failed, `Retry-After "90"`},
		{"Retry-After a date", "rollback", sabotage{retryAfter: "Sun, 01 Mar 2026 12:00:00 GMT"}, drill.Failed, "which is not 1 to 60"},
		{"permit leak", "burst", sabotage{leak: 6}, drill.Failed, "permits do not come back"},
		{"permit leak", "hung-upstream", sabotage{leak: 6}, drill.Failed, "permits do not come back"},
		{"too many at once", "overload", sabotage{extra: 1}, drill.Failed, "in flight 5 of 4"},
		{"Slack is dead", "alert-path", sabotage{slackDead: true}, drill.Failed, "no message was accepted by Slack, of 20 tries"},
		{"Slack stays dead", "slack-outage", sabotage{slackDead: true}, drill.Failed, "nobody was told of incident"},
		{"warn never fires", "alert-path", sabotage{neverWarn: true}, drill.Failed, "told too late"},
		{"page never fires", "alert-path", sabotage{neverPage: true}, drill.Failed, "a page never came"},
		{"never resolved", "alert-path", sabotage{neverResolve: true}, drill.Failed, "message that all is over never came"},
		{"wrong pool", "alert-path", sabotage{pool: "other"}, drill.Failed, `names pool "other", not default`},
		{"wrong pool", "burst", sabotage{pool: "other"}, drill.Failed, `names pool "other", not default`},
		{"not marked", "alert-path", sabotage{plain: true}, drill.Failed, "does not say DRILL"},
		{"told late", "alert-path", sabotage{lateTold: 10 * time.Minute}, drill.Failed, "told too late"},
		{"rollback only said", "rollback", sabotage{flipSaid: true}, drill.Failed, "pass-through did not stop refusals"},
		{"restore only said", "rollback", sabotage{restoreSaid: true}, drill.Failed, "nothing was refused after the restore"},
		{"faults without effect", "slow-upstream", sabotage{faultsIdle: true}, drill.Inconclusive, "the endpoint did not slow down"},
		{"faults without effect", "upstream-errors", sabotage{faultsIdle: true}, drill.Inconclusive, "injection not confirmed: the endpoint did not fail"},
		{"faults stay", "upstream-errors", sabotage{faultsStay: true}, drill.Failed, "it did not clear"},
		{"endpoint never slows", "burst", sabotage{quick: true}, drill.Inconclusive, "the endpoint did not take its time"},
		{"endpoint never slows", "overload", sabotage{quick: true}, drill.Inconclusive, "the endpoint did not take its time"},
		{"cut but whole", "truncated-streams", sabotage{wholeLies: true}, drill.Failed, "fault truncate had broken its answer"},
		{"errors look whole", "upstream-errors", sabotage{wholeLies: true}, drill.Failed, "fault status had broken its answer"},
		{"other answers", "burst", sabotage{changed: true}, drill.Failed, "got another answer than the endpoint gave"},
		{"called twice", "burst", sabotage{twice: true}, drill.Failed, "was called 2 times for task 40"},
		{"refused and called", "overload", sabotage{callsRefused: true}, drill.Failed, "refused tasks reached the endpoint"},
		{"task lost", "burst", sabotage{lose: true}, drill.Failed, "task 40 was never answered"},
		{"answers held back", "burst", sabotage{hold: true}, drill.Failed, "after the endpoint was done with them"},
		{"errors out of nothing", "database-locked", sabotage{errors: true}, drill.Failed, "no fault had befallen it"},
		{"half the load", "burst", sabotage{lazy: true}, drill.Inconclusive, "the generator sent"},
		{"half the load, as planned", "upstream-errors", sabotage{half: true}, drill.Inconclusive, "the load did not come as it should"},
		{"half the burst", "burst", sabotage{half: true}, drill.Inconclusive, "the burst from 120s did not come"},
		{"last come first served", "burst", sabotage{lifo: true}, drill.Failed, "not served in the order in which they came"},
		{"an age that stays", "burst", sabotage{stuckAge: true}, drill.Failed, "the queue was neither long nor old"},
		{"a rollback drops who waits", "rollback", sabotage{dropQueue: true}, drill.Failed, "tasks that waited were turned away by the rollback"},
		{"record not locked", "database-locked", sabotage{unlocked: true}, drill.Inconclusive, "the record was not locked: it could be written at 101 s"},
		{"crowded endpoint", "upstream-errors", sabotage{crowded: true}, drill.Inconclusive, "the endpoint was overloaded"},
	} {
		t.Run(c.name+" "+c.drill, func(t *testing.T) {
			verdict, reason, _ := judged(t, c.drill, c.sab)
			if verdict != c.verdict || !strings.Contains(reason, c.want) {
				t.Errorf("%s: %s\nwant %s: ...%s", verdict, reason, c.verdict, c.want)
			}
		})
	}
}
