package rollback

import (
	"strings"
	"testing"

	"headgate/e2e/harness"
	"headgate/e2e/rollback/rig"
)

// says sees to it that a command ended so, and that its messages have all parts.
func says(t *testing.T, d rig.Done, code int, parts ...string) {
	t.Helper()
	if d.Code != code {
		t.Errorf("exit code %d, want %d; stdout %q, stderr %q", d.Code, code, d.Out, d.Err)
	}
	for _, part := range parts {
		if !strings.Contains(d.Out+d.Err, part) {
			t.Errorf("no %q in stdout %q, stderr %q", part, d.Out, d.Err)
		}
	}
}

// An order that is left while nothing runs counts from the first task on.
func TestRollbackWhileNothingRuns(t *testing.T) {
	t.Parallel()
	upstream := harness.StartHeld(t)
	upstream.Finish()
	r := rig.New(t, rig.Pool("main", upstream.URL, 1))
	dir := r.Dir
	r.Stop(t)
	d := rig.RunAt(t, dir, "", "rollback", "--reason", "before the start")
	says(t, d, 0, "left request 1", "nothing serves", "next start", "rollback at the next start (request 1)")
	r = rig.Start(t, dir)
	if p := r.Status(t)["main"]; p.Mode != "passthrough" || p.ModeReason != "before the start" {
		t.Errorf("at the start the pool stands so: %+v", p)
	}
	r.AwaitRecord(t)
	if a := r.Audit(t); len(a) != 2 || a[0].Request != 1 || a[0].Via != "request" || a[0].From != "enforce" || a[0].To != "passthrough" {
		t.Errorf("the audit: %+v", a)
	}
	r.Stop(t)
	r = rig.Start(t, dir) // it was carried out once, and is not again
	r.AwaitRecord(t)
	if a := r.Audit(t); len(a) != 2 {
		t.Errorf("after a further start the audit has %d changes: %+v", len(a), a)
	}
	says(t, r.Command(t, "restore"), 0, "passthrough → enforce", "undo: headgate rollback")
}

// Several orders may wait; all are carried out, in their order.
func TestRequestsInARow(t *testing.T) {
	t.Parallel()
	upstream := harness.StartHeld(t)
	r := rig.New(t, rig.Pool("main", upstream.URL, 1)+rig.Pool("other", upstream.URL, 1, "models: [other]"))
	dir := r.Dir
	r.Stop(t)
	for _, command := range []string{"observe", "rollback", "restore", "rollback --pool other", "rollback --pool gone"} {
		says(t, rig.RunAt(t, dir, "", strings.Fields(command)...), 0, "next start")
	}
	r = rig.Start(t, dir)
	if s := r.Status(t); s["main"].Mode != "observe" || s["other"].Mode != "passthrough" {
		t.Errorf("the pools stand so: %+v", s)
	}
	r.AwaitRecord(t)
	rig.CheckChain(t, r.Audit(t))
	harness.Until(t, "the log tells of the request for a pool that is gone", func() bool {
		return strings.Contains(r.Stderr(), `"number":5`) && strings.Contains(r.Stderr(), "gone")
	})
}

// Without the admin plane and with a database that cannot be written, nothing is
// claimed and what is left is told.
func TestNothingWorks(t *testing.T) {
	t.Parallel()
	r, upstream, crowd := refusing(t)
	free := rig.Hold(t, r.Dir)
	d := rig.RunAt(t, r.Dir, rig.Nobody(t), "rollback")
	says(t, d, 3, "no request could be left", "try again", "stop headgate", "upstream", "--ephemeral")
	if d.Out != "" {
		t.Errorf("something is claimed: %q", d.Out)
	}
	free()
	if p := r.Status(t)["main"]; p.Mode != "enforce" {
		t.Errorf("the mode is %s", p.Mode)
	}
	whole(t, upstream, crowd, 4)
}

// With the admin plane and a database that cannot be written, it is done, and that
// a restart would forget it is told.
func TestCommandWhileHeld(t *testing.T) {
	t.Parallel()
	r, upstream, crowd := refusing(t)
	free := rig.Hold(t, r.Dir)
	says(t, r.Command(t, "rollback"), 0, "enforce → passthrough; 1 running and 3 queued kept", "not recorded yet", "undo: headgate restore")
	if p := r.Status(t)["main"]; p.Mode != "passthrough" || *p.ModeRecorded {
		t.Errorf("meanwhile: %+v", p)
	}
	says(t, rig.RunAt(t, r.Dir, rig.Nobody(t), "audit", "--json"), 0, `"action": "first"`) // readers are not in the way
	free()
	r.AwaitRecord(t)
	r.Kill(t)
	if _, err := crowd.Ended(harness.Patience); err != nil {
		t.Error(err)
	}
	upstream.Finish()
	if p := rig.Start(t, r.Dir).Status(t)["main"]; p.Mode != "passthrough" {
		t.Errorf("after kill -9 and a start the mode is %s", p.Mode)
	}
}

// A dry run tells what would be and does nothing, whichever way it would go.
func TestDryRun(t *testing.T) {
	t.Parallel()
	r, upstream, crowd := refusing(t)
	says(t, r.Command(t, "rollback", "--dry-run"), 0, "would go enforce → passthrough", "1 running and 3 queued would be kept")
	d := rig.RunAt(t, r.Dir, rig.Nobody(t), "rollback", "--dry-run")
	says(t, d, 3, "nothing was changed")
	r.AwaitRecord(t)
	if a := r.Audit(t); len(a) != 1 || r.Status(t)["main"].Mode != "enforce" {
		t.Errorf("a dry run left its trace: %+v", a)
	}
	whole(t, upstream, crowd, 4)
}

// The log tells modes by their names, in JSON too.
func TestLogNamesModes(t *testing.T) {
	t.Parallel()
	upstream := harness.StartHeld(t)
	r := rig.New(t, rig.Pool("main", upstream.URL, 1))
	says(t, r.Command(t, "rollback", "--reason", "why not"), 0)
	for _, part := range []string{`"from":"enforce","to":"passthrough"`, `"reason":"why not"`, `"mode":"enforce"`} {
		harness.Until(t, "the log has "+part, func() bool { return strings.Contains(r.Stderr(), part) })
	}
}
