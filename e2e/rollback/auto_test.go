package rollback

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"headgate/e2e/harness"
	"headgate/e2e/rollbacktest"
)

// rollbackRules has a rule that rolls back as soon as a task has run for five seconds, the
// shortest hold time.
const rollbackRules = `rules:
  - name: acting
    signal: headgate_in_flight{pool="$pool"}
    unit: tasks
    page: {at: 1, for: 5s}
    clear: {below: 1, for: 5s}
    summary: a rule that acts
    impact: nothing
    runbook: queue_age
    action: rollback
    i_understand: true
`

// auditDecisions returns the decisions of the audit that have a result.
func auditDecisions(t *testing.T, r *harness.Gate, result string) (all []harness.AuditEntry) {
	t.Helper()
	for _, d := range r.AuditEntries(t, "decision") {
		if d.Result == result {
			all = append(all, d)
		}
	}
	return all
}

// newDirWithRules writes settings with that rule into a new folder.
func newDirWithRules(t *testing.T, upstream string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	file := filepath.Join(dir, "rules.yaml")
	if err := os.WriteFile(file, []byte(rollbackRules), 0o600); err != nil {
		t.Fatal(err)
	}
	harness.WriteSettings(t, dir, "drain: 1s\nrules: {file: "+file+"}\n", harness.PoolSettings("main", upstream, 1))
	return dir
}

// countAutoRollbacks counts the automatic rollbacks in the audit.
func countAutoRollbacks(t *testing.T, r *harness.Gate) (n int) {
	t.Helper()
	for _, c := range r.Audit(t) {
		if c.Via == "engine" && c.To == "passthrough" {
			n++
		}
	}
	return n
}

// After a kill during an automatic rollback, the pool is rolled back and recorded, or neither.
// The rule pages again, so that the pool is rolled back once in the end. A manual restore then
// holds, and the audit has its entry.
func TestKillDuringAutoRollback(t *testing.T) {
	t.Parallel()
	upstream := harness.StartHeldUpstream(t)
	dir := newDirWithRules(t, upstream.URL)
	r := harness.StartIn(t, dir)
	rollbacktest.NewClients(r.URL).Start(1)
	harness.Eventually(t, "it rolls back", func() bool { return r.Status(t)["main"].Mode == "passthrough" })
	r.Kill(t)
	r = harness.StartIn(t, dir)
	done := r.Status(t)["main"].Mode == "passthrough"
	if n := countAutoRollbacks(t, r); (n == 1) != done {
		t.Fatalf("in passthrough: %v, but %d rollbacks are recorded", done, n)
	}
	if !done && len(auditDecisions(t, r, "done")) > 0 {
		t.Fatal("the audit has a rollback that was not applied")
	}
	wantOneAutoRollback(t, r)
	wantOutput(t, r.Command(t, "restore", "--pool", "main", "--reason", "I know better"), 0)
	harness.Eventually(t, "the next rollback is withheld because of the restore", func() bool {
		// It may have been withheld before: after a start there are no values at first.
		return slices.ContainsFunc(auditDecisions(t, r, "withheld"), func(d harness.AuditEntry) bool {
			return d.Inputs["hold_by"] != "" && d.Inputs["rule"] == "acting" && d.Pool == "main"
		})
	})
	upstream.Release()
	if m := r.Status(t)["main"].Mode; m != "enforce" || countAutoRollbacks(t, r) != 1 {
		t.Errorf("the restore did not hold: the pool is in %s", m)
	}
}

// wantOneAutoRollback waits until the pool is rolled back and the audit has that once.
func wantOneAutoRollback(t *testing.T, r *harness.Gate) {
	t.Helper()
	rollbacktest.NewClients(r.URL).Start(1)
	harness.Eventually(t, "it is rolled back and in the audit", func() bool {
		return r.Status(t)["main"].Mode == "passthrough" && len(auditDecisions(t, r, "done")) == 1 && countAutoRollbacks(t, r) == 1
	})
}

// A kill before the rollback is recorded reverts it: the next process rolls back again.
func TestKillBeforeAutoRollbackIsRecorded(t *testing.T) {
	t.Parallel()
	upstream := harness.StartHeldUpstream(t)
	r := harness.StartIn(t, newDirWithRules(t, upstream.URL))
	free := rollbacktest.LockDatabase(t, r.Dir())
	rollbacktest.NewClients(r.URL).Start(1)
	harness.Eventually(t, "it rolls back", func() bool { return r.Status(t)["main"].Mode == "passthrough" })
	if p := r.Status(t)["main"]; *p.ModeRecorded || len(auditDecisions(t, r, "done")) > 0 {
		t.Errorf("recorded while the database is locked: %+v", p)
	}
	r.Kill(t)
	free()
	r = harness.StartIn(t, r.Dir())
	if m := r.Status(t)["main"].Mode; m != "enforce" || countAutoRollbacks(t, r) != 0 || len(auditDecisions(t, r, "done")) > 0 {
		t.Fatalf("after the kill it is in %s, with %d rollbacks", m, countAutoRollbacks(t, r))
	}
	wantOneAutoRollback(t, r)
	upstream.Release()
}
