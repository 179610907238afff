package rollback

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"headgate/e2e/harness"
	"headgate/e2e/rollbacktest"
)

// status --watch goes on when the gate stops, and ends on Ctrl-C.
func TestStatusWatch(t *testing.T) {
	t.Parallel()
	r, upstream, clients := newFullGate(t)
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		p := harness.Start(t, harness.Command{Args: []string{"status", "--watch", "--admin", r.Admin, "--data-dir", harness.DataDir(r.Dir())}})
		harness.Eventually(t, "it has printed the status twice", func() bool { return strings.Count(p.Stdout(), "\n") >= 2 })
		p.Signal(t, signal)
		if code := p.Wait(t); code != 0 {
			t.Errorf("after %v: exit code %d, stderr %q", signal, code, p.Stderr())
		}
		if line, _, _ := strings.Cut(p.Stdout(), "\n"); !strings.Contains(line, "main enforce in_flight=1/1 queued=3") {
			t.Errorf("it shows %q", line)
		}
	}
	p := harness.Start(t, harness.Command{Args: []string{"status", "--watch", "--json", "--admin", r.Admin, "--data-dir", harness.DataDir(r.Dir())}})
	harness.Eventually(t, "it has printed the status", func() bool { return p.Stdout() != "" })
	wantAllComplete(t, upstream, clients, 4)
	r.Stop(t)
	harness.Eventually(t, "it reports that the gate does not answer", func() bool { return strings.Contains(p.Stderr(), "refused") })
	p.Signal(t, syscall.SIGINT)
	if code := p.Wait(t); code != 0 {
		t.Errorf("exit code %d, stderr %q", code, p.Stderr())
	}
	for line := range strings.Lines(p.Stdout()) {
		if !json.Valid([]byte(line)) {
			t.Errorf("a line is not JSON: %q", line)
		}
	}
}

// The audit is the same from the API, from the database of a running gate, and from the
// database of a stopped one.
func TestAuditAgrees(t *testing.T) {
	t.Parallel()
	upstream := harness.StartHeldUpstream(t)
	r := harness.StartWithPools(t, harness.PoolSettings("main", upstream.URL, 1)+harness.PoolSettings("other", upstream.URL, 1, "models: [o]"))
	for _, command := range []string{"rollback --reason one", "restore --pool other", "observe", "restore --pool main --reason last"} {
		wantOutput(t, r.Command(t, strings.Fields(command)...), 0)
	}
	wantOutput(t, harness.RunCommand(t, r.Dir(), harness.UnusedURL(t), "rollback", "--pool", "main"), 0)
	audit := func(admin string) (page any) {
		d := harness.RunCommand(t, r.Dir(), admin, "audit", "--json")
		if err := json.Unmarshal([]byte(d.Stdout), &page); d.ExitCode != 0 || err != nil {
			t.Fatalf("exit code %d, %v, stderr %q", d.ExitCode, err, d.Stderr)
		}
		return page
	}
	served, read := audit(r.Admin), audit(harness.UnusedURL(t))
	changes := r.Audit(t)
	r.Kill(t)
	if dead := audit(harness.UnusedURL(t)); !reflect.DeepEqual(served, read) || !reflect.DeepEqual(served, dead) {
		t.Errorf("from the API %v\nfrom the database %v\nfrom the database of the stopped gate %v", served, read, dead)
	}
	if len(changes) != 9 { // two first ones, two rolled back, one restored, two observed, one restored, one rolled back
		t.Errorf("%d changes: %+v", len(changes), changes)
	}
	rollbacktest.CheckChain(t, changes)
}

// runTool runs a program of the system and returns its output.
func runTool(t *testing.T, name string, args ...string) (string, error) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
	return string(out), err
}

// systemd accepts the unit. Where systemd-analyze can compute the exposure score, it is low.
func TestSystemdUnit(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Log("systemd is not here: its opinion of the unit is not asked for")
		return
	}
	text, err := os.ReadFile(filepath.Join(harness.Module(t), "..", "docs", "packaging", "headgate.service"))
	if err != nil {
		t.Fatal(err)
	}
	unit := filepath.Join(t.TempDir(), "headgate.service")
	// verify looks for the program, which is not installed here.
	installed := strings.ReplaceAll(string(text), "/usr/local/bin/headgate", harness.Binary(t))
	if err := os.WriteFile(unit, []byte(installed), 0o600); err != nil {
		t.Fatal(err)
	}
	if output, err := runTool(t, "systemd-analyze", "verify", "--man=no", unit); err != nil || strings.Contains(output, "headgate.service") {
		t.Errorf("verify: %v: %s", err, output)
	}
	output, err := runTool(t, "systemd-analyze", "security", "--offline=true", "--threshold=20", "--no-pager", unit)
	lines := strings.Split(strings.TrimSpace(output), "\n")
	t.Log(lines[len(lines)-1])
	if err != nil {
		t.Errorf("security says that the unit is exposed to more than 2.0 of 10: %v", err)
	}
}

// The build command of the Dockerfile is valid. `make proof` builds it.
func TestDockerfile(t *testing.T) {
	t.Parallel()
	text := rollbacktest.Dockerfile(t)
	for _, part := range []string{"FROM scratch", "ca-certificates.crt", "timetzdata", "USER 65532"} {
		if !strings.Contains(text, part) {
			t.Errorf("no %q in the Dockerfile", part)
		}
	}
	rollbacktest.BuildAsDocker(t, filepath.Join(t.TempDir(), "headgate"), "-n")
}
