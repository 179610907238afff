package spec_test

import (
	"encoding/json"
	"flag"
	"os"
	"reflect"
	"testing"
	"time"

	"headgate/proxy/fault"
	"headgate/runbooks/drill"
)

var update = flag.Bool("update", false, "write the golden files")

// TestRunAsJSON pins the keys that others rely on.
func TestRunAsJSON(t *testing.T) {
	at := func(s int) time.Time { return time.Date(2026, 3, 1, 12, 0, s, 0, time.UTC) }
	run := drill.Run{
		ID: "0199a0b0-0000-7000-8000-000000000001", Drill: "weekly", Name: "Weekly", Version: "v1", Trigger: drill.BySchedule, Actor: "schedule",
		Speed: 10, Scheduled: at(0), Started: at(1), Ended: at(60), Status: drill.Ended, Verdict: drill.Failed, Reason: "it broke",
		Phases: []drill.Phase{{Name: drill.PhaseClaim, Started: at(1), Ended: at(2), Note: "n"}},
		Hypotheses: []drill.Hypothesis{{
			Expectation: drill.Expectation{Measure: drill.LateShare, Compare: drill.AtMost, Limit: 0.05, Unit: "ratio"},
			Measured:    true, Value: 0.1, Margin: -1, Evidence: "load generator, 30 samples", Reason: "3 of 30",
		}},
		Reverts:  []drill.RevertResult{{What: "all faults", At: at(50), Took: 3 * time.Millisecond, OK: true, Note: "1 calls were let go"}},
		Messages: []drill.Message{{Incident: "i", Kind: "post", Level: "warn", Channel: "C1", Text: "DRILL", FirstAttempt: at(30), Accepted: at(31)}},
		Series:   []drill.Point{{At: 1, Turnaround: -1, QueueAge: 0.5, Depth: 1, InFlight: 2, Arrived: 3, Served: 1, Refused: 1, Errors: 1}},
		Injected: 4, ClearTook: 3 * time.Millisecond, Recovered: 40 * time.Second, Fence: 7, Live: true,
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
	var back drill.Run
	if err := json.Unmarshal(got, &back); err != nil {
		t.Fatal(err)
	}
	run.Fence = 0 // of the record alone
	if !reflect.DeepEqual(back, run) {
		t.Errorf("a run is read back as\n%+v\nwant\n%+v", back, run)
	}
}
