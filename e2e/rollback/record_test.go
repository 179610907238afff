package rollback

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"headgate/e2e/harness"
	"headgate/e2e/rollback/rig"
)

// stopped is a folder in which a gate has run, been rolled back, and been stopped.
func stopped(t *testing.T) (dir string) {
	t.Helper()
	upstream := harness.StartHeld(t)
	upstream.Finish()
	r := rig.New(t, rig.Pool("main", upstream.URL, 1))
	says(t, r.Command(t, "rollback", "--reason", "kept"), 0)
	r.Stop(t)
	return r.Dir
}

// startFails sees to it that a gate does not start in a folder, and says why.
func startFails(t *testing.T, dir string, parts ...string) {
	t.Helper()
	p, code := harness.RunToEnd(t, rig.Serve(dir))
	if code != 1 || p.Stdout() != "" {
		t.Errorf("exit code %d, want 1; stdout %q", code, p.Stdout())
	}
	for _, part := range parts {
		if !strings.Contains(p.Stderr(), part) {
			t.Errorf("no %q in %q", part, p.Stderr())
		}
	}
}

// One gate a data directory; who comes second is told who holds it.
func TestSecondServe(t *testing.T) {
	t.Parallel()
	r, upstream, crowd := refusing(t)
	startFails(t, r.Dir, "in use", fmt.Sprintf("process %d on ", r.PID()), "listening on 127.0.0.1:0", "since 20")
	if p := r.Status(t)["main"]; p.InFlight != 1 || p.QueueDepth != 3 {
		t.Errorf("the first one is not as it was: %+v", p)
	}
	whole(t, upstream, crowd, 4)
	r.Kill(t)
	rig.Start(t, r.Dir) // whoever is killed holds nothing
}

// damage writes rubbish over a part of a database, from the beginning or from the
// middle on.
func damage(t *testing.T, dir string, middle bool) (path string) {
	t.Helper()
	path = filepath.Join(rig.Data(dir), "headgate.db")
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

// A damaged database is left as it is and told of; without one there is a way on.
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
	dir := stopped(t)
	path := damage(t, dir, middle)
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	startFails(t, dir, "damaged", "backup", "--ephemeral", rig.Data(dir))
	says(t, rig.RunAt(t, dir, rig.Nobody(t), "rollback"), 3, "damaged")
	says(t, rig.RunAt(t, dir, rig.Nobody(t), "audit"), 3, "damaged")
	copied := filepath.Join(t.TempDir(), "copy.db")
	says(t, runBackup(t, dir, copied), 1, "damaged")
	if _, err := os.Stat(copied); !os.IsNotExist(err) {
		t.Errorf("there is a copy of a damaged database: %v", err)
	}
	r := rig.Start(t, dir, "--ephemeral")
	if said := r.Stderr(); !strings.Contains(said, `"level":"WARN"`) || !strings.Contains(said, "in memory only") {
		t.Errorf("it does not say loudly that nothing is kept: %s", said)
	}
	crowd := rig.NewCrowd(r.URL)
	if a := crowd.Send(); a.Status != 200 || !a.Whole {
		t.Errorf("a task without a record: %+v", a)
	}
	r.Stop(t)
	if after, err := os.ReadFile(path); err != nil || string(after) != string(before) {
		t.Errorf("the damaged database was changed: %v", err)
	}
}

func runBackup(t *testing.T, dir, file string) rig.Done {
	t.Helper()
	return rig.RunAt(t, dir, "", "backup", file)
}

