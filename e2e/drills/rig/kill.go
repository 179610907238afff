package rig

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
	"headgate/e2e/sabotage"
	"headgate/internal/modelstub"
)

// Phases are those of a run, in which it can be killed.
func Phases() []string {
	return []string{"claim", "preflight", "brakes", "baseline", "inject", "hold", "clear", "recover", "verdict"}
}

// stays is what makes a run stay in a phase until the process is killed: some are
// over in a moment.
func stays() []sabotage.Edit {
	return []sabotage.Edit{
		at("runbooks/drill/perform.go", "	defer a.stop(nil)\n", "	if sabotaged(\"stays in claim\") {\n		<-a.ctx.Done()\n	}\n"),
		at("runbooks/drill/active.go", "func (a *active) phase(name PhaseName, note string) {\n", "	if sabotaged(\"stays in \" + string(name)) {\n		defer func() { <-a.ctx.Done() }()\n	}\n"),
	}
}

// killed has a drill that runs for a few seconds and one that nobody runs, each with
// a schedule.
const killed = `
drills:
  - id: killed
    name: Killed
    schedule: "30 4 29 2 *" # not while the test runs, but on one day in four years
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

// Kill is a drill that is killed, as by kill -9, in a phase.
type Kill struct {
	Program string // with what makes it stay there
	Drill   string // killed or live
	Phase   string
}

// Run kills once and starts again, and looks at what is left.
func (k Kill) Run(t *testing.T) {
	stub := harness.StartStub(t, modelstub.Config{})
	dir := t.TempDir()
	file := filepath.Join(dir, "headgate.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, killed, filepath.Join(dir, "data"), stub.V1()), 0o600); err != nil {
		t.Fatal(err)
	}
	temp := filepath.Join(dir, "temp")
	if err := os.Mkdir(temp, 0o700); err != nil {
		t.Fatal(err)
	}
	serve := harness.Command{Program: k.Program, Args: []string{"serve", "--config", file}, Dir: dir, Env: []string{"TMPDIR=" + temp, sabotage.Variable + "=stays in " + k.Phase}}
	gate := harness.AwaitGate(t, harness.Start(t, serve))
	due := dues(t, gate)
	var begun struct{ Run string }
	ask(t, gate, "POST", "/api/v1/drills/"+k.Drill+"/run", `{"speed":`+k.speed()+`}`, &begun)
	harness.Until(t, "the run has come to "+k.Phase, func() bool { return k.reached(t, gate, begun.Run) })
	if k.Drill != "live" {
		traffic(t, gate, stub)
	}
	gate.Signal(t, syscall.SIGKILL)
	gate.Wait(t)

	serve.Env = serve.Env[:1]
	gate = harness.AwaitGate(t, harness.Start(t, serve))
	r := show(t, gate, begun.Run)
	if r.Status != "ended" || r.Verdict != "interrupted" || r.Reason == "" {
		t.Errorf("the run stands as %+v", r)
	}
	traffic(t, gate, stub)
	if now := dues(t, gate); now != due {
		t.Errorf("the schedule is %s, was %s", now, due)
	}
	for _, below := range []string{filepath.Join(dir, "data", "drills"), temp} {
		if left, err := os.ReadDir(below); len(left) > 0 || err != nil && !os.IsNotExist(err) {
			t.Errorf("%s holds %v, %v", below, left, err)
		}
	}
	k.again(t, gate)
}

func (k Kill) speed() string {
	if k.Drill == "live" {
		return "1"
	}
	return "20"
}

// reached says whether a run is in the phase.
func (k Kill) reached(t *testing.T, gate *harness.Gate, id string) bool {
	t.Helper()
	r := show(t, gate, id)
	if r.Status == "ended" {
		t.Fatalf("the run ended before %s: %s: %s", k.Phase, r.Verdict, r.Reason)
	}
	phases := r.Phases
	return len(phases) > 0 && phases[len(phases)-1].Name == k.Phase || k.Phase == "claim" && len(phases) == 1
}

// again begins the drill anew: nobody holds the lock any more.
func (k Kill) again(t *testing.T, gate *harness.Gate) {
	t.Helper()
	var begun struct{ Run string }
	ask(t, gate, "POST", "/api/v1/drills/"+k.Drill+"/run", `{"speed":`+k.speed()+`}`, &begun)
	ask(t, gate, "POST", "/api/v1/runs/"+begun.Run+"/abort", `{"reason":"enough"}`, nil)
	harness.Until(t, "the next run has ended", func() bool { return show(t, gate, begun.Run).Status == "ended" })
	if r := show(t, gate, begun.Run); r.Verdict != "aborted" {
		t.Errorf("the next run ended %s: %s", r.Verdict, r.Reason)
	}
}

// traffic sends tasks to production, one after the other: each has to reach its
// endpoint, once, and to be answered as that answers.
func traffic(t *testing.T, gate *harness.Gate, stub *harness.Stub) {
	t.Helper()
	const tasks = 20
	before := len(stub.Seen())
	for range tasks {
		res, err := http.Post(gate.URL+"/v1/chat/completions", "application/json", strings.NewReader(`{"model":"stub-model","messages":[{"role":"user","content":"hello"}]}`))
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err != nil || res.StatusCode != http.StatusOK {
			t.Errorf("production answered %d, %s, %v", res.StatusCode, body, err)
		}
	}
	if got := len(stub.Seen()) - before; got != tasks {
		t.Errorf("%d tasks of production made %d calls", tasks, got)
	}
}

// dues are the next due times, as text.
func dues(t *testing.T, gate *harness.Gate) string {
	t.Helper()
	var list struct {
		Items []struct {
			ID   string
			Next json.RawMessage `json:"next_runs"`
		}
	}
	ask(t, gate, "GET", "/api/v1/drills", "", &list)
	var all []string
	for _, d := range list.Items {
		if len(d.Next) > 4 {
			all = append(all, d.ID+" "+string(d.Next))
		}
	}
	if len(all) != 2 {
		t.Fatalf("%d drills are due: %v", len(all), all)
	}
	return strings.Join(all, "\n")
}

func show(t *testing.T, gate *harness.Gate, id string) (r Run) {
	t.Helper()
	ask(t, gate, "GET", "/api/v1/runs/"+id, "", &r)
	return r
}

// ask calls the admin API and reads what it answers into out, unless that is nil.
func ask(t *testing.T, gate *harness.Gate, method, path, body string, out any) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, gate.Admin+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+Token(t, gate))
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode >= 300 {
		err = fmt.Errorf("%s: %s", res.Status, text)
	}
	if err == nil && out != nil {
		err = json.Unmarshal(text, out)
	}
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
}
