package program

import (
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"headgate/e2e/harness"
)

func TestVersion(t *testing.T) {
	t.Parallel()
	p, code := harness.RunToEnd(t, harness.Command{Args: []string{"version"}})
	if code != 0 || p.Stderr() != "" || !regexp.MustCompile(`^headgate \S+ go1\.\S+ \w+/\w+\n$`).MatchString(p.Stdout()) {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, p.Stdout(), p.Stderr())
	}
}

func TestHelp(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"", "serve", "check", "stub", "version"} {
		args := append(strings.Fields(command), "--help")
		p, code := harness.RunToEnd(t, harness.Command{Args: args})
		_, examples, found := strings.Cut(p.Stdout(), "Examples:\n")
		if code != 0 || p.Stderr() != "" || !found || !strings.Contains(examples, "headgate "+command) {
			t.Errorf("headgate %v: exit code %d, stderr %q, stdout %q", args, code, p.Stderr(), p.Stdout())
		}
	}
}

func TestUsageErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ args, says string }{
		{"nosuch", "nosuch"}, {"serve --nosuch", "--nosuch"}, {"check surplus", "surplus"}, {"version surplus", "surplus"},
		{"stub --service soon:1s", "uniform:5s-30s"}, {"stub --service fixed:-1s", "--service"}, {"stub --slots -1", "Slots"},
		{"stub --slots many", "slots"}, {"stub --log-level loud", "debug, info, warn or error"},
		{"serve --config does-not-exist.yaml", "does-not-exist.yaml"}, {"check --config does-not-exist.yaml", "does-not-exist.yaml"},
	} {
		p, code := harness.RunToEnd(t, harness.Command{Args: strings.Fields(c.args)})
		if code != 2 || p.Stdout() != "" || !strings.Contains(p.Stderr(), c.says) || !strings.HasPrefix(p.Stderr(), "headgate: ") {
			t.Errorf("headgate %s: exit code %d, stdout %q, stderr %q; want 2, and %q in stderr", c.args, code, p.Stdout(), p.Stderr(), c.says)
		}
	}
}

func TestCheckPrintsEffectiveSettings(t *testing.T) {
	t.Parallel()
	const secret = "made-up-upstream-key"
	file := writeSettings(t, `pools:
  - name: main
    upstream: http://127.0.0.1:9/v1
    upstream_key: ${KEY_OF_UPSTREAM}
    workers: 7
`)
	p, code := harness.RunToEnd(t, harness.Command{Args: []string{"check", "--config", file}, Env: []string{"KEY_OF_UPSTREAM=" + secret}})
	if code != 0 {
		t.Fatalf("exit code %d, stderr %q", code, p.Stderr())
	}
	for _, line := range []string{
		"listen: 127.0.0.1:8484", "workers: 7", "policy: threshold", "max_queue_age: 25s", "depth_multiple: 2", "mode: enforce",
		"turnaround: 60s", "body: 32MiB", "passthrough_queue: 10000", "upstream_idle: 120s", "drain: 30s", "[redacted]",
	} {
		if !strings.Contains(p.Stdout(), line) {
			t.Errorf("no %q in:\n%s", line, p.Stdout())
		}
	}
	if strings.Contains(p.Stdout()+p.Stderr(), secret) {
		t.Error("the secret is printed")
	}
	again := writeSettings(t, p.Stdout())
	if p2, code := harness.RunToEnd(t, harness.Command{Args: []string{"check", "--config", again}}); code != 0 || p2.Stdout() != p.Stdout() {
		t.Errorf("what check printed does not come to the same: exit code %d, stderr %q, stdout:\n%s", code, p2.Stderr(), p2.Stdout())
	}
	if left := listFiles(t, filepath.Dir(file)); len(left) != 1 {
		t.Errorf("check left %v", left)
	}
}

func TestCheckAcceptsTheExample(t *testing.T) {
	t.Parallel()
	example := filepath.Join(harness.Module(t), "..", "docs", "headgate.example.yaml")
	dir := t.TempDir()
	p, code := harness.RunToEnd(t, harness.Command{Args: []string{"check", "--config", example}, Dir: dir})
	if code != 0 || !strings.Contains(p.Stdout(), "workers: 4") {
		t.Errorf("exit code %d, stderr %q, stdout %q", code, p.Stderr(), p.Stdout())
	}
	if left := listFiles(t, dir); len(left) != 0 {
		t.Errorf("check left %v", left)
	}
}

