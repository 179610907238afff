package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"headgate/internal/app"
	"headgate/internal/cli"
	"headgate/internal/config"
	"headgate/internal/testkit"
	"headgate/proxy/admission"
	"headgate/runbooks/control"
	"headgate/web/api/apitest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testEnv is a machine on which commands are run: its own data directory and
// environment.
type testEnv struct {
	*testing.T
	env     cli.Env
	vars    map[string]string
	dataDir string
}

func newTestEnv(t *testing.T) *testEnv {
	t.Helper()
	g := &testEnv{T: t, vars: map[string]string{}, dataDir: filepath.Join(t.TempDir(), "data")}
	g.env = cli.System()
	g.env.LookupEnv = func(name string) (string, bool) { v, ok := g.vars[name]; return v, ok }
	g.env.Actor = func() string { return "ana@host" }
	// A busy machine applies a queued request late; only a test that expects that it is not applied waits for the limit.
	g.env.QueueTimeout, g.env.ConfirmTimeout = testkit.Timeout(g.env.QueueTimeout), testkit.Timeout(10*time.Second)
	return g
}

// testService is a whole headgate that serves from the data directory of a testEnv.
type testService struct {
	*app.App
	token string
}

// serve starts a headgate with pools a and b, of two workers each.
func (g *testEnv) serve() *testService {
	g.Helper()
	cfg, err := config.Parse("test.yaml", fmt.Appendf(nil, `
listen: "127.0.0.1:0"
admin: {listen: "localhost:0"}
data_dir: %q
drain: 0s
pools:
  - {name: a, upstream: "http://127.0.0.1:9/v1", workers: 2}
  - {name: b, upstream: "http://127.0.0.1:9/v1", workers: 2, models: [b]}
`, g.dataDir), nil)
	if err != nil {
		g.Fatal(err)
	}
	a, err := app.New(cfg, "v1", slog.New(slog.NewTextHandler(io.Discard, nil)))
	if err != nil {
		g.Fatal(err)
	}
	if err := a.Start(); err != nil {
		g.Fatal(err)
	}
	g.Cleanup(func() {
		if err := a.Stop(context.WithoutCancel(g.Context())); err != nil {
			g.Error(err)
		}
	})
	token, err := cli.System().Token(g.dataDir)
	if err != nil {
		g.Fatal(err)
	}
	g.vars["HEADGATE_ADMIN"] = "http://" + a.AdminAddr()
	for !recorded(a) { // what the start changed
		select {
		case <-g.Context().Done():
			g.Fatal("the start was not recorded")
		case <-time.After(time.Millisecond):
		}
	}
	return &testService{a, token.Reveal()}
}

// serveControl starts an admin API over gates a and b, with its records in memory. It is for behaviour that the control
// service decides: a whole service costs seconds to start under the race detector.
func (g *testEnv) serveControl() *apitest.Control {
	g.Helper()
	return g.serveIncidents("a", "b").Control
}

func recorded(a *app.App) bool {
	return !slices.ContainsFunc(a.Status(time.Now()).Pools, func(p control.PoolStatus) bool { return !*p.ModeRecorded })
}

func (s *testService) gate(name string) *admission.Gate {
	for _, p := range s.Pools() {
		if p.Name == name {
			return p.Gate
		}
	}
	return nil
}

func (s *testService) Mode(name string) admission.Mode { return s.gate(name).Snapshot(time.Now()).Mode }

// Fill offers n tasks that must all end within the given time.
func (s *testService) Fill(name string, n int, within time.Duration) {
	now := time.Now()
	for range n {
		s.gate(name).Offer(now, admission.Task{Deadline: now.Add(within), Waiter: nopWaiter{}})
	}
}

type nopWaiter struct{}

func (nopWaiter) Done(admission.Refusal) {}

// cliResult is the result of one command line.
type cliResult struct {
	code     int
	out, err string
}

// run runs a command line with the data directory of g. No output may show a token.
func (g *testEnv) run(args ...string) cliResult {
	g.Helper()
	return g.runBare(append(args, "--data-dir", g.dataDir)...)
}

func (g *testEnv) runBare(args ...string) cliResult {
	g.Helper()
	var out, messages bytes.Buffer
	code := execute(g.Context(), g.env, args, &out, &messages)
	r := cliResult{code, out.String(), messages.String()}
	secrets := []string{g.vars["HEADGATE_TOKEN"]}
	if text, err := os.ReadFile(filepath.Join(g.dataDir, "headgate.token")); err == nil {
		secrets = append(secrets, strings.TrimSpace(string(text)))
	}
	for _, secret := range secrets {
		if secret != "" && strings.Contains(r.out+r.err, secret) {
			g.Errorf("%v shows the token", args)
		}
	}
	return r
}

// want checks exit code and output, and that stderr contains every message, or nothing without messages.
func (r cliResult) want(t *testing.T, code int, out string, messages ...string) {
	t.Helper()
	if r.code != code {
		t.Errorf("exit %d, want %d; stderr: %s", r.code, code, r.err)
	}
	if r.out != out {
		t.Errorf("stdout %q\n  want %q", r.out, out)
	}
	for _, m := range messages {
		if !strings.Contains(r.err, m) {
			t.Errorf("stderr %q\n  want %q in it", r.err, m)
		}
	}
	if len(messages) == 0 && r.err != "" {
		t.Errorf("stderr %q, want none", r.err)
	}
}

// decodeJSON reads JSON from stdout.
func (r cliResult) decodeJSON(t *testing.T) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal([]byte(r.out), &v); err != nil {
		t.Fatalf("stdout %q: %v", r.out, err)
	}
	return v
}

// hangingServer is a listener that takes connections and never answers.
func hangingServer(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return "http://" + l.Addr().String()
}

// closedAddress is an address without a listener.
func closedAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return "http://" + l.Addr().String()
}

// foreignServer answers everything but /healthz with h.
func foreignServer(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	var mux http.ServeMux
	mux.HandleFunc("/healthz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/", h)
	s := httptest.NewServer(&mux)
	t.Cleanup(s.Close)
	return s.URL
}
