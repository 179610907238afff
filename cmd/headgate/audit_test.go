package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"headgate/internal/app"
	"headgate/proxy/admission"
	"headgate/runbooks/control"
	"headgate/web/api"
)

func TestAuditBothWays(t *testing.T) {
	g := newTestEnv(t)
	s := g.serve()
	s.fill("a", 3, time.Hour)
	g.run("rollback", "--pool", "a", "--reason", "why")
	g.run("restore", "--pool", "a")
	asked := g.run("audit", "--pool", "a")
	lines := strings.Split(asked.out, "\n")
	if len(lines) != 5 || !strings.HasPrefix(lines[0], "AT ") {
		t.Fatalf("stdout\n%s", asked.out)
	}
	for i, fields := range []string{"mode a passthrough → enforce ana@host api 2 1 0 -", "mode a enforce → PASSTHROUGH ana@host api 2 1 0 why", "mode a begins in enforce settings settings 0 0 0 first start"} {
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
	g.serve()
	var page api.AuditPage
	dec := json.NewDecoder(strings.NewReader(g.run("audit", "--json").out))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&page); err != nil || len(page.Items) != 2 || page.Next != "" || page.Items[0].Change.Action != "first" {
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
	g.run("audit", "--since", "yesterday").want(t, exitUsage, "", "--since must be a span such as 7d")
	g.run("audit", "--kind", "gossip").want(t, exitUsage, "", "--kind must be one of mode, press, decision")
	g.run("audit").want(t, exitUnreachable, "", "the database cannot be read either")
}

// TestAuditIsBounded: a record without end is shown up to a bound, and said so.
func TestAuditIsBounded(t *testing.T) {
	g := newTestEnv(t)
	g.vars["HEADGATE_ADMIN"] = closedAddress(t)
	pages := 0
	g.environment.readAudit = func(_ context.Context, _ string, q api.AuditQuery) (api.AuditRecords, error) {
		if q.Limit != api.MaxPage || pages > 0 && q.After != fmt.Sprint(pages) {
			t.Fatalf("asked %+v after %d pages", q, pages)
		}
		pages++
		evil := control.ModeChange{Pool: "a", To: admission.PassThrough, Reason: "\x1b[2J", Actor: "x\ny"}
		items := make([]control.ModeChange, api.MaxPage)
		for i := range items {
			items[i] = evil
		}
		return api.AuditRecords{Changes: items, Next: fmt.Sprint(pages)}, nil
	}
	r := g.run("audit")
	if n := strings.Count(r.out, "\n"); r.code != 0 || n != maxAudit+1 || pages != maxAudit/api.MaxPage {
		t.Errorf("exit %d, %d lines, %d pages", r.code, n, pages)
	}
	if !strings.Contains(r.err, "more than 10000 items") || strings.Contains(r.out, "\x1b") {
		t.Errorf("stderr %q", r.err)
	}
}

// TestBackup makes a copy while the service runs, and puts it back as
// docs/rollback.md says.
func TestBackup(t *testing.T) {
	g := newTestEnv(t)
	s := g.serve()
	g.run("rollback", "--pool", "b")
	file := filepath.Join(t.TempDir(), "copy.db")
	g.run("backup", file).want(t, 0, "wrote "+file+"\n")
	g.run("backup", file).want(t, exitFailed, "", "no backup of "+g.dataDir)
	g.run("backup").want(t, exitUsage, "", "usage: headgate backup FILE", "--help")
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
	if s = g.serve(); s.mode("b") != admission.PassThrough {
		t.Errorf("b is in %s, in the backup it was in passthrough", s.mode("b"))
	}
	if _, err := app.ReadAudit(t.Context(), g.dataDir, api.AuditQuery{Limit: 10}); err != nil {
		t.Error(err)
	}
}

func TestCompletion(t *testing.T) {
	g := newTestEnv(t)
	g.serve()
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if r := g.runBare("completion", shell); r.code != 0 || !strings.Contains(r.out, "headgate") || r.err != "" {
			t.Errorf("%s: exit %d, %d bytes, %s", shell, r.code, len(r.out), r.err)
		}
	}
	g.runBare("completion", "tcsh").want(t, exitUsage, "", "must be bash, zsh, fish or powershell")
	g.runBare("completion").want(t, exitUsage, "", "--help")
	if r := g.runBare("__complete", "rollback", "--data-dir", g.dataDir, "--pool", ""); !strings.HasPrefix(r.out, "a\nb\n:") {
		t.Errorf("completions %q", r.out)
	}
	for line, want := range map[string]string{
		"incident ack": ":4\n", "incident silence": ":4\n", "status": ":4\n", "backup": ":0\n", "rules check": ":0\n", // 4: no files
		"alerts": "test\t", "completion": "bash\n",
	} {
		if r := g.runBare(append(append([]string{"__complete"}, strings.Fields(line)...), "")...); !strings.HasPrefix(r.out, want) {
			t.Errorf("completions of %s: %q, want %q first", line, r.out, want)
		}
	}
	g.vars["HEADGATE_ADMIN"] = hangingServer(t)
	if r := g.runBare("__complete", "rollback", "--data-dir", g.dataDir, "--pool", ""); !strings.HasPrefix(r.out, ":") {
		t.Errorf("completions without a service %q", r.out)
	}
}
