package rollback

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"headgate/e2e/harness"
	"headgate/e2e/rollbacktest"
)

// newStoppedDir returns the folder of a gate that was rolled back and stopped.
func newStoppedDir(t *testing.T) (dir string) {
	t.Helper()
	upstream := harness.StartHeldUpstream(t)
	upstream.Release()
	r := harness.StartWithPools(t, harness.PoolSettings("main", upstream.URL, 1))
	wantOutput(t, r.Command(t, "rollback", "--reason", "kept"), 0)
	r.Stop(t)
	return r.Dir()
}

// wantStartFails checks that a gate does not start in a folder, and its error message.
func wantStartFails(t *testing.T, dir string, parts ...string) {
	t.Helper()
	p, code := harness.RunToEnd(t, harness.ServeCommand(dir))
	if code != 1 || p.Stdout() != "" {
		t.Errorf("exit code %d, want 1; stdout %q", code, p.Stdout())
	}
	for _, part := range parts {
		if !strings.Contains(p.Stderr(), part) {
			t.Errorf("no %q in %q", part, p.Stderr())
		}
	}
}

// Only one gate may use a data directory; a second one fails and names the process that has it.
func TestSecondServe(t *testing.T) {
	t.Parallel()
	r, upstream, clients := newFullGate(t)
	wantStartFails(t, r.Dir(), "in use", fmt.Sprintf("process %d on ", r.PID()), "listening on 127.0.0.1:0", "since 20")
	if p := r.Status(t)["main"]; p.InFlight != 1 || p.QueueDepth != 3 {
		t.Errorf("the first one has changed: %+v", p)
	}
	wantAllComplete(t, upstream, clients, 4)
	r.Kill(t)
	harness.StartIn(t, r.Dir()) // the lock of a killed process is free
}

// damageDatabase overwrites a part of a database with garbage, from the start or from the
// middle on.
func damageDatabase(t *testing.T, dir string, middle bool) (path string) {
	t.Helper()
	path = filepath.Join(harness.DataDir(dir), "headgate.db")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	from := 0
	if middle {
		from = len(text) / 2
	}
	for i := range text[from:] {
		text[from+i] = 0xa5
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// A damaged database is reported and not changed; --ephemeral works without it.
func TestDamagedDatabase(t *testing.T) {
	t.Parallel()
	for name, middle := range map[string]bool{"from the beginning": false, "from the middle on": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkDamaged(t, middle)
		})
	}
}

func checkDamaged(t *testing.T, middle bool) {
	t.Helper()
	dir := newStoppedDir(t)
	path := damageDatabase(t, dir, middle)
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	wantStartFails(t, dir, "damaged", "backup", "--ephemeral", harness.DataDir(dir))
	wantOutput(t, harness.RunCommand(t, dir, harness.UnusedURL(t), "rollback"), 3, "damaged")
	wantOutput(t, harness.RunCommand(t, dir, harness.UnusedURL(t), "audit"), 3, "damaged")
	copied := filepath.Join(t.TempDir(), "copy.db")
	wantOutput(t, runBackup(t, dir, copied), 1, "damaged")
	if _, err := os.Stat(copied); !os.IsNotExist(err) {
		t.Errorf("there is a copy of a damaged database: %v", err)
	}
	r := harness.StartIn(t, dir, "--ephemeral")
	if output := r.Stderr(); !strings.Contains(output, `"level":"WARN"`) || !strings.Contains(output, "in memory only") {
		t.Errorf("no warning that nothing is recorded: %s", output)
	}
	clients := rollbacktest.NewClients(r.URL)
	if a := clients.Send(); a.Status != 200 || !a.Complete {
		t.Errorf("a task without a record: %+v", a)
	}
	r.Stop(t)
	if after, err := os.ReadFile(path); err != nil || string(after) != string(before) {
		t.Errorf("the damaged database was changed: %v", err)
	}
}

func runBackup(t *testing.T, dir, file string) harness.CommandResult {
	t.Helper()
	return harness.RunCommand(t, dir, "", "backup", file)
}

