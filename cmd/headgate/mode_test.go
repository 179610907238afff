package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"headgate/internal/cli"
	"headgate/proxy/admission"
	"headgate/runbooks/control"
	"headgate/web/api"
)

func TestRollbackAndRestore(t *testing.T) {
	g := newTestEnv(t)
	s := g.serveControl()
	s.Fill("a", 5, time.Hour)
	r := g.run("rollback", "--reason", "p95 climbs")
	r.want(t, 0, "a: enforce → passthrough; 2 running and 3 queued kept\n"+
		"b: enforce → passthrough; 0 running and 0 queued kept\n"+
		"undo: headgate restore --data-dir "+g.dataDir+"\n")
	if s.Mode("a") != admission.PassThrough || s.Mode("b") != admission.PassThrough {
		t.Error("the modes were not changed")
	}
	g.run("rollback").want(t, 0, "a: already in passthrough; 2 running, 3 queued\nb: already in passthrough; 0 running, 0 queued\n")
	r = g.run("restore", "--pool", "a")
	r.want(t, 0, "a: passthrough → enforce; 2 running and 3 queued kept\nundo: headgate rollback --pool a --data-dir "+g.dataDir+"\n")
	if s.Mode("a") != admission.Enforce || s.Mode("b") != admission.PassThrough {
		t.Error("not only pool a was changed")
	}
	if snap := s.Gates["a"].Snapshot(time.Now()); snap.InFlight != 2 || snap.Depth != 3 {
		t.Errorf("%d run and %d wait: something was touched", snap.InFlight, snap.Depth)
	}
}

// TestUndoIsExact: the command that is shown reverts the change and nothing else, whatever the modes before.
func TestUndoIsExact(t *testing.T) {
	t.Parallel()
	g := newTestEnv(t)
	s := g.serveControl()
	modes := func() [2]admission.Mode { return [2]admission.Mode{s.Mode("a"), s.Mode("b")} }
	starts := [][]string{{}, {"observe"}, {"rollback"}, {"observe", "rollback"}}
	for _, a := range starts {
		for _, b := range starts {
			for _, ask := range []string{"rollback", "restore", "observe"} {
				for modes() != [2]admission.Mode{admission.Enforce, admission.Enforce} {
					g.run("restore")
				}
				for _, c := range a {
					g.run(c, "--pool", "a")
				}
				for _, c := range b {
					g.run(c, "--pool", "b")
				}
				before := modes()
				for _, undo := range undoCommands(g.run(ask).out) {
					if r := g.runBare(undo...); r.code != 0 {
						t.Errorf("undo %q: %+v", undo, r)
					}
				}
				if after := modes(); after != before {
					t.Errorf("a after %q, b after %q: %s, before %v, after the undo %v", a, b, ask, before, after)
				}
			}
		}
	}
}

// undoCommands reads the command lines that an output shows.
func undoCommands(out string) [][]string {
	var all [][]string
	for line := range strings.Lines(out) {
		if command, ok := strings.CutPrefix(line, "undo: headgate "); ok {
			all = append(all, strings.Fields(command))
		}
	}
	return all
}

func TestDryRunChangesNothing(t *testing.T) {
	g := newTestEnv(t)
	s := g.serveControl()
	s.Fill("b", 7, 35*time.Second)
	g.run("rollback", "--dry-run").want(t, 0,
		"a: would change enforce → passthrough; 0 running and 0 queued would be kept\n"+
			"b: would change enforce → passthrough; 2 running and 5 queued would be kept\n")
	g.run("rollback", "--pool", "b")
	overdue, _ := s.Gates["b"].Overdue(time.Now())
	if overdue == 0 || overdue == 5 {
		t.Fatalf("%d of 5 are overdue: the test shows nothing", overdue)
	}
	r := g.run("restore", "--pool", "b", "--dry-run", "--drop-overdue")
	if !strings.Contains(r.out, "b: would change passthrough → enforce") ||
		!strings.Contains(r.out, "queued would be refused, because they could no longer meet their deadline") {
		t.Errorf("stdout %q", r.out)
	}
	if s.Mode("b") != admission.PassThrough || s.Gates["b"].Snapshot(time.Now()).Depth != 5 {
		t.Error("a dry run changed something")
	}
	rows := strings.Count(g.run("audit").out, "\n")
	if rows != 1+2+1 {
		t.Errorf("%d lines of audit, want a head, two first starts and one rollback", rows)
	}
}

