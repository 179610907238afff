package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"headgate/internal/cli"
	"headgate/proxy/admission"
	"headgate/runbooks/control"
	"headgate/web/api"
)

func TestStatusOfAService(t *testing.T) {
	g := newTestEnv(t)
	g.serveControl()
	g.run("rollback", "--pool", "b", "--reason", "why")
	r := g.run("status")
	for _, part := range []string{"a     enforce", "b     PASSTHROUGH", "by ana@host: why",
		"headgate restore --pool b --data-dir " + g.dataDir} {
		if !strings.Contains(r.out, part) {
			t.Errorf("stdout\n%s\nwant %q in it", r.out, part)
		}
	}
	if strings.Contains(r.out, "\x1b") {
		t.Error("colour without a terminal")
	}
	var s api.Status
	dec := json.NewDecoder(strings.NewReader(g.run("status", "--json").out))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&s); err != nil || s.Version != "test" || len(s.Pools) != 2 || s.Pools[1].Mode != "passthrough" {
		t.Errorf("status %+v, %v", s, err)
	}
	g.runBare("statsu").want(t, cli.ExitUsage, "", `unknown command "statsu" for "headgate"; did you mean status?`)
	if r := g.runBare("zzzzzz"); strings.Contains(r.err, "did you mean") {
		t.Errorf("stderr %q: nothing looks like it", r.err)
	}
	g.vars["HEADGATE_ADMIN"] = closedAddress(t)
	g.run("status").want(t, cli.ExitUnreachable, "", "no answer from the admin plane", "is it running?", "--config FILE",
		"--admin URL", "HEADGATE_ADMIN")
}

// TestWatchOfAService: Ctrl-C ends the command without an error.
func TestWatchOfAService(t *testing.T) {
	g := newTestEnv(t)
	g.serveControl()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	out := &stoppingWriter{stop: stop}
	var messages bytes.Buffer
	if code := execute(ctx, g.env, []string{"status", "--watch", "--data-dir", g.dataDir}, out, &messages); code != 0 ||
		messages.Len() > 0 {
		t.Errorf("exit %d, stderr %q", code, messages.String())
	}
	if out.writes == 0 {
		t.Error("nothing was shown")
	}
}

// stoppingWriter ends a command as soon as it has written something.
type stoppingWriter struct {
	stop   func()
	writes int
}

func (s *stoppingWriter) Write(p []byte) (int, error) {
	s.writes++
	s.stop()
	return len(p), nil
}

func TestSettingsFileIsMissing(t *testing.T) {
	g := newTestEnv(t)
	g.serveControl()
	r := g.run("status", "--config", filepath.Join(t.TempDir(), "none.yaml"))
	if r.code != 0 || !strings.Contains(r.err, "none.yaml") || !strings.Contains(r.out, "enforce") {
		t.Errorf("%+v, want a warning and the status", r)
	}
}

func TestAuditBothPaths(t *testing.T) {
	t.Parallel()
	g := newTestEnv(t)
	s := g.serve()
	s.Fill("a", 3, time.Hour)
	g.run("rollback", "--pool", "a", "--reason", "why")
	g.run("restore", "--pool", "a")
	asked := g.run("audit", "--pool", "a")
	lines := strings.Split(asked.out, "\n")
	if len(lines) != 5 || !strings.HasPrefix(lines[0], "AT ") {
		t.Fatalf("stdout\n%s", asked.out)
	}
	for i, fields := range []string{"mode a passthrough → enforce ana@host api 2 1 0 -",
		"mode a enforce → PASSTHROUGH ana@host api 2 1 0 why",
		"mode a starts in enforce settings settings 0 0 0 first start"} {
		if got := strings.Join(strings.Fields(lines[i+1])[1:], " "); got != fields {
			t.Errorf("line %d reads %q, want %q", i+1, got, fields)
		}
	}
	g.vars["HEADGATE_ADMIN"] = closedAddress(t)
	read := g.run("audit", "--pool", "a")
	read.want(t, 0, asked.out, "no answer from the admin plane", "reading from the database in "+g.dataDir)
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	g.run("audit", "--pool", "a").want(t, 0, asked.out, "reading from the database")
}

