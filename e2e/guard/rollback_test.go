package guard

import (
	"net/http"
	"testing"
	"time"

	"headgate/e2e/harness"
	"headgate/e2e/mutation"
	"headgate/internal/modelstub"
	"headgate/internal/testkit"
)

// Places of the faults in the program.
var (
	admission = mutation.Package("proxy/admission")
	policy    = admission.Function("Threshold.Admit").Start()
	permit    = admission.Function("Gate.releasePermitLocked").Before(mutation.Assign("inFlight"))
)

// faults make the policy refuse without cause, panic or sleep, or make the gate lose one
// permit in ten.
var faults = []mutation.Fault{
	{Name: "refuse", Edits: []mutation.Edit{policy.Code(`if mutated() { return Verdict{Reason: ReasonQueueDepth} }`)}},
	{Name: "panic", Edits: []mutation.Edit{policy.Code(`if mutated() { panic("an injected fault") }`)}},
	{Name: "sleep", Edits: []mutation.Edit{policy.Code(`if mutated() { time.Sleep(1500 * time.Millisecond) }`)}},
	{Name: "leak", Edits: []mutation.Edit{permit.Code(`if mutated() && t.seq%10 == 9 { return }`)}},
}

func TestFaultsApply(t *testing.T) { mutation.Check(t, faults...) }

// The rule of each fault detects it, and the gate is in pass-through within ten seconds after
// the hold time of the rule.
func TestFaultsAreRolledBack(t *testing.T) {
	t.Parallel()
	program := mutation.Build(t, faults...)
	for fault, tt := range map[string]struct {
		rule  string
		hold  time.Duration // of the rule
		first int           // status of the first task
		cured bool          // by pass-through
	}{
		"refuse": {"false_refusal", 10 * time.Second, http.StatusTooManyRequests, true},
		"panic":  {"gate_fault", 10 * time.Second, http.StatusOK, true},
		"sleep":  {"gate_latency", 20 * time.Second, http.StatusOK, true},
		"leak":   {"false_refusal", 10 * time.Second, http.StatusOK, false},
	} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			stub := harness.StartStub(t, modelstub.Config{})
			r := start(t, harness.Settings{Upstream: stub.V1(), Program: program, Env: []string{mutation.Variable + "=" + fault}})
			if status, _ := r.ask("Stub-Service", "1ms"); status != tt.first {
				t.Fatalf("the first task got status %d, want %d", status, tt.first)
			}
			took, rolledBack := r.watch(tt.hold+testkit.Timeout(10*time.Second), 16, func() {
				_, _ = r.ask("Stub-Service", "1ms")
				time.Sleep(200 * time.Millisecond) // so that there is no overload
			})
			if !rolledBack {
				t.Fatalf("not in pass-through after %s", took)
			}
			t.Logf("in pass-through after %s", took)
			m := r.Scrape(t)
			if n := m.Sum("headgate_mode_changes_total", "mode", "passthrough", "actor", "engine"); n != 1 {
				t.Errorf("%v changes by the engine, want 1", n)
			}
			if n := m.Sum("headgate_rule_state", "rule", tt.rule, "pool", "default", "state", "page"); n != 1 {
				t.Errorf("rule %s does not page: %v", tt.rule, m.By("headgate_rule_state", "rule"))
			}
			if !tt.cured {
				return
			}
			for range 20 {
				began := time.Now()
				if status, reason := r.ask("Stub-Service", "1ms"); status != http.StatusOK {
					t.Fatalf("status %d (%s) in pass-through", status, reason)
				}
				if fault == "sleep" && time.Since(began) > 1500*time.Millisecond {
					t.Fatal("pass-through is as slow as the fault")
				}
			}
		})
	}
}