func TestRestoreWithBacklog(t *testing.T) {
	g := newTestEnv(t)
	s := g.serveControl()
	g.run("rollback")
	s.Fill("a", 7, 35*time.Second)
	r := g.run("restore", "--pool", "a")
	for _, part := range []string{"a: passthrough → enforce; 2 running and 5 queued kept\n",
		"of 5 queued can no longer meet their deadline", "to drain\n",
		"to refuse those: headgate restore --drop-overdue --pool a --data-dir " + g.dataDir} {
		if !strings.Contains(r.out, part) {
			t.Errorf("stdout %q, want %q in it", r.out, part)
		}
	}
	overdue, _ := s.Gates["a"].Overdue(time.Now())
	r = g.run("restore", "--pool", "a", "--drop-overdue")
	if snap := s.Gates["a"].Snapshot(time.Now()); snap.Depth != 5-overdue || overdue == 0 {
		t.Errorf("%d of 5 wait, %d were overdue", snap.Depth, overdue)
	}
	if !strings.Contains(r.out, "refused, because they could no longer meet their deadline") {
		t.Errorf("stdout %q", r.out)
	}
}

func TestOrderJSON(t *testing.T) {
	g := newTestEnv(t)
	g.serveControl()
	got := g.run("rollback", "--json", "--reason", "why").decodeJSON(t)
	if keys := slices.Sorted(maps.Keys(got)); !slices.Equal(keys,
		[]string{"changes", "deferred", "dry_run", "path", "recorded", "request", "undo_commands"}) {
		t.Errorf("keys %q", keys)
	}
	if got["path"] != "api" || got["recorded"] != true || got["dry_run"] != false {
		t.Errorf("got %v", got)
	}
	changes := got["changes"].([]any)
	first := changes[0].(map[string]any)
	for key, want := range map[string]any{"pool": "a", "from": "enforce", "to": "passthrough", "before": "enforce",
		"actor": "ana@host", "reason": "why", "via": "api"} {
		if first[key] != want {
			t.Errorf("%s is %v, want %v", key, first[key], want)
		}
	}
}

// TestErrorRepliesAreNotUnreachable: a refusal is passed on, and no request is queued in the database.
func TestErrorRepliesAreNotUnreachable(t *testing.T) {
	g := newTestEnv(t)
	s := g.serveControl()
	g.run("rollback", "--pool", "c").want(t, 1, "",
		`headgate: rollback failed, nothing was changed: There is no pool "c". There are: a, b.`)
	g.vars["HEADGATE_TOKEN"] = "not-the-token-at-all-1234"
	g.run("rollback").want(t, 1, "", "The token is not the right one", "HEADGATE_TOKEN")
	for range 15 {
		g.run("status")
	}
	g.run("rollback").want(t, 1, "", "Too many wrong tokens")
	g.vars["HEADGATE_TOKEN"] = watchToken
	g.run("observe", "--pool", "a").want(t, 0,
		"a: enforce → observe; 0 running and 0 queued kept\nundo: headgate restore --pool a --data-dir "+g.dataDir+"\n")
	if s.Mode("b") != admission.Enforce {
		t.Error("a refused order was carried out")
	}
}

func TestOrderWrongUse(t *testing.T) {
	g := newTestEnv(t)
	g.serveControl()
	for _, c := range []struct {
		args []string
		hint string
	}{
		{[]string{"rollback", "--pool", ".."}, "cannot be a pool"},
		{[]string{"rollback", "--pool", "a/../b"}, "cannot be a pool"},
		{[]string{"rollback", "now"}, "--help"},
		{[]string{"rollback", "--drop-overdue"}, "--help"},
		{[]string{"observe", "--reason", strings.Repeat("x", 501)}, "at most 500 characters"},
		{[]string{"restore", "--admin", "http://gate.example:8485"}, "not sent over plain http"},
		{[]string{"restore", "--admin", "nonsense"}, "must be like http://127.0.0.1:8485"},
	} {
		r := g.run(c.args...)
		if r.code != cli.ExitUsage || !strings.Contains(r.err, c.hint) || r.out != "" {
			t.Errorf("%v: %+v, want exit 2 and %q", c.args, r, c.hint)
		}
	}
	if out := g.run("audit").out; strings.Count(out, "\n") != 3 {
		t.Errorf("something was changed:\n%s", out)
	}
}

