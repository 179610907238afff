package harness

import (
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// Settings are the settings of a gate with one pool, default. Pool and Top are lines of
// YAML; they must not repeat what other fields set.
type Settings struct {
	Upstream string // base URL, with /v1
	Workers  int    // default 4
	Pool     string // more settings of the pool, one per line, not indented
	Top      string // more settings of the top level
	Env      []string
	Program  string // as in [Command]
}

// Gate is a running `headgate serve`.
type Gate struct {
	*Process
	URL   string // of the data plane, without /v1
	Admin string // URL of the admin plane
}

// StartGate starts a gate on free loopback ports and waits until it is ready.
// Its log is JSON at level debug.
func StartGate(t testing.TB, s Settings) *Gate {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "headgate.yaml")
	if err := os.WriteFile(file, []byte(s.yaml()), 0o600); err != nil {
		t.Fatal(err)
	}
	return AwaitGate(t, Start(t, Command{Program: s.Program, Args: []string{"serve", "--config", file}, Env: s.Env, Dir: dir}))
}

// AwaitGate waits until a process that was started as `serve`, with a JSON log, is ready.
func AwaitGate(t testing.TB, p *Process) *Gate {
	t.Helper()
	g := &Gate{
		Process: p,
		URL:     "http://" + p.Field(t, "serving", "listen"),
		Admin:   "http://" + p.Field(t, "serving", "admin"),
	}
	g.AwaitReady(t)
	return g
}

// AwaitReady waits until the readiness probe succeeds.
func (g *Gate) AwaitReady(t testing.TB) {
	t.Helper()
	Eventually(t, "the gate is ready", func() bool {
		if g.hasEnded() {
			t.Fatalf("%s ended with %s before it was ready", g.name, g.cmd.ProcessState)
		}
		return g.Probe("/readyz") == http.StatusOK
	})
}

// Probe gets a path of the admin plane and returns the status, or 0 without an answer. It
// may be called from any goroutine.
func (g *Gate) Probe(path string) int {
	res, err := http.Get(g.Admin + path)
	if err != nil {
		return 0
	}
	_ = res.Body.Close() // only the status matters
	return res.StatusCode
}

func (s Settings) yaml() string {
	workers := s.Workers
	if workers == 0 {
		workers = 4
	}
	lines := []string{
		"listen: 127.0.0.1:0",
		"admin: {listen: 127.0.0.1:0}",
		"log: {level: debug, format: json}",
		s.Top,
		"pools:",
		"  - name: default",
		"    upstream: " + strconv.Quote(s.Upstream),
		"    workers: " + strconv.Itoa(workers),
	}
	for line := range strings.Lines(s.Pool) {
		lines = append(lines, "    "+strings.TrimRight(line, "\n"))
	}
	return strings.Join(lines, "\n") + "\n"
}