// check rejects the settings that serve rejects, with the same message and the place.
func TestBadSettings(t *testing.T) {
	t.Parallel()
	pool := func(lines string) string {
		return "pools:\n  - name: main\n    upstream: http://127.0.0.1:9/v1\n" + lines
	}
	for _, c := range []struct{ name, text, at, says string }{
		{"unknown key", pool("    worker: 4\n"), ":4:", "workers"},
		{"repeated key", pool("    workers: 4\n    workers: 5\n"), ":5:", "workers"},
		{"wrong type", pool("    workers: many\n"), ":4:", "whole number"},
		{"zero workers", pool("    workers: 0\n"), ":4:", "1"},
		{"duration without unit", pool("    slo: {turnaround: 60}\n"), ":4:", "30s"},
		{"age beyond the SLO", pool("    admission: {max_queue_age: 2m}\n"), ":4:", "slo.turnaround"},
		{"zero multiple", pool("    admission: {depth_multiple: 0}\n"), ":4:", "1"},
		{"unknown policy", pool("    admission: {policy: luck}\n"), ":4:", "threshold"},
		{"unset variable", pool("    upstream_key: ${NOT_SET_ANYWHERE}\n"), ":4:", "NOT_SET_ANYWHERE"},
		{"no upstream", "pools:\n  - name: main\n", ":2:", "upstream"},
		{"same port twice", "listen: 127.0.0.1:9000\nadmin: {listen: \"127.0.0.1:9000\"}\n", ":2:", "listen"},
		{"no YAML", "pools: [\n", ":", "YAML"},
		{"open relay", "listen: 0.0.0.0:9000\n" + pool("    upstream_key: made-up-secret\n"), ":1:", "open relay"},
		{"open relay on a name", "listen: gate.example.com:9000\n" + pool("    upstream_key: made-up-secret\n"), ":1:", "open relay"},
		{"open relay everywhere", "listen: :9000\n" + pool("    upstream_key: made-up-secret\n"), ":1:", "open relay"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			file := writeSettings(t, c.text)
			said := map[string]string{}
			for _, command := range []string{"check", "serve"} {
				p, code := harness.RunToEnd(t, harness.Command{Args: []string{command, "--config", file}})
				said[command] = p.Stderr()
				if code != 2 || p.Stdout() != "" || !strings.Contains(p.Stderr(), file+c.at) || !strings.Contains(p.Stderr(), c.says) {
					t.Errorf("%s: exit code %d, stdout %q, stderr %q; want 2, %q and %q", command, code, p.Stdout(), p.Stderr(), file+c.at, c.says)
				}
				if strings.Contains(p.Stderr(), "made-up-secret") {
					t.Errorf("%s shows the secret: %s", command, p.Stderr())
				}
			}
			if said["check"] != said["serve"] {
				t.Errorf("check says %q, serve %q", said["check"], said["serve"])
			}
			if left := listFiles(t, filepath.Dir(file)); len(left) != 1 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

// With client keys, or without an upstream key, a gate may listen on public addresses.
func TestSettingsThatAreNoOpenRelay(t *testing.T) {
	t.Parallel()
	const pool = "pools:\n  - name: main\n    upstream: http://127.0.0.1:9/v1\n"
	for _, text := range []string{
		"listen: 0.0.0.0:9000\n" + pool,
		"listen: 127.0.0.1:9000\n" + pool + "    upstream_key: made-up\n",
		fmt.Sprintf("listen: 0.0.0.0:9000\nclients: [{name: one, key_sha256: %s}]\n%s    upstream_key: made-up\n", strings.Repeat("a1", 32), pool),
	} {
		if p, code := harness.RunToEnd(t, harness.Command{Args: []string{"check", "--config", writeSettings(t, text)}}); code != 0 {
			t.Errorf("exit code %d, stderr %q for:\n%s", code, p.Stderr(), text)
		}
	}
}

func TestAddressTaken(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	const pool = "pools:\n  - {name: main, upstream: \"http://127.0.0.1:9/v1\"}\n"
	for field, text := range map[string]string{
		"listen: ":       fmt.Sprintf("listen: %s\nadmin: {listen: 127.0.0.1:0}\n", l.Addr()),
		"admin.listen: ": fmt.Sprintf("listen: 127.0.0.1:0\nadmin: {listen: %q}\n", l.Addr()),
	} {
		p, code := harness.RunToEnd(t, harness.Command{Args: []string{"serve", "--config", writeSettings(t, text+pool)}})
		if code != 1 || !strings.Contains(p.Stderr(), field) || !strings.Contains(p.Stderr(), l.Addr().String()) {
			t.Errorf("exit code %d, stderr %q; want 1, %q and the address", code, p.Stderr(), field)
		}
	}
}

var listening = regexp.MustCompile(`listen=(\S+)`)

func TestStub(t *testing.T) {
	t.Parallel()
	p := harness.Start(t, harness.Command{Args: []string{
		"stub", "--listen", "127.0.0.1:0", "--slots", "2", "--service", "fixed:10s", "--speed", "1000", "--model", "one,two",
	}})
	var url string
	harness.Eventually(t, "the stub says where it listens", func() bool {
		if m := listening.FindStringSubmatch(p.Stderr()); m != nil {
			url = "http://" + m[1]
		}
		return url != ""
	})
	if r := send(t.Context(), url, nil); r.err != nil || r.status != http.StatusOK || !strings.Contains(r.body, `"finish_reason":"stop"`) {
		t.Errorf("chat: %+v", r)
	}
	res, err := http.Get(url + "/v1/models")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		t.Errorf("models: status %d", res.StatusCode)
	}
	p.Signal(t, syscall.SIGTERM)
	if code := p.Wait(t); code != 0 || !strings.Contains(p.Stderr(), "calls=2 completed=2") {
		t.Errorf("exit code %d, stderr %q", code, p.Stderr())
	}
	if left := listFiles(t, p.Dir()); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestPromtoolAcceptsTheMetrics(t *testing.T) {
	t.Parallel()
	promtool := lookPath(t, "promtool", "prometheus")
	gate := busyGate(t)
	if out, err := runWithInput(promtool, gate.MetricsText(t), "check", "metrics"); err != nil || out != "" {
		t.Errorf("promtool check metrics: %v\n%s", err, out)
	}
}