// TestReasonIsOneLine: a reason of several lines is joined to one.
func TestReasonIsOneLine(t *testing.T) {
	g := newTestEnv(t)
	g.serveControl()
	if r := g.run("rollback", "--reason", " p95\n climbs\t\x1b[2J "); r.code != 0 {
		t.Fatalf("%+v", r)
	}
	if out := g.run("audit").out; !strings.Contains(out, "p95 climbs \uFFFD[2J\n") {
		t.Errorf("audit:\n%s", out)
	}
}

// TestForeignReplies: a page that reaches the listener by a foreign name, or from another site, changes nothing, even
// with the token.
func TestForeignReplies(t *testing.T) {
	g := newTestEnv(t)
	s := g.serve()
	for name, c := range map[string]struct {
		host, origin string
		status       int
	}{
		"foreign host": {"evil.example", "", http.StatusMisdirectedRequest},
		"rebinding":    {"evil.example", "http://evil.example", http.StatusMisdirectedRequest},
		"other site":   {"localhost", "http://evil.example", http.StatusForbidden},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://"+s.AdminAddr()+"/api/v1/mode",
			strings.NewReader(`{"mode":"passthrough"}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Host = c.host
		req.Header.Set("Authorization", "Bearer "+s.token)
		req.Header.Set("Content-Type", "application/json")
		if c.origin != "" {
			req.Header.Set("Origin", c.origin)
		}
		reply, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		reply.Body.Close()
		if reply.StatusCode != c.status || s.Mode("a") != admission.Enforce {
			t.Errorf("%s: status %d, mode %s", name, reply.StatusCode, s.Mode("a"))
		}
	}
	http.DefaultClient.CloseIdleConnections()
}

// TestOfflineRollback: whatever keeps the admin listener from answering, the service takes the request from its
// database.
func TestOfflineRollback(t *testing.T) {
	t.Parallel()
	g := newTestEnv(t)
	s := g.serve()
	s.Fill("a", 3, time.Hour)
	admin := g.vars["HEADGATE_ADMIN"]
	addresses := map[string]string{
		"no answer":   hangingServer(t),
		"no listener": closedAddress(t),
		"no TLS":      strings.Replace(hangingServer(t), "http:", "https:", 1),
		"bad gateway": foreignServer(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(502) }),
		"another":     foreignServer(t, http.NotFound),
	}
	number := 0
	for name, address := range addresses {
		number++
		g.vars["HEADGATE_ADMIN"] = address
		r := g.run("rollback", "--reason", "why")
		r.want(t, 0, "a: enforce → passthrough; 2 running and 1 queued kept\n"+
			"b: enforce → passthrough; 0 running and 0 queued kept\nundo: headgate restore --data-dir "+g.dataDir+"\n",
			"no answer from the admin plane", fmt.Sprintf("queued request %d in the database in %s", number, g.dataDir))
		if s.Mode("a") != admission.PassThrough || s.Mode("b") != admission.PassThrough {
			t.Errorf("%s: the modes were not changed", name)
		}
		g.vars["HEADGATE_ADMIN"] = admin
		g.run("restore")
	}
	out := g.run("audit").out
	if n := 2 * len(addresses); strings.Count(out, "ana@host  request") != n || strings.Count(out, "ana@host  api") != n {
		t.Errorf("audit:\n%s", out)
	}
}

func TestOfflineRestoreAndObserve(t *testing.T) {
	t.Parallel()
	g := newTestEnv(t)
	s := g.serve()
	g.run("rollback")
	g.vars["HEADGATE_ADMIN"] = closedAddress(t)
	got := g.run("restore", "--pool", "b", "--json").decodeJSON(t)
	if got["path"] != "request" || got["request"] != 1.0 || got["deferred"] != false || len(got["changes"].([]any)) != 1 {
		t.Errorf("got %v", got)
	}
	if r := g.run("observe", "--pool", "a"); r.code != 0 || !strings.HasPrefix(r.out, "a: passthrough → observe;") {
		t.Errorf("%+v", r)
	}
	if s.Mode("a") != admission.Observe || s.Mode("b") != admission.Enforce {
		t.Errorf("a is in %s, b in %s", s.Mode("a"), s.Mode("b"))
	}
}

// TestNoToken: a rollback needs no token where the database can be written.
func TestNoToken(t *testing.T) {
	t.Parallel()
	g := newTestEnv(t)
	s := g.serve()
	if err := os.Remove(g.dataDir + "/headgate.token"); err != nil {
		t.Fatal(err)
	}
	if r := g.run("rollback"); r.code != 0 || !strings.Contains(r.err, "there is no headgate.token in "+g.dataDir) {
		t.Errorf("%+v", r)
	}
	if s.Mode("a") != admission.PassThrough {
		t.Error("the mode was not changed")
	}
	g.run("status").want(t, cli.ExitUsage, "", "set HEADGATE_TOKEN")
}

// TestNothingRuns: the request is applied at the next start, once.
func TestNothingRuns(t *testing.T) {
	g := newTestEnv(t)
	s := g.serve()
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	g.run("rollback", "--pool", "b").want(t, 0, "b: rollback at the next start (request 1)\n",
		"queued request 1", "no service runs from "+g.dataDir+": the request is applied at the next start")
	got := g.run("observe", "--pool", "a", "--json").decodeJSON(t)
	if got["deferred"] != true || got["request"] != 2.0 || len(got["changes"].([]any)) != 0 {
		t.Errorf("got %v", got)
	}
	s = g.serve()
	if s.Mode("a") != admission.Observe || s.Mode("b") != admission.PassThrough {
		t.Errorf("a is in %s, b in %s after the start", s.Mode("a"), s.Mode("b"))
	}
}

// TestPoolThatTheRecordDoesNotKnow: a mistyped name must not look like success,
// but a pool may be new in the settings.
func TestPoolThatTheRecordDoesNotKnow(t *testing.T) {
	t.Parallel()
	const warning = `pool "bee" has never served from there: if the name is mistyped, nothing will change`
	g := newTestEnv(t)
	s := g.serve()
	g.vars["HEADGATE_ADMIN"] = closedAddress(t)
	confirm := g.env.ConfirmTimeout
	g.env.ConfirmTimeout = 200 * time.Millisecond // it is never applied
	g.run("rollback", "--pool", "bee").want(t, cli.ExitFailed, "", warning, "request 1 was not seen applied")
	g.env.ConfirmTimeout = confirm
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	g.run("rollback", "--pool", "bee").want(t, 0, "bee: rollback at the next start (request 2)\n", warning)
	for _, args := range [][]string{{"rollback", "--pool", "b"}, {"rollback"}} {
		if r := g.run(args...); r.code != 0 || strings.Contains(r.err, "never served") {
			t.Errorf("%v: %+v", args, r)
		}
	}
}

func TestBothPathsFail(t *testing.T) {
	g := newTestEnv(t)
	g.vars["HEADGATE_ADMIN"] = closedAddress(t)
	for _, c := range []string{"rollback", "restore", "observe"} {
		r := g.run(c)
		r.want(t, cli.ExitUnreachable, "", "no answer from the admin plane",
			"the request could not be queued in "+g.dataDir+" either", "what remains:",
			"stop headgate and let clients use the model endpoint directly", "--ephemeral and mode: passthrough")
	}
	if _, err := os.Stat(g.dataDir); !os.IsNotExist(err) {
		t.Error("a data directory was made")
	}
}

// TestRemoteUnreachable: the database here is not that of a service elsewhere.
func TestRemoteUnreachable(t *testing.T) {
	g := newTestEnv(t)
	g.env.QueueModeRequest = func(context.Context, string, control.ModeRequest) (cli.QueuedRequest, error) {
		t.Error("a request was left")
		return cli.QueuedRequest{}, nil
	}
	g.env.ReadAudit = func(context.Context, string, control.AuditQuery) (control.AuditPage, error) {
		t.Error("the database was read")
		return control.AuditPage{}, nil
	}
	g.vars["HEADGATE_ADMIN"] = "https://gate.invalid:8485"
	g.runBare("rollback").want(t, cli.ExitUnreachable, "", "there is no token for https://gate.invalid:8485",
		"headgate rollback --data-dir DIR")
	g.vars["HEADGATE_TOKEN"] = "a-token-for-elsewhere-1234"
	g.runBare("rollback").want(t, cli.ExitUnreachable, "", "the database is not on this machine", "what remains:")
	g.runBare("audit").want(t, cli.ExitUnreachable, "", "no answer")
	g.runBare("status").want(t, cli.ExitUnreachable, "", "no answer")
}

func TestDryRunWithoutAnswer(t *testing.T) {
	t.Parallel()
	g := newTestEnv(t)
	s := g.serveControl()
	g.vars["HEADGATE_ADMIN"] = hangingServer(t)
	g.run("rollback", "--dry-run").want(t, cli.ExitUnreachable, "",
		"nothing was changed; without --dry-run the request would now be queued in the database in "+g.dataDir)
	if s.Mode("a") != admission.Enforce {
		t.Error("a dry run changed something")
	}
}

// TestNotSeenDone: a request that the service does not apply in time is reported.
func TestNotSeenDone(t *testing.T) {
	t.Parallel()
	g := newTestEnv(t)
	g.vars["HEADGATE_ADMIN"] = closedAddress(t)
	g.env.QueueModeRequest = func(_ context.Context, dir string, o control.ModeRequest) (cli.QueuedRequest, error) {
		if dir != g.dataDir || o.Action != control.Rollback || o.Mode != admission.PassThrough || o.Actor != "ana@host" ||
			o.Via != control.ViaRequest {
			t.Errorf("left %+v in %s", o, dir)
		}
		return cli.QueuedRequest{Number: 7, Running: true, Owner: "process 1 \x1b[2J"}, nil
	}
	g.env.ReadAudit = func(context.Context, string, control.AuditQuery) (control.AuditPage, error) {
		return control.NewAuditPage([]control.ModeChange{{RequestNumber: 6, Pool: "a"}}, nil, ""), nil
	}
	g.env.ConfirmTimeout = 200 * time.Millisecond
	r := g.run("rollback")
	r.want(t, cli.ExitFailed, "", "request 7 was not seen applied within 200ms", "headgate status --data-dir",
		"what remains:")
	if strings.Contains(r.err, "\x1b") {
		t.Error("an escape of the holder's came through")
	}
}

// TestRestoreMaybeApplied: a restore that was sent and not answered is never given a
// second time.
func TestRestoreMaybeApplied(t *testing.T) {
	t.Parallel()
	for _, done := range []bool{true, false} {
		t.Run(fmt.Sprint("done ", done), func(t *testing.T) {
			t.Parallel()
			g := newTestEnv(t)
			g.vars["HEADGATE_TOKEN"] = watchToken
			g.vars["HEADGATE_ADMIN"] = foreignServer(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) })
			g.env.QueueModeRequest = func(context.Context, string, control.ModeRequest) (cli.QueuedRequest, error) {
				t.Error("the request was sent a second time")
				return cli.QueuedRequest{}, errors.New("no")
			}
			earlier := time.Now().Add(-2 * time.Millisecond)
			g.env.ReadAudit = func(context.Context, string, control.AuditQuery) (control.AuditPage, error) {
				change := control.ModeChange{Pool: "a", Action: control.Restore, From: admission.PassThrough, To: admission.Observe,
					Actor: "ana@host", At: time.Now(), Running: 1}
				if !done {
					change.At = earlier // one of a moment ago
				}
				other := change
				other.Actor, other.At = "bob@host", time.Now()
				return control.NewAuditPage([]control.ModeChange{other, change}, nil, ""), nil
			}
			if !done {
				g.env.ConfirmTimeout = 200 * time.Millisecond // it is never applied
			}
			r := g.run("restore")
			if done {
				r.want(t, 0, "a: passthrough → observe; 1 running and 0 queued kept\nundo: headgate rollback --data-dir "+g.dataDir+"\n", "shows that it was applied")
			} else {
				r.want(t, cli.ExitUnreachable, "", "its result is unknown", "headgate status")
			}
		})
	}
}

// TestUnrecordedIsReported: applied counts as done, with a warning.
func TestUnrecordedIsReported(t *testing.T) {
	g := newTestEnv(t)
	g.vars["HEADGATE_TOKEN"] = "a-token-of-a-test-123456"
	g.vars["HEADGATE_ADMIN"] = foreignServer(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"dry_run":false,"recorded":false,"changes":[{"id":"x","pool":"a","from":"enforce","to":"passthrough","running":4,"queued":12}]}`)
	})
	g.run("rollback").want(t, 0, "a: enforce → passthrough; 4 running and 12 queued kept\nundo: headgate restore --data-dir "+g.dataDir+"\n",
		"warning: applied but not recorded yet: a restart would lose it")
}

