package drilltest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"headgate/e2e/harness"
	"headgate/e2e/mutation"
	"headgate/internal/modelstub"
)

// Phases returns the phases of a run in which the process can be killed.
func Phases() []string {
	return []string{"claim", "preflight", "brakes", "baseline", "inject", "hold", "clear", "recover", "verdict"}
}

// holdInPhase makes a run stay in a phase until the process is killed: some phases end
// within milliseconds.
func holdInPhase() []mutation.Edit {
	return []mutation.Edit{
		runDrill.After(mutation.Call("stop")).Code(`if mutated("stays in claim") { <-a.ctx.Done() }`),
		enterPhase.Start().Code(`if mutated("stays in " + string(name)) { defer func() { <-a.ctx.Done() }() }`),
	}
}

// holdFault is the name of the fault that makes a run stay in a phase.
func holdFault(phase string) string { return "stays in " + phase }

// crashConfig has a sandbox drill named killed and a live drill, each with a schedule.
const crashConfig = `
drills:
  - id: killed
    name: Killed
    schedule: "30 4 29 2 *" # one day in four years, so never while the test runs
    scenario:
      duration: 60s
      workers: 16
      baseline: 20s
      arrivals: {rate: 2, rest: 1}
      service: uniform:1s-2s
      faults: [{kind: hang, share: 50%%, from: 5s, for: 50s}]
      steps: [{do: rollback, at: 4s, for: 50s}]
    expect: [in_flight_over_limit == 0]
    abort_if: [in_flight_over_limit >= 8]
    recovery: 2m
  - id: live
    name: Live
    schedule: "0 5 29 2 *"
    target: live
    share: 25%%
    recovery: 10s
    scenario:
      duration: 10s
      faults: [{kind: status, code: 500, share: 25%%, from: 0s, for: 10s}]
    expect: [tasks_lost == 0]
    abort_if: [error_share >= 90%%]
allow_live: true
listen: 127.0.0.1:0
admin: {listen: 127.0.0.1:0}
data_dir: %s
log: {level: debug, format: json}
pools:
  - {name: default, upstream: %q, workers: 4}
`

// Crash is a drill whose process is killed (SIGKILL) in a phase.
type Crash struct {
	Program string // built by BuildProgram
	Drill   string // killed or live
	Phase   string
}

// Run kills the process, starts it again and checks that nothing of the run is left.
func (c Crash) Run(t *testing.T) {
	stub := harness.StartStub(t, modelstub.Config{})
	dir := t.TempDir()
	file := filepath.Join(dir, "headgate.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, crashConfig, filepath.Join(dir, "data"), stub.V1()), 0o600); err != nil {
		t.Fatal(err)
	}
	temp := filepath.Join(dir, "temp")
	if err := os.Mkdir(temp, 0o700); err != nil {
		t.Fatal(err)
	}
	serve := harness.Command{
		Program: c.Program, Args: []string{"serve", "--config", file}, Dir: dir,
		Env: []string{"TMPDIR=" + temp, active(holdFault(c.Phase))},
	}
	gate := harness.AwaitGate(t, harness.Start(t, serve))
	due := nextRuns(t, gate)
	id := c.awaitPhase(t, gate)
	if c.Drill != "live" {
		checkProduction(t, gate, stub)
	}
	gate.Signal(t, syscall.SIGKILL)
	gate.Wait(t)

	serve.Env = serve.Env[:1]
	gate = harness.AwaitGate(t, harness.Start(t, serve))
	r := harness.Get[harness.DrillRun](t, gate, "runs/"+id)
	if r.Status != "ended" || r.Verdict != "interrupted" || r.Reason == "" {
		t.Errorf("the run is %+v", r)
	}
	checkProduction(t, gate, stub)
	if now := nextRuns(t, gate); now != due {
		t.Errorf("the schedule is %s, was %s", now, due)
	}
	for _, below := range []string{filepath.Join(dir, "data", "drills"), temp} {
		if left, err := os.ReadDir(below); len(left) > 0 || err != nil && !os.IsNotExist(err) {
			t.Errorf("%s holds %v, %v", below, left, err)
		}
	}
	c.rerun(t, gate)
}

