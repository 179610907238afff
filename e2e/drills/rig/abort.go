package rig

import (
	"strings"
	"testing"

	"headgate/e2e/harness"
	"headgate/e2e/sabotage"
)

// Abort stops a drill while its fault is in force, by the API, and returns what came
// of it.
func Abort(t *testing.T, program, fault string) Run {
	t.Helper()
	gate := Serve(t, harness.Settings{Program: program, Env: []string{sabotage.Variable + "=" + fault}})
	var begun struct{ Run string }
	ask(t, gate, "POST", "/api/v1/drills/upstream-errors/run", `{"speed":20}`, &begun)
	k := Kill{Drill: "upstream-errors", Phase: "hold"}
	harness.Until(t, "the fault is in force", func() bool { return k.reached(t, gate, begun.Run) })
	ask(t, gate, "POST", "/api/v1/runs/"+begun.Run+"/abort", `{"reason":"enough"}`, nil)
	harness.Until(t, "the run has ended", func() bool { return show(t, gate, begun.Run).Status == "ended" })
	return show(t, gate, begun.Run)
}

// Aborts aborts a drill whose faults clear, and one whose faults do not: only then is
// it no more than aborted.
func Aborts(t *testing.T, program string) {
	if r := Abort(t, program, ""); r.Verdict != "aborted" || !strings.Contains(r.Reason, "enough") {
		t.Errorf("it ended %s: %s", r.Verdict, r.Reason)
	}
	if r := Abort(t, program, "faults do not end"); r.Verdict != "failed" || !strings.Contains(r.Reason, "did not clear") || !strings.Contains(r.Reason, "enough") {
		t.Errorf("with faults that do not end it ended %s: %s", r.Verdict, r.Reason)
	}
}
