package main

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"headgate/proxy/admission"
)

func TestRollbackAndRestore(t *testing.T) {
	g := newTestEnv(t)
	s := g.serve()
	s.fill("a", 5, time.Hour)
	r := g.run("rollback", "--reason", "p95 climbs")
	r.want(t, 0, "a: enforce → passthrough; 2 running and 3 queued kept\n"+
		"b: enforce → passthrough; 0 running and 0 queued kept\n"+
		"undo: headgate restore --data-dir "+g.dataDir+"\n")
	if s.mode("a") != admission.PassThrough || s.mode("b") != admission.PassThrough {
		t.Error("the modes were not changed")
	}
	g.run("rollback").want(t, 0, "a: already in passthrough; 2 running, 3 queued\nb: already in passthrough; 0 running, 0 queued\n")
	r = g.run("restore", "--pool", "a")
	r.want(t, 0, "a: passthrough → enforce; 2 running and 3 queued kept\nundo: headgate rollback --pool a --data-dir "+g.dataDir+"\n")
	if s.mode("a") != admission.Enforce || s.mode("b") != admission.PassThrough {
		t.Error("not only pool a was changed")
	}
	if snap := s.gate("a").Snapshot(time.Now()); snap.InFlight != 2 || snap.Depth != 3 {
		t.Errorf("%d run and %d wait: something was touched", snap.InFlight, snap.Depth)
	}
}