func TestAuditJSON(t *testing.T) {
	g := newTestEnv(t)
	g.serveControl()
	var page control.AuditPage
	dec := json.NewDecoder(strings.NewReader(g.run("audit", "--json").out))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&page); err != nil || len(page.Items) != 2 || page.Next != "" ||
		page.Items[0].Change.Action != "first" {
		t.Errorf("page %+v, %v", page, err)
	}
	r := g.run("audit", "--json", "--pool", "none")
	if got := strings.Join(strings.Fields(r.out), ""); got != `{"items":[],"next":""}` {
		t.Errorf("stdout %q", r.out)
	}
	g.run("audit", "--pool", "none").want(t, 0, "nothing recorded\n")
}

func TestAuditRefuses(t *testing.T) {
	g := newTestEnv(t)
	g.vars["HEADGATE_ADMIN"] = closedAddress(t)
	g.run("audit", "--since", "yesterday").want(t, cli.ExitUsage, "", "--since must be a span such as 7d")
	g.run("audit", "--kind", "gossip").want(t, cli.ExitUsage, "", "--kind must be one of mode, press, decision")
	g.run("audit").want(t, cli.ExitUnreachable, "", "the database cannot be read either")
}

// TestAuditIsBounded: the audit log is shown up to a bound, with a warning.
func TestAuditIsBounded(t *testing.T) {
	g := newTestEnv(t)
	g.vars["HEADGATE_ADMIN"] = closedAddress(t)
	pages := 0
	g.env.ReadAudit = func(_ context.Context, _ string, q control.AuditQuery) (control.AuditPage, error) {
		if q.Limit != api.MaxPage || pages > 0 && q.After != fmt.Sprint(pages) {
			t.Fatalf("asked %+v after %d pages", q, pages)
		}
		pages++
		evil := control.ModeChange{Pool: "a", To: admission.PassThrough, Reason: "\x1b[2J", Actor: "x\ny"}
		items := make([]control.ModeChange, api.MaxPage)
		for i := range items {
			items[i] = evil
		}
		return control.NewAuditPage(items, nil, fmt.Sprint(pages)), nil
	}
	r := g.run("audit")
	if n := strings.Count(r.out, "\n"); r.code != 0 || n != 10_000+1 || pages != 10_000/api.MaxPage {
		t.Errorf("exit %d, %d lines, %d pages", r.code, n, pages)
	}
	if !strings.Contains(r.err, "more than 10000 items") || strings.Contains(r.out, "\x1b") {
		t.Errorf("stderr %q", r.err)
	}
}

