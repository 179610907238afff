package drilltest

import (
	"bytes"
	"encoding/json"
	"errors"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"headgate/e2e/harness"
)

// runResult is a run, and how the command that waited for it ended.
type runResult struct {
	harness.DrillRun
	exitCode int
}

// AssertDetected runs the drill of a fault on a program with the fault, and fails the
// test unless the verdict names the broken part.
func (f Fault) AssertDetected(t *testing.T, program string, speed float64) {
	gate := StartGate(t, harness.Settings{Program: program, Env: []string{active(f.Name)}})
	named := regexp.MustCompile(f.Want)
	r := runUntilConclusive(t, gate, program, f.Drill, speed, func(r runResult) bool { return named.MatchString(r.Reason) })
	t.Logf("%s, %s: %s: %s", f.Name, f.Drill, r.Verdict, r.Reason)
	if r.exitCode != 4 || r.Verdict != "failed" && r.Verdict != "inconclusive" {
		t.Errorf("the drill %s ended %s with exit code %d: %s", f.Drill, r.Verdict, r.exitCode, r.Reason)
	}
	if !named.MatchString(r.Reason) {
		t.Errorf("the reason does not name the broken part, as %q: %s", f.Want, r.Reason)
	}
}

// AssertPasses runs a drill on a program without an active fault. The drill has to
// pass, unless every attempt reports that the machine was too busy.
func AssertPasses(t *testing.T, program, drill string, speed float64) {
	gate := StartGate(t, harness.Settings{Program: program})
	r := runUntilConclusive(t, gate, program, drill, speed, func(runResult) bool { return false })
	t.Logf("%s: %s: %s", drill, r.Verdict, r.Reason)
	tooBusy := r.Verdict == "inconclusive" && r.exitCode == 4 && strings.Contains(r.Reason, busy)
	if !tooBusy && (r.Verdict != "passed" || r.exitCode != 0) {
		t.Errorf("%s ended %s with exit code %d: %s", drill, r.Verdict, r.exitCode, r.Reason)
	}
}

// maxAttempts is how often a drill is run while it reports that the machine is too busy
// for its speed. The last attempt runs at half the speed.
const maxAttempts = 4

// runUntilConclusive runs a drill until its verdict is another one than that the machine
// was too busy, or until accept takes the run.
func runUntilConclusive(
	t *testing.T, gate *harness.Gate, program, drill string, speed float64, accept func(runResult) bool,
) (r runResult) {
	t.Helper()
	for attempt := 1; attempt <= maxAttempts; attempt++ {
		if attempt == maxAttempts {
			speed /= 2
		}
		r = runDrillCommand(t, gate, program, drill, speed)
		if r.Verdict != "inconclusive" || !strings.Contains(r.Reason, busy) || accept(r) {
			break
		}
		t.Logf("attempt %d of %s: %s", attempt, drill, r.Reason)
	}
	return r
}

const busy = "the machine is too busy for this speed"

// StartGate starts a gate. Unless the settings name an endpoint, its endpoint refuses
// connections: production is idle.
func StartGate(t *testing.T, s harness.Settings) *harness.Gate {
	t.Helper()
	if s.Upstream == "" {
		s.Upstream = "http://127.0.0.1:9/v1"
	}
	return harness.StartGate(t, s)
}

// runDrillCommand runs a drill by the command line and waits for its end.
func runDrillCommand(t *testing.T, gate *harness.Gate, program, drill string, speed float64) runResult {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, "drill", "run", drill, "--wait", "--json",
		"--speed", strconv.FormatFloat(speed, 'g', -1, 64), "--admin", gate.Admin)
	cmd.Dir = gate.Dir()
	token, err := gate.Token()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Env = []string{"HOME=" + gate.Dir(), "HEADGATE_TOKEN=" + token}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	var r runResult
	if err := cmd.Run(); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			t.Fatal(err)
		}
		r.exitCode = exit.ExitCode()
	}
	if err := json.Unmarshal(stdout.Bytes(), &r); err != nil {
		t.Fatalf("exit code %d, stdout %q, stderr %s: %v", r.exitCode, stdout.String(), stderr.String(), err)
	}
	return r
}

// BuiltinDrills returns the IDs of the built-in drills.
func BuiltinDrills(t *testing.T, program string) (ids []string) {
	t.Helper()
	gate := StartGate(t, harness.Settings{Program: program})
	for _, d := range harness.Get[harness.List[struct{ ID string }]](t, gate, "drills").Items {
		ids = append(ids, d.ID)
	}
	if len(ids) < 11 {
		t.Fatalf("%d built-in drills, want at least 11: %v", len(ids), ids)
	}
	return ids
}