// Without a record orders work as well, with the token from the settings, and a
// restart forgets them.
func TestEphemeral(t *testing.T) {
	t.Parallel()
	upstream := harness.StartHeld(t)
	dir := t.TempDir()
	const token = "made-up-admin-token"
	rig.Write(t, dir, "", rig.Pool("main", upstream.URL, 1))
	rig.Replace(t, dir, "{listen: 127.0.0.1:0}", "{listen: 127.0.0.1:0, token: "+token+"}")
	for range 2 {
		r := rig.Start(t, dir, "--ephemeral")
		run := func(args ...string) (int, string) {
			p, code := harness.RunToEnd(t, harness.Command{Args: append(args, "--admin", r.Admin), Dir: dir, Env: []string{"HEADGATE_TOKEN=" + token}})
			return code, p.Stdout() + p.Stderr()
		}
		if code, said := run("rollback"); code != 0 || !strings.Contains(said, "enforce → passthrough") {
			t.Errorf("rollback: exit code %d, %s", code, said)
		}
		if code, said := run("audit"); code != 0 || strings.Count(said, "PASSTHROUGH") != 1 {
			t.Errorf("audit: exit code %d, %s", code, said)
		}
		r.Stop(t)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 {
		t.Errorf("left beside the settings: %v, %v", left, err)
	}
}

// A database that a newer program wrote is refused, and left as it is.
func TestNewerDatabase(t *testing.T) {
	t.Parallel()
	dir := stopped(t)
	db := rig.Database(t, dir)
	rig.Exec(t, db, "INSERT INTO goose_db_version (version_id, is_applied) VALUES (9001, 1)")
	startFails(t, dir, "newer headgate", "9001", "backup")
	says(t, rig.RunAt(t, dir, rig.Nobody(t), "rollback"), 3, "newer headgate")
	rig.Exec(t, db, "DELETE FROM goose_db_version WHERE version_id = 9001")
	if p := rig.Start(t, dir).Status(t)["main"]; p.Mode != "passthrough" {
		t.Errorf("afterwards the mode is %s", p.Mode)
	}
}

// What on-call reads about copies works as it is written.
func TestBackupAndBack(t *testing.T) {
	t.Parallel()
	r, upstream, crowd := refusing(t)
	says(t, r.Command(t, "rollback", "--reason", "before the copy"), 0)
	copied := filepath.Join(t.TempDir(), "headgate-2026-01-31.db")
	says(t, runBackup(t, r.Dir, copied), 0, "wrote "+copied)
	if info, err := os.Stat(copied); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the copy: %v, %v", info, err)
	}
	says(t, runBackup(t, r.Dir, copied), 1, "exists, and is not overwritten")
	says(t, r.Command(t, "restore", "--reason", "after the copy"), 0)
	whole(t, upstream, crowd, 4)
	r.Stop(t)
	away := t.TempDir()
	for _, name := range []string{"headgate.db", "headgate.db-wal", "headgate.db-shm"} {
		err := os.Rename(filepath.Join(rig.Data(r.Dir), name), filepath.Join(away, name))
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(copied)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(rig.Data(r.Dir), "headgate.db"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	again := rig.Start(t, r.Dir)
	if p := again.Status(t)["main"]; p.Mode != "passthrough" || p.ModeReason != "before the copy" {
		t.Errorf("with the copy put back: %+v", p)
	}
	if a := again.Audit(t); len(a) != 2 {
		t.Errorf("the audit of the copy: %+v", a)
	}
	says(t, again.Command(t, "restore"), 0, "passthrough → enforce")
}

// A database that is damaged under the gate's feet does not stop a rollback.
func TestDamagedWhileServing(t *testing.T) {
	t.Parallel()
	r, upstream, crowd := refusing(t)
	press := crowd.Press(2, 0)
	harness.Until(t, "the press is refused", func() bool { return press.Refused() >= 3 })
	for _, name := range []string{"headgate.db", "headgate.db-wal"} {
		if err := os.Truncate(filepath.Join(rig.Data(r.Dir), name), 0); err != nil {
			t.Fatal(err)
		}
	}
	says(t, r.Command(t, "rollback"), 0, "enforce → passthrough; 1 running and 3 queued kept")
	await(t, r, "main", 1, 5)
	whole(t, upstream, crowd, 6)
}