// TestUndoIsExact: the command that is shown takes back what was done and nothing
// else, wherever the pools stood before.
func TestUndoIsExact(t *testing.T) {
	starts := [][]string{{}, {"observe"}, {"rollback"}, {"observe", "rollback"}}
	for _, a := range starts {
		for _, b := range starts {
			for _, ask := range []string{"rollback", "restore", "observe"} {
				t.Run(strings.Join(a, " ")+", "+strings.Join(b, " ")+": "+ask, func(t *testing.T) {
					g := newTestEnv(t)
					s := g.serve()
					for _, c := range a {
						g.run(c, "--pool", "a")
					}
					for _, c := range b {
						g.run(c, "--pool", "b")
					}
					before := [2]admission.Mode{s.mode("a"), s.mode("b")}
					for _, undo := range undoCommands(g.run(ask).out) {
						if r := g.runBare(undo...); r.code != 0 {
							t.Errorf("undo %q: %+v", undo, r)
						}
					}
					if after := [2]admission.Mode{s.mode("a"), s.mode("b")}; after != before {
						t.Errorf("before %v, after the undo %v", before, after)
					}
				})
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
	s := g.serve()
	s.fill("b", 7, 35*time.Second)
	g.run("rollback", "--dry-run").want(t, 0, "a: would go enforce → passthrough; 0 running and 0 queued would be kept\n"+
		"b: would go enforce → passthrough; 2 running and 5 queued would be kept\n")
	g.run("rollback", "--pool", "b")
	overdue, _ := s.gate("b").Overdue(time.Now())
	if overdue == 0 || overdue == 5 {
		t.Fatalf("%d of 5 are overdue: the test shows nothing", overdue)
	}
	r := g.run("restore", "--pool", "b", "--dry-run", "--drop-overdue")
	if !strings.Contains(r.out, "b: would go passthrough → enforce") || !strings.Contains(r.out, "queued would be refused, since they could no longer end in time") {
		t.Errorf("stdout %q", r.out)
	}
	if s.mode("b") != admission.PassThrough || s.gate("b").Snapshot(time.Now()).Depth != 5 {
		t.Error("a dry run changed something")
	}
	rows := strings.Count(g.run("audit").out, "\n")
	if rows != 1+2+1 {
		t.Errorf("%d lines of audit, want a head, two first starts and one rollback", rows)
	}
}

func TestRestoreWithBacklog(t *testing.T) {
	g := newTestEnv(t)
	s := g.serve()
	g.run("rollback")
	s.fill("a", 7, 35*time.Second)
	r := g.run("restore", "--pool", "a")
	for _, part := range []string{"a: passthrough → enforce; 2 running and 5 queued kept\n", "of 5 queued can no longer end in time", "to drain\n",
		"to refuse those: headgate restore --drop-overdue --pool a --data-dir " + g.dataDir} {
		if !strings.Contains(r.out, part) {
			t.Errorf("stdout %q, want %q in it", r.out, part)
		}
	}
	overdue, _ := s.gate("a").Overdue(time.Now())
	r = g.run("restore", "--pool", "a", "--drop-overdue")
	if snap := s.gate("a").Snapshot(time.Now()); snap.Depth != 5-overdue || overdue == 0 {
		t.Errorf("%d of 5 wait, %d were overdue", snap.Depth, overdue)
	}
	if !strings.Contains(r.out, "refused, since they could no longer end in time") {
		t.Errorf("stdout %q", r.out)
	}
}

func TestOrderJSON(t *testing.T) {
	g := newTestEnv(t)
	g.serve()
	got := g.run("rollback", "--json", "--reason", "why").decodeJSON(t)
	if keys := slices.Sorted(maps.Keys(got)); !slices.Equal(keys, []string{"changes", "dry_run", "recorded", "request", "undo", "waits", "way"}) {
		t.Errorf("keys %q", keys)
	}
	if got["way"] != "api" || got["recorded"] != true || got["dry_run"] != false {
		t.Errorf("got %v", got)
	}
	changes := got["changes"].([]any)
	first := changes[0].(map[string]any)
	for key, want := range map[string]any{"pool": "a", "from": "enforce", "to": "passthrough", "before": "enforce", "actor": "ana@host", "reason": "why", "via": "api"} {
		if first[key] != want {
			t.Errorf("%s is %v, want %v", key, first[key], want)
		}
	}
}

// TestErrorRepliesAreNotUnreachable: an answer that refuses is passed on, and nothing is
// left in the database.
func TestErrorRepliesAreNotUnreachable(t *testing.T) {
	g := newTestEnv(t)
	s := g.serve()
	g.run("rollback", "--pool", "c").want(t, 1, "", `headgate: rollback failed, nothing was changed: There is no pool "c". There are: a, b.`)
	g.vars["HEADGATE_TOKEN"] = "not-the-token-at-all-1234"
	g.run("rollback").want(t, 1, "", "The token is not the right one", "HEADGATE_TOKEN")
	for range 15 {
		g.run("status")
	}
	g.run("rollback").want(t, 1, "", "Too many wrong tokens")
	delete(g.vars, "HEADGATE_TOKEN")
	g.run("observe", "--pool", "a").want(t, 0, "a: enforce → observe; 0 running and 0 queued kept\nundo: headgate restore --pool a --data-dir "+g.dataDir+"\n")
	if s.mode("b") != admission.Enforce {
		t.Error("a refused order was carried out")
	}
}

func TestOrderWrongUse(t *testing.T) {
	g := newTestEnv(t)
	g.serve()
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
		if r.code != exitUsage || !strings.Contains(r.err, c.hint) || r.out != "" {
			t.Errorf("%v: %+v, want exit 2 and %q", c.args, r, c.hint)
		}
	}
	if out := g.run("audit").out; strings.Count(out, "\n") != 3 {
		t.Errorf("something was changed:\n%s", out)
	}
}

// TestReasonIsOneLine: what was pasted over several lines is no reason to fail.
func TestReasonIsOneLine(t *testing.T) {
	g := newTestEnv(t)
	g.serve()
	if r := g.run("rollback", "--reason", " p95\n climbs\t\x1b[2J "); r.code != 0 {
		t.Fatalf("%+v", r)
	}
	if out := g.run("audit").out; !strings.Contains(out, "p95 climbs \uFFFD[2J\n") {
		t.Errorf("audit:\n%s", out)
	}
}

// TestForeignReplies: a page that reaches the listener by a name of its own, or from
// another site, gives no orders, even with the token.
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
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://"+s.AdminAddr()+"/api/v1/mode", strings.NewReader(`{"mode":"passthrough"}`))
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
		if reply.StatusCode != c.status || s.mode("a") != admission.Enforce {
			t.Errorf("%s: status %d, mode %s", name, reply.StatusCode, s.mode("a"))
		}
	}
	http.DefaultClient.CloseIdleConnections()
}