// TestBackup makes a copy while the service runs, and puts it back as
// docs/rollback.md says.
func TestBackup(t *testing.T) {
	t.Parallel()
	g := newTestEnv(t)
	s := g.serve()
	g.run("rollback", "--pool", "b")
	file := filepath.Join(t.TempDir(), "copy.db")
	g.run("backup", file).want(t, 0, "wrote "+file+"\n")
	g.run("backup", file).want(t, cli.ExitFailed, "", "backup of "+g.dataDir+" failed")
	g.run("backup").want(t, cli.ExitUsage, "", "usage: headgate backup FILE", "--help")
	g.run("restore", "--pool", "b")
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"headgate.db", "headgate.db-wal", "headgate.db-shm"} {
		if err := os.Remove(filepath.Join(g.dataDir, name)); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(g.dataDir, "headgate.db"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	if s = g.serve(); s.Mode("b") != admission.PassThrough {
		t.Errorf("b is in %s, in the backup it was in passthrough", s.Mode("b"))
	}
	if _, err := cli.System().ReadAudit(t.Context(), g.dataDir, control.AuditQuery{Limit: 10}); err != nil {
		t.Error(err)
	}
}

func TestCompletion(t *testing.T) {
	t.Parallel()
	g := newTestEnv(t)
	g.serveControl()
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if r := g.runBare("completion", shell); r.code != 0 || !strings.Contains(r.out, "headgate") || r.err != "" {
			t.Errorf("%s: exit %d, %d bytes, %s", shell, r.code, len(r.out), r.err)
		}
	}
	g.runBare("completion", "tcsh").want(t, cli.ExitUsage, "", "must be bash, zsh, fish or powershell")
	g.runBare("completion").want(t, cli.ExitUsage, "", "--help")
	if r := g.runBare("__complete", "rollback", "--data-dir", g.dataDir, "--pool", ""); !strings.HasPrefix(r.out,
		"a\nb\n:") {
		t.Errorf("completions %q", r.out)
	}
	for line, want := range map[string]string{
		"incident ack": ":4\n", "incident silence": ":4\n", "status": ":4\n", "backup": ":0\n", "rules check": ":0\n",
		// 4: no files
		"alerts": "test\t", "completion": "bash\n",
	} {
		if r := g.runBare(append(append([]string{"__complete"}, strings.Fields(line)...), "")...); !strings.HasPrefix(r.out,
			want) {
			t.Errorf("completions of %s: %q, want %q first", line, r.out, want)
		}
	}
	g.vars["HEADGATE_ADMIN"] = hangingServer(t)
	if r := g.runBare("__complete", "rollback", "--data-dir", g.dataDir, "--pool", ""); !strings.HasPrefix(r.out, ":") {
		t.Errorf("completions without a service %q", r.out)
	}
}

// TestLoginMakesALink: it signs in once, as who runs the command.
func TestLoginMakesALink(t *testing.T) {
	g := newTestEnv(t)
	s := g.serve()
	r := g.run("login", "--json")
	var link struct{ URL, Until string }
	if err := json.Unmarshal([]byte(r.out), &link); r.code != 0 || err != nil {
		t.Fatalf("exit %d: %s%s", r.code, r.out, r.err)
	}
	if until, err := time.Parse(time.RFC3339, link.Until); err != nil || time.Until(until) > 10*time.Minute {
		t.Errorf("until %s", link.Until)
	}
	u, err := url.Parse(link.URL)
	if err != nil || !strings.HasPrefix(link.URL, "http://"+s.AdminAddr()+"/login?code=") {
		t.Fatalf("the link is %s", link.URL)
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{Jar: jar}
	defer browser.CloseIdleConnections()
	for n, want := range []int{http.StatusOK, http.StatusForbidden} {
		reply, err := browser.PostForm("http://"+s.AdminAddr()+"/login",
			url.Values{"code": {u.Query().Get("code")}, "next": {"/"}})
		if err != nil {
			t.Fatal(err)
		}
		reply.Body.Close()
		if reply.StatusCode != want {
			t.Errorf("press %d of the button: %d, want %d", n+1, reply.StatusCode, want)
		}
	}
	if got := s.LoginPath("x"); !strings.HasPrefix(got, "/login?code=") {
		t.Errorf("the link of the service itself is %s", got)
	}
}

func TestLoginSaysWhere(t *testing.T) {
	g := newTestEnv(t)
	g.serveControl()
	r := g.run("login", "--url", "https://gate.example.com/")
	if r.code != 0 || !strings.HasPrefix(r.out, "https://gate.example.com/login?code=") ||
		strings.Count(r.out, "\n") != 1 || !strings.Contains(r.err, "works once, until ") {
		t.Errorf("exit %d: %s%s", r.code, r.out, r.err)
	}
	for _, wrong := range []string{"gate.example.com", "http://gate.example.com", "https://a:b@gate.example.com"} {
		if r := g.run("login", "--url", wrong); r.code != cli.ExitUsage || r.out != "" {
			t.Errorf("--url %s: exit %d: %s%s", wrong, r.code, r.out, r.err)
		}
	}
}