func (c Crash) speed() float64 {
	if c.Drill == "live" {
		return 1
	}
	return 20
}

// awaitPhase starts the drill, waits until the run is in the phase, and returns its ID. A run
// that ends earlier because the machine is too busy is repeated at half the speed.
func (c Crash) awaitPhase(t *testing.T, gate *harness.Gate) (id string) {
	t.Helper()
	speed := c.speed()
	for attempt := 1; ; attempt++ {
		id = startRun(t, gate, c.Drill, speed)
		var r harness.DrillRun
		harness.Eventually(t, "the run has reached "+c.Phase, func() bool {
			r = harness.Get[harness.DrillRun](t, gate, "runs/"+id)
			return r.Status == "ended" || c.reached(r)
		})
		switch {
		case r.Status != "ended":
			return id
		case attempt == maxAttempts || !strings.Contains(r.Reason, busy):
			t.Fatalf("the run ended before %s: %s: %s", c.Phase, r.Verdict, r.Reason)
		}
		t.Logf("attempt %d of %s: %s", attempt, c.Drill, r.Reason)
		speed = max(speed/2, 1)
	}
}

// reached reports whether a run is in the phase.
func (c Crash) reached(r harness.DrillRun) bool {
	return len(r.Phases) > 0 && r.Phases[len(r.Phases)-1].Name == c.Phase || c.Phase == "claim" && len(r.Phases) == 1
}

// startRun starts a drill and returns the ID of the run.
func startRun(t *testing.T, gate *harness.Gate, drill string, speed float64) (id string) {
	t.Helper()
	return harness.Post[struct{ Run string }](t, gate, "drills/"+drill+"/run", fmt.Sprintf(`{"speed":%g}`, speed)).Run
}

// abortRun aborts a run, waits for its end and returns it.
func abortRun(t *testing.T, gate *harness.Gate, id string) (r harness.DrillRun) {
	t.Helper()
	harness.Post[any](t, gate, "runs/"+id+"/abort", `{"reason":"enough"}`)
	harness.Eventually(t, "the run has ended", func() bool {
		r = harness.Get[harness.DrillRun](t, gate, "runs/"+id)
		return r.Status == "ended"
	})
	return r
}

// rerun starts the drill again: the lock of the killed run must be gone.
func (c Crash) rerun(t *testing.T, gate *harness.Gate) {
	t.Helper()
	id := startRun(t, gate, c.Drill, c.speed())
	if r := abortRun(t, gate, id); r.Verdict != "aborted" {
		t.Errorf("the next run ended %s: %s", r.Verdict, r.Reason)
	}
}

// checkProduction sends tasks to production, one after the other. Each has to reach its
// endpoint once and to be answered with the answer of the endpoint.
func checkProduction(t *testing.T, gate *harness.Gate, stub *harness.Stub) {
	t.Helper()
	const tasks = 20
	before := len(stub.Requests())
	for range tasks {
		res, err := http.Post(gate.URL+"/v1/chat/completions", "application/json", strings.NewReader(harness.ChatRequest))
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err != nil || res.StatusCode != http.StatusOK {
			t.Errorf("production answered %d, %s, %v", res.StatusCode, body, err)
		}
	}
	if got := len(stub.Requests()) - before; got != tasks {
		t.Errorf("%d production tasks made %d calls", tasks, got)
	}
}

// nextRuns returns the next scheduled times, as text.
func nextRuns(t *testing.T, gate *harness.Gate) string {
	t.Helper()
	type drill struct {
		ID   string          `json:"id"`
		Next json.RawMessage `json:"next_runs"`
	}
	var all []string
	for _, d := range harness.Get[harness.List[drill]](t, gate, "drills").Items {
		if len(d.Next) > 4 {
			all = append(all, d.ID+" "+string(d.Next))
		}
	}
	if len(all) != 2 {
		t.Fatalf("%d drills are scheduled, want 2: %v", len(all), all)
	}
	return strings.Join(all, "\n")
}
