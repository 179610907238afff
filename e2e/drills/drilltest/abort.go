package drilltest

import (
	"strings"
	"testing"

	"headgate/e2e/harness"
)

// abortDuringFault aborts a drill by the API while its injected fault is in force, and
// returns the run.
func abortDuringFault(t *testing.T, program, fault string) harness.DrillRun {
	t.Helper()
	gate := StartGate(t, harness.Settings{Program: program, Env: []string{active(fault)}})
	c := Crash{Drill: "upstream-errors", Phase: "hold"}
	return abortRun(t, gate, c.awaitPhase(t, gate))
}

// AssertAborts aborts a drill whose injected faults clear, which must end as aborted,
// and one whose faults do not clear, which must end as failed.
func AssertAborts(t *testing.T, program string) {
	if r := abortDuringFault(t, program, ""); r.Verdict != "aborted" || !strings.Contains(r.Reason, "enough") {
		t.Errorf("the run ended %s: %s", r.Verdict, r.Reason)
	}
	r := abortDuringFault(t, program, "faults do not end")
	if r.Verdict != "failed" || !strings.Contains(r.Reason, "did not clear") || !strings.Contains(r.Reason, "enough") {
		t.Errorf("with faults that do not end the run ended %s: %s", r.Verdict, r.Reason)
	}
}
