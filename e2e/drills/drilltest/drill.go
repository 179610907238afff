package drilltest

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"headgate/e2e/harness"
)

// Run is the result of a drill, as the command line prints it.
type Run struct {
	ID      string `json:"id"`
	Drill   string `json:"drill"`
	Status  string `json:"status"`
	Verdict string `json:"verdict"`
	Reason  string `json:"reason"`
	Phases  []struct {
		Name string `json:"name"`
	} `json:"phases"`
	Code int `json:"-"` // exit code of the command
}

// AssertDetected runs the drill of a fault on a program with the fault, and fails the
// test unless the verdict names the broken part.
func (f Fault) AssertDetected(t *testing.T, program string, speed float64) {
	gate := StartGate(t, harness.Settings{Program: program, Env: []string{active(f.Name)}})
	named := regexp.MustCompile(f.Want)
	r := runUntilConclusive(t, gate, program, f.Drill, speed, func(r Run) bool { return named.MatchString(r.Reason) })
	t.Logf("%s, %s: %s: %s", f.Name, f.Drill, r.Verdict, r.Reason)
	if r.Code != 4 || r.Verdict != "failed" && r.Verdict != "inconclusive" {
		t.Errorf("the drill %s ended %s with exit code %d: %s", f.Drill, r.Verdict, r.Code, r.Reason)
	}
	if !named.MatchString(r.Reason) {
		t.Errorf("the reason does not name the broken part, as %q: %s", f.Want, r.Reason)
	}
}

// AssertPasses runs a drill on a program without an active fault. The drill has to
// pass, unless every attempt reports that the machine was too busy.
func AssertPasses(t *testing.T, program, drill string, speed float64) {
	gate := StartGate(t, harness.Settings{Program: program})
	r := runUntilConclusive(t, gate, program, drill, speed, func(Run) bool { return false })
	t.Logf("%s: %s: %s", drill, r.Verdict, r.Reason)
	tooBusy := r.Verdict == "inconclusive" && r.Code == 4 && strings.Contains(r.Reason, busy)
	if !tooBusy && (r.Verdict != "passed" || r.Code != 0) {
		t.Errorf("%s ended %s with exit code %d: %s", drill, r.Verdict, r.Code, r.Reason)
	}
}

// maxAttempts is how often a drill is run while it reports that the machine is too busy
// for its speed. The last attempt runs at half the speed.
const maxAttempts = 4

// runUntilConclusive runs a drill until its verdict is another one than that the machine
// was too busy, or until accept takes the run.
func runUntilConclusive(
	t *testing.T, gate *harness.Gate, program, drill string, speed float64, accept func(Run) bool,
) (r Run) {
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
func runDrillCommand(t *testing.T, gate *harness.Gate, program, drill string, speed float64) Run {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, "drill", "run", drill, "--wait", "--json",
		"--speed", strconv.FormatFloat(speed, 'g', -1, 64), "--admin", gate.Admin)
	cmd.Dir = gate.Dir()
	cmd.Env = []string{"HOME=" + gate.Dir(), "HEADGATE_TOKEN=" + adminToken(t, gate)}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	var r Run
	if err := cmd.Run(); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			t.Fatal(err)
		}
		r.Code = exit.ExitCode()
	}
	if err := json.Unmarshal(stdout.Bytes(), &r); err != nil {
		t.Fatalf("exit code %d, stdout %q, stderr %s: %v", r.Code, stdout.String(), stderr.String(), err)
	}
	return r
}

// adminToken reads the token of a gate's admin API.
func adminToken(t testing.TB, gate *harness.Gate) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(gate.Dir(), "data", "headgate.token"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// BuiltinDrills returns the IDs of the built-in drills.
func BuiltinDrills(t *testing.T, program string) (ids []string) {
	t.Helper()
	gate := StartGate(t, harness.Settings{Program: program})
	var list struct{ Items []struct{ ID string } }
	callAPI(t, gate, "GET", "/api/v1/drills", "", &list)
	for _, d := range list.Items {
		ids = append(ids, d.ID)
	}
	if len(ids) < 11 {
		t.Fatalf("%d built-in drills, want at least 11: %v", len(ids), ids)
	}
	return ids
}
