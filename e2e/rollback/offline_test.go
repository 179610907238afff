package rollback

import (
	"strings"
	"testing"

	"headgate/e2e/harness"
	"headgate/e2e/rollbacktest"
)

// wantOutput checks the exit code of a command, and that its output has all parts.
func wantOutput(t *testing.T, d harness.CommandResult, code int, parts ...string) {
	t.Helper()
	if d.ExitCode != code {
		t.Errorf("exit code %d, want %d; stdout %q, stderr %q", d.ExitCode, code, d.Stdout, d.Stderr)
	}
	for _, part := range parts {
		if !strings.Contains(d.Stdout+d.Stderr, part) {
			t.Errorf("no %q in stdout %q, stderr %q", part, d.Stdout, d.Stderr)
		}
	}
}

// A request that is queued while no gate runs is applied before the first task.
func TestRollbackWhileStopped(t *testing.T) {
	t.Parallel()
	upstream := harness.StartHeldUpstream(t)
	upstream.Release()
	r := harness.StartWithPools(t, harness.PoolSettings("main", upstream.URL, 1))
	dir := r.Dir()
	r.Stop(t)
	d := harness.RunCommand(t, dir, "", "rollback", "--reason", "before the start")
	wantOutput(t, d, 0, "queued request 1", "no service runs", "next start", "rollback at the next start (request 1)")
	r = harness.StartIn(t, dir)
	if p := r.Status(t)["main"]; p.Mode != "passthrough" || p.ModeReason != "before the start" {
		t.Errorf("after the start the status is %+v", p)
	}
	r.AwaitRecorded(t)
	if a := r.Audit(t); len(a) != 2 || a[0].Request != 1 || a[0].Via != "request" || a[0].From != "enforce" || a[0].To != "passthrough" {
		t.Errorf("the audit: %+v", a)
	}
	r.Stop(t)
	r = harness.StartIn(t, dir) // the request is not applied again
	r.AwaitRecorded(t)
	if a := r.Audit(t); len(a) != 2 {
		t.Errorf("after a further start the audit has %d changes: %+v", len(a), a)
	}
	wantOutput(t, r.Command(t, "restore"), 0, "passthrough → enforce", "undo: headgate rollback")
}

// Several queued requests are applied in order.
func TestRequestsInARow(t *testing.T) {
	t.Parallel()
	upstream := harness.StartHeldUpstream(t)
	r := harness.StartWithPools(t, harness.PoolSettings("main", upstream.URL, 1)+harness.PoolSettings("other", upstream.URL, 1, "models: [other]"))
	dir := r.Dir()
	r.Stop(t)
	for _, command := range []string{"observe", "rollback", "restore", "rollback --pool other", "rollback --pool gone"} {
		wantOutput(t, harness.RunCommand(t, dir, "", strings.Fields(command)...), 0, "next start")
	}
	r = harness.StartIn(t, dir)
	if s := r.Status(t); s["main"].Mode != "observe" || s["other"].Mode != "passthrough" {
		t.Errorf("the status is %+v", s)
	}
	r.AwaitRecorded(t)
	rollbacktest.CheckChain(t, r.Audit(t))
	harness.Eventually(t, "the log reports the request for a pool that does not exist", func() bool {
		return strings.Contains(r.Stderr(), `"number":5`) && strings.Contains(r.Stderr(), "gone")
	})
}

// Without the admin plane and with a locked database, the command fails and prints what else
// can be done.
func TestRollbackWithoutAPIAndDatabase(t *testing.T) {
	t.Parallel()
	r, upstream, clients := newFullGate(t)
	free := rollbacktest.LockDatabase(t, r.Dir())
	d := harness.RunCommand(t, r.Dir(), harness.UnusedURL(t), "rollback")
	wantOutput(t, d, 3, "the request could not be queued", "try again", "stop headgate", "upstream", "--ephemeral")
	if d.Stdout != "" {
		t.Errorf("output of a command that failed: %q", d.Stdout)
	}
	free()
	if p := r.Status(t)["main"]; p.Mode != "enforce" {
		t.Errorf("the mode is %s", p.Mode)
	}
	wantAllComplete(t, upstream, clients, 4)
}

// With a locked database, a rollback by the API takes effect, and the command warns that a
// restart would lose it.
func TestRollbackWhileDatabaseIsLocked(t *testing.T) {
	t.Parallel()
	r, upstream, clients := newFullGate(t)
	free := rollbacktest.LockDatabase(t, r.Dir())
	wantOutput(t, r.Command(t, "rollback"), 0, "enforce → passthrough; 1 running and 3 queued kept", "not recorded yet", "undo: headgate restore")
	if p := r.Status(t)["main"]; p.Mode != "passthrough" || *p.ModeRecorded {
		t.Errorf("while the database is locked: %+v", p)
	}
	wantOutput(t, harness.RunCommand(t, r.Dir(), harness.UnusedURL(t), "audit", "--json"), 0, `"action": "first"`) // the audit can be read
	free()
	r.AwaitRecorded(t)
	r.Kill(t)
	if _, err := clients.Wait(harness.Timeout); err != nil {
		t.Error(err)
	}
	upstream.Release()
	if p := harness.StartIn(t, r.Dir()).Status(t)["main"]; p.Mode != "passthrough" {
		t.Errorf("after SIGKILL and a start the mode is %s", p.Mode)
	}
}

// A dry run prints what would change and changes nothing, by the API or the database.
func TestDryRun(t *testing.T) {
	t.Parallel()
	r, upstream, clients := newFullGate(t)
	wantOutput(t, r.Command(t, "rollback", "--dry-run"), 0, "would change enforce → passthrough", "1 running and 3 queued would be kept")
	d := harness.RunCommand(t, r.Dir(), harness.UnusedURL(t), "rollback", "--dry-run")
	wantOutput(t, d, 3, "nothing was changed")
	r.AwaitRecorded(t)
	if a := r.Audit(t); len(a) != 1 || r.Status(t)["main"].Mode != "enforce" {
		t.Errorf("a dry run changed the audit: %+v", a)
	}
	wantAllComplete(t, upstream, clients, 4)
}

// The JSON log has modes by their names.
func TestLogNamesModes(t *testing.T) {
	t.Parallel()
	upstream := harness.StartHeldUpstream(t)
	r := harness.StartWithPools(t, harness.PoolSettings("main", upstream.URL, 1))
	wantOutput(t, r.Command(t, "rollback", "--reason", "why not"), 0)
	for _, part := range []string{`"from":"enforce","to":"passthrough"`, `"reason":"why not"`, `"mode":"enforce"`} {
		harness.Eventually(t, "the log has "+part, func() bool { return strings.Contains(r.Stderr(), part) })
	}
}
