package rig

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
	"headgate/e2e/sabotage"
)

// Run is what came of a drill, as the command line tells it.
type Run struct {
	ID      string `json:"id"`
	Drill   string `json:"drill"`
	Status  string `json:"status"`
	Verdict string `json:"verdict"`
	Reason  string `json:"reason"`
	Phases  []struct {
		Name string `json:"name"`
	} `json:"phases"`
	Code int `json:"-"` // that the command ended with
}

// Try lets the drill of a fault run at a speed on a program with the fault, and
// fails the test unless the verdict names the broken part.
func (f Fault) Try(t *testing.T, program string, speed float64) {
	gate := Serve(t, harness.Settings{Program: program, Env: []string{sabotage.Variable + "=" + f.Name}})
	named := regexp.MustCompile(f.Want)
	r := Sure(t, gate, program, f.Drill, speed, func(r Run) bool { return named.MatchString(r.Reason) })
	t.Logf("%s, %s: %s: %s", f.Name, f.Drill, r.Verdict, r.Reason)
	if r.Code != 4 || r.Verdict != "failed" && r.Verdict != "inconclusive" {
		t.Errorf("the drill %s ended %s with exit code %d: %s", f.Drill, r.Verdict, r.Code, r.Reason)
	}
	if !named.MatchString(r.Reason) {
		t.Errorf("the reason does not name the broken part, as %q: %s", f.Want, r.Reason)
	}
}

// Passes runs a drill on a program without a fault. It has to pass, unless it says
// again and again that the machine was too busy.
func Passes(t *testing.T, program, drill string, speed float64) {
	gate := Serve(t, harness.Settings{Program: program})
	r := Sure(t, gate, program, drill, speed, func(Run) bool { return false })
	t.Logf("%s: %s: %s", drill, r.Verdict, r.Reason)
	honest := r.Verdict == "inconclusive" && r.Code == 4 && strings.Contains(r.Reason, busy)
	if !honest && (r.Verdict != "passed" || r.Code != 0) {
		t.Errorf("%s ended %s with exit code %d: %s", drill, r.Verdict, r.Code, r.Reason)
	}
}

// tries is how often a drill is run when the machine is too busy for it, which is
// said then and no fault of anybody. The last try goes slower.
const tries = 4

// Sure runs a drill until it says more than that the machine was too busy, or enough.
func Sure(t *testing.T, gate *harness.Gate, program, drill string, speed float64, enough func(Run) bool) (r Run) {
	t.Helper()
	for try := 1; try <= tries; try++ {
		if try == tries {
			speed /= 2
		}
		r = Drill(t, gate, program, drill, speed)
		if r.Verdict != "inconclusive" || !strings.Contains(r.Reason, busy) || enough(r) {
			break
		}
		t.Logf("try %d of %s: %s", try, drill, r.Reason)
	}
	return r
}

const busy = "the machine is too busy for this speed"

// Serve starts a gate in front of an endpoint that nobody answers at: production has
// nothing to do.
func Serve(t *testing.T, s harness.Settings) *harness.Gate {
	t.Helper()
	if s.Upstream == "" {
		s.Upstream = "http://127.0.0.1:9/v1"
	}
	return harness.StartGate(t, s)
}

// Drill runs a drill by the command line and waits for its end.
func Drill(t *testing.T, gate *harness.Gate, program, drill string, speed float64) Run {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, "drill", "run", drill, "--wait", "--json",
		"--speed", strconv.FormatFloat(speed, 'g', -1, 64), "--admin", gate.Admin)
	cmd.Dir = gate.Dir()
	cmd.Env = []string{"HOME=" + gate.Dir(), "HEADGATE_TOKEN=" + Token(t, gate)}
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	var r Run
	if err := cmd.Run(); err != nil {
		var ended *exec.ExitError
		if !errors.As(err, &ended) {
			t.Fatal(err)
		}
		r.Code = ended.ExitCode()
	}
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatalf("the command ended with %d and printed %q, said %s: %v", r.Code, out.String(), said.String(), err)
	}
	return r
}

// Token is the token of a gate's admin API.
func Token(t testing.TB, gate *harness.Gate) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(gate.Dir(), "data", "headgate.token"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// Drills are the built-in ones, by ID.
func Drills(t *testing.T, program string) (ids []string) {
	t.Helper()
	gate := Serve(t, harness.Settings{Program: program})
	var list struct{ Items []struct{ ID string } }
	ask(t, gate, "GET", "/api/v1/drills", "", &list)
	for _, d := range list.Items {
		ids = append(ids, d.ID)
	}
	if len(ids) < 11 {
		t.Fatalf("there are %d built-in drills: %v", len(ids), ids)
	}
	return ids
}
