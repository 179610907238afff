package guard

import (
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"headgate/e2e/harness"
	"headgate/internal/modelstub"
)

// rollbackRules are the built-in rules with the action rollback.
var rollbackRules = []string{"false_refusal", "gate_fault", "gate_latency"}

// overloadSettings make every kind of refusal happen soon.
const overloadSettings = `slo: {turnaround: 8s}
admission: {max_queue_age: 1s}
timeouts: {upstream_idle: 5s}
limits: {body: 256KiB, buffered: 512KiB}`

// deadSlack is a Slack that does not answer.
const deadSlack = `slack: {bot_token: xoxb-1-2-made-up, api_url: "http://127.0.0.1:9/api/", channels: {page: C0123456789}}`

// always is a rule that opens an incident at once, so that there is a message to deliver.
const always = `
  - name: always
    signal: headgate_workers{pool="$pool"}
    warn: {at: 1, for: 5s}
    clear: {below: 1, for: 5s}
    summary: there are workers
    runbook: queue_age
`

// withAlways writes the built-in rules and the rule always into a file, and returns the
// setting for it.
func withAlways(t *testing.T) string {
	t.Helper()
	p, code := harness.RunToEnd(t, harness.Command{Args: []string{"rules", "export"}})
	if code != 0 {
		t.Fatalf("export the rules: exit code %d", code)
	}
	file := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(file, []byte(strings.TrimRight(p.Stdout(), "\n")+always), 0o600); err != nil {
		t.Fatal(err)
	}
	return "rules: {file: " + strconv.Quote(file) + "}\n"
}

// Refusals of every kind, an endpoint that hangs, reloads and a dead Slack do not roll back a
// gate without a fault.
func TestHealthyGateIsNotRolledBack(t *testing.T) {
	t.Parallel()
	stub := harness.StartStub(t, modelstub.Config{})
	r := start(t, harness.Settings{Upstream: stub.V1(), Pool: overloadSettings, Top: "drain: 1s\n" + withAlways(t) + deadSlack})
	big := strings.Repeat(" ", 200<<10)
	var n, hang atomic.Int64
	ask := func() {
		header := []string{"Stub-Service", "400ms"}
		if hang.Load() > 0 {
			header = []string{"Stub-Fault", "hang"}
		}
		body := harness.ChatRequest
		switch i := n.Add(1); {
		case i%4 == 1:
			header = append(header, "Headgate-Deadline", "1ms")
		case i%4 == 2:
			header = append(header, "Headgate-Priority", "batch")
		case i%16 == 3:
			body += big
		}
		_, _ = r.send(body, header...)
		time.Sleep(100 * time.Millisecond) // of a client after a refusal
	}
	for _, phase := range []struct {
		name string
		hang int64
	}{{"seven times the capacity", 0}, {"the endpoint hangs", 1}} {
		hang.Store(phase.hang)
		if took, rolledBack := r.watch(13*time.Second, 40, ask); rolledBack {
			t.Fatalf("%s: in pass-through after %s", phase.name, took)
		}
		r.Signal(t, hangup)
	}
	m := r.Scrape(t)
	for _, reason := range []string{"queue_age", "queue_depth", "deadline_passed", "memory"} {
		if !(m.Sum("headgate_refusals_total", "reason", reason) > 0) {
			t.Errorf("no task was refused for %s: %v", reason, m.By("headgate_refusals_total", "reason"))
		}
	}
	if age := m.Sum("headgate_delivery_oldest_pending_seconds"); !(age > 1) {
		t.Errorf("the oldest message for Slack has waited for %v s: Slack has answered", age)
	}
	wantHealthy(t, m)
}

// wantHealthy checks that the pool is in enforce and that no rollback rule has fired.
func wantHealthy(t *testing.T, m harness.Metrics) {
	t.Helper()
	if m.Sum("headgate_mode", "mode", "enforce") != 1 {
		t.Errorf("modes %v, want enforce", m.By("headgate_mode", "mode"))
	}
	for _, metric := range []string{"headgate_false_refusals_total", "headgate_gate_panics_total", "headgate_panics_total"} {
		if n := m.Sum(metric); n != 0 {
			t.Errorf("%s is %v", metric, n)
		}
	}
	for _, rule := range rollbackRules {
		if n := m.Sum("headgate_rule_state", "rule", rule, "pool", "default", "state", "ok"); n != 1 {
			t.Errorf("rule %s is not ok: %v", rule, n)
		}
	}
	if n := m.Sum("headgate_mode_changes_total", "actor", "engine"); n != 0 && !math.IsNaN(n) {
		t.Errorf("%v changes by the engine", n)
	}
}
