package drill_test

import (
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"headgate/proxy/fault"
	"headgate/runbooks/drill"
)

var update = flag.Bool("update", false, "write the golden files")

// TestMissingEvidenceDoesNotPass: without something to judge by, a run has not passed.
func TestMissingEvidenceDoesNotPass(t *testing.T) {
	spec, _ := drill.Find(builtIn(t), "upstream-errors")
	for _, c := range []struct {
		name    string
		change  func(f *drill.Facts)
		verdict drill.Verdict
		want    string
	}{
		{"all is seen", func(*drill.Facts) {}, drill.Passed, "all 9 hypotheses held"},
		{"nothing was sent", func(f *drill.Facts) { f.Evidence.Tasks, f.Evidence.Calls, f.Evidence.Planned = nil, nil, 0 }, drill.Inconclusive, "only 0 tasks were sent"},
		{"the generator stood still", func(f *drill.Facts) { f.Evidence.Tasks = f.Evidence.Tasks[:40] }, drill.Failed, "belong to no task that was sent"},
		{"eyes closed", func(f *drill.Facts) { f.Evidence.StaleReason = "the book is lost" }, drill.Inconclusive, "not all was seen: the book is lost"},
		{"rate not kept", func(f *drill.Facts) { f.Evidence.KeptRate, f.Evidence.RateNote = false, "too busy" }, drill.Inconclusive, "the generator did not keep its rate: too busy"},
		{"nobody looked at production", func(f *drill.Facts) { f.Drift = drill.Reading{Reason: "no answer"} }, drill.Inconclusive, "production_drift is not known: no answer"},
		{"production was touched", func(f *drill.Facts) { f.Drift.Value = 2; f.Drift.Reason = "2 tasks of the drill" }, drill.Failed, "2 tasks of the drill"},
		{"nothing was expected", func(f *drill.Facts) { f.Run.Spec.Expect = nil }, drill.Inconclusive, "nothing was checked"},
		{"not as before", func(f *drill.Facts) { f.SteadyState, f.UnsteadyReason = false, "3 of 9 tasks were late" }, drill.Failed, "after 300s all was not as before: 3 of 9 tasks were late"},
		{"not cleared", func(f *drill.Facts) { f.ClearResults = []drill.ClearResult{{Held: 2}} }, drill.Failed, "the faults did not clear: 2 calls are still held"},
		{"cleared slowly", func(f *drill.Facts) {
			f.ClearResults = []drill.ClearResult{{Took: 1500 * time.Millisecond, Confirmed: true}}
		}, drill.Failed, "clearing the faults took 1.5 s, of at most 1"},
		{"nobody was befallen", func(f *drill.Facts) {
			for i := range f.Evidence.Calls {
				f.Evidence.Calls[i].Fault = ""
			}
		}, drill.Failed, "no fault had befallen it"},
		{"half of those that should be", func(f *drill.Facts) {
			for i := range f.Evidence.Calls {
				if c := &f.Evidence.Calls[i]; c.Fault != "" && i%3 > 0 {
					c.Fault, c.Status, c.Reached, c.Complete, c.Arrived, c.Finished = "", 200, true, true, c.Started, c.Started+5*time.Second
					f.Evidence.Tasks[c.Task].Outcome = drill.Served
				}
			}
		}, drill.Inconclusive, "injection not confirmed: fault status befell"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := simulatedFacts(spec, defects{})
			c.change(&f)
			verdict, reason, _ := drill.Judge(f)
			if verdict != c.verdict || !strings.Contains(reason, c.want) {
				t.Errorf("%s: %s\nwant %s: %s", verdict, reason, c.verdict, c.want)
			}
		})
	}
}

// TestRunAsJSON pins the keys that others rely on.
func TestRunAsJSON(t *testing.T) {
	at := func(s int) time.Time { return testStart.Add(time.Duration(s) * time.Second) }
	run := drill.Run{
		ID: "0199a0b0-0000-7000-8000-000000000001", Drill: "weekly", Name: "Weekly", Version: "v1", Trigger: drill.BySchedule, Actor: "schedule",
		Speed: 10, Scheduled: at(0), Started: at(1), Ended: at(60), Status: drill.Ended, Verdict: drill.Failed, Reason: "it broke",
		Phases: []drill.Phase{{Name: drill.PhaseClaim, Started: at(1), Ended: at(2), Note: "n"}},
		Hypotheses: []drill.Hypothesis{{
			Expectation: drill.Expectation{Measure: drill.LateShare, Compare: drill.AtMost, Limit: 0.05, Unit: "ratio"},
			Measured:    true, Value: 0.1, Margin: -1, Evidence: "load generator, 30 samples", Reason: "3 of 30",
		}},
		UndoResults: []drill.UndoResult{{What: "all faults", At: at(50), Took: 3 * time.Millisecond, OK: true, Note: "1 calls were let go"}},
		Messages:    []drill.Message{{Incident: "i", Kind: "post", Level: "warn", Channel: "C1", Text: "DRILL", FirstAttempt: at(30), Accepted: at(31)}},
		Series:      []drill.Point{{At: 1, Turnaround: -1, QueueAge: 0.5, Depth: 1, InFlight: 2, Arrived: 3, Served: 1, Refused: 1, Errors: 1}},
		Injected:    4, ClearTook: 3 * time.Millisecond, Recovered: 40 * time.Second, Fence: 7,
		Spec: parse(t, fullSpec),
	}
	run.Spec.Scenario.Faults = append(run.Spec.Scenario.Faults, drill.Injection{Fault: fault.Fault{Kind: fault.Truncate, Share: 1, AfterBytes: 200}, For: time.Second})
	got, err := json.MarshalIndent(run, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	const file = "testdata/run.json"
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, append(got, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(got)+"\n" != string(want) {
		t.Errorf("a run is written\n%s", got)
	}
	checkJSONRoundTrip(t, run)
}