func TestPauseAndResume(t *testing.T) {
	t.Parallel()
	g := newTestEnv(t)
	s := g.serve()
	left := func(pool string) time.Duration { return time.Until(s.gate(pool).Snapshot(time.Now()).PausedUntil) }
	if r := g.run("pause", "--pool", "a", "--dry-run"); !strings.Contains(r.out, "would grant no permits") ||
		left("a") > 0 {
		t.Errorf("a dry run: %s, paused for %s", r.out, left("a"))
	}
	r := g.run("pause", "--pool", "a", "--for", "1h", "--reason", "new model")
	if r.code != 0 || !strings.Contains(r.out, "Pool a grants no permits until ") ||
		!strings.Contains(r.out, "undo: headgate resume --pool a") {
		t.Errorf("exit %d\n%s%s", r.code, r.out, r.err)
	}
	if left("a") < 59*time.Minute || left("b") > 0 {
		t.Errorf("a is paused for %s, b for %s", left("a"), left("b"))
	}
	if out := g.run("status").out; !strings.Contains(out, "paused until ") || !strings.Contains(out, "new model") {
		t.Errorf("status\n%s", out)
	}
	var status api.Status
	if err := json.Unmarshal([]byte(g.run("status", "--json").out), &status); err != nil ||
		status.Pools[0].Paused == nil || status.Pools[0].Paused.Actor != "ana@host" ||
		status.Pools[1].Paused != nil || status.Pools[0].AutoRollback.State != "armed" {
		t.Errorf("status %+v, %v", status, err)
	}
	for !strings.Contains(g.run("audit", "--kind", "action").out, "pause done") { // it is recorded beside those who act
		if t.Context().Err() != nil {
			t.Fatal("it is not in the audit")
		}
	}
	var reply api.ActionReply
	if err := json.Unmarshal([]byte(g.run("resume", "--json").out), &reply); err != nil || !reply.Verified ||
		left("a") > 0 {
		t.Errorf("%+v, %v, a is paused for %s", reply, err, left("a"))
	}
	g.run("resume").want(t, cli.ExitFailed, "", "resume failed, nothing was changed", "not paused")
}

func TestPauseRefuses(t *testing.T) {
	g := newTestEnv(t)
	g.serveControl()
	g.run("pause", "--for", "25h").want(t, cli.ExitUsage, "", "--for must be at most 24h")
	g.run("pause", "--for", "soon").want(t, cli.ExitUsage, "", "--for must be a span")
	g.run("pause", "--pool", "A B").want(t, cli.ExitUsage, "", "--pool")
	g.run("pause", "--pool", "c").want(t, cli.ExitFailed, "", "no pool", "There are: a, b")
	g.vars["HEADGATE_ADMIN"] = closedAddress(t)
	g.run("pause").want(t, cli.ExitUnreachable, "", "no answer")
}