// Without a record, commands work with the token from the settings, and a restart forgets the
// changes.
func TestEphemeral(t *testing.T) {
	t.Parallel()
	upstream := harness.StartHeldUpstream(t)
	dir := t.TempDir()
	const token = "made-up-admin-token"
	harness.WriteSettings(t, dir, "", harness.PoolSettings("main", upstream.URL, 1))
	harness.EditSettings(t, dir, "{listen: 127.0.0.1:0}", "{listen: 127.0.0.1:0, token: "+token+"}")
	for range 2 {
		r := harness.StartIn(t, dir, "--ephemeral")
		run := func(args ...string) (int, string) {
			p, code := harness.RunToEnd(t, harness.Command{Args: append(args, "--admin", r.Admin), Dir: dir, Env: []string{"HEADGATE_TOKEN=" + token}})
			return code, p.Stdout() + p.Stderr()
		}
		if code, output := run("rollback"); code != 0 || !strings.Contains(output, "enforce → passthrough") {
			t.Errorf("rollback: exit code %d, %s", code, output)
		}
		if code, output := run("audit"); code != 0 || strings.Count(output, "PASSTHROUGH") != 1 {
			t.Errorf("audit: exit code %d, %s", code, output)
		}
		r.Stop(t)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 {
		t.Errorf("files beside the settings: %v, %v", left, err)
	}
}

// A database of a newer version is rejected and not changed.
func TestNewerDatabase(t *testing.T) {
	t.Parallel()
	dir := newStoppedDir(t)
	db := rollbacktest.OpenDatabase(t, dir)
	rollbacktest.ExecSQL(t, db, "INSERT INTO goose_db_version (version_id, is_applied) VALUES (9001, 1)")
	wantStartFails(t, dir, "newer headgate", "9001", "backup")
	wantOutput(t, harness.RunCommand(t, dir, harness.UnusedURL(t), "rollback"), 3, "newer headgate")
	rollbacktest.ExecSQL(t, db, "DELETE FROM goose_db_version WHERE version_id = 9001")
	if p := harness.StartIn(t, dir).Status(t)["main"]; p.Mode != "passthrough" {
		t.Errorf("afterwards the mode is %s", p.Mode)
	}
}

// The documented way to back up and restore the database works.
func TestBackupRestores(t *testing.T) {
	t.Parallel()
	r, upstream, clients := newFullGate(t)
	wantOutput(t, r.Command(t, "rollback", "--reason", "before the copy"), 0)
	copied := filepath.Join(t.TempDir(), "headgate-2026-01-31.db")
	wantOutput(t, runBackup(t, r.Dir(), copied), 0, "wrote "+copied)
	if info, err := os.Stat(copied); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the copy: %v, %v", info, err)
	}
	wantOutput(t, runBackup(t, r.Dir(), copied), 1, "exists, and is not overwritten")
	wantOutput(t, r.Command(t, "restore", "--reason", "after the copy"), 0)
	wantAllComplete(t, upstream, clients, 4)
	r.Stop(t)
	away := t.TempDir()
	for _, name := range []string{"headgate.db", "headgate.db-wal", "headgate.db-shm"} {
		err := os.Rename(filepath.Join(harness.DataDir(r.Dir()), name), filepath.Join(away, name))
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(copied)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(harness.DataDir(r.Dir()), "headgate.db"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	again := harness.StartIn(t, r.Dir())
	if p := again.Status(t)["main"]; p.Mode != "passthrough" || p.ModeReason != "before the copy" {
		t.Errorf("with the copy put back: %+v", p)
	}
	if a := again.Audit(t); len(a) != 2 {
		t.Errorf("the audit of the copy: %+v", a)
	}
	wantOutput(t, again.Command(t, "restore"), 0, "passthrough → enforce")
}

// A database that is damaged while the gate serves does not stop a rollback.
func TestDamagedWhileServing(t *testing.T) {
	t.Parallel()
	r, upstream, clients := newFullGate(t)
	retrying := clients.StartRetrying(2, 0)
	harness.Eventually(t, "the client that retries is refused", func() bool { return retrying.MinRefusals() >= 3 })
	for _, name := range []string{"headgate.db", "headgate.db-wal"} {
		if err := os.Truncate(filepath.Join(harness.DataDir(r.Dir()), name), 0); err != nil {
			t.Fatal(err)
		}
	}
	wantOutput(t, r.Command(t, "rollback"), 0, "enforce → passthrough; 1 running and 3 queued kept")
	awaitPool(t, r, "main", 1, 5)
	wantAllComplete(t, upstream, clients, 6)
}
