package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"headgate/internal/app"
	"headgate/proxy/admission"
	"headgate/runbooks/control"
	"headgate/web/api"
)

// TestOfflineRollback: while the admin plane does not answer, in whatever way,
// the service takes the order from its database.
func TestOfflineRollback(t *testing.T) {
	t.Parallel()
	for name, address := range map[string]func(*testing.T) string{
		"wedged": hangingServer,
		"nobody": closedAddress,
		"no TLS": func(t *testing.T) string { return strings.Replace(hangingServer(t), "http:", "https:", 1) },
		"bad gateway": func(t *testing.T) string {
			return foreignServer(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(502) })
		},
		"another": func(t *testing.T) string { return foreignServer(t, http.NotFound) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newTestEnv(t)
			s := g.serve()
			s.fill("a", 3, time.Hour)
			g.vars["HEADGATE_ADMIN"] = address(t)
			r := g.run("rollback", "--reason", "why")
			r.want(t, 0, "a: enforce → passthrough; 2 running and 1 queued kept\n"+
				"b: enforce → passthrough; 0 running and 0 queued kept\nundo: headgate restore --data-dir "+g.dataDir+"\n",
				"no answer from the admin plane", "left request 1 in the database in "+g.dataDir+" instead", "takes it within a second")
			if s.mode("a") != admission.PassThrough || s.mode("b") != admission.PassThrough {
				t.Error("the modes were not changed")
			}
			if out := g.run("audit").out; strings.Count(out, "ana@host") != 2 || strings.Count(out, "request") != 2 {
				t.Errorf("audit:\n%s", out)
			}
		})
	}
}

func TestOfflineRestoreAndObserve(t *testing.T) {
	t.Parallel()
	g := newTestEnv(t)
	s := g.serve()
	g.run("rollback")
	g.vars["HEADGATE_ADMIN"] = closedAddress(t)
	got := g.run("restore", "--pool", "b", "--json").decodeJSON(t)
	if got["way"] != "request" || got["request"] != 1.0 || got["waits"] != false || len(got["changes"].([]any)) != 1 {
		t.Errorf("got %v", got)
	}
	if r := g.run("observe", "--pool", "a"); r.code != 0 || !strings.HasPrefix(r.out, "a: passthrough → observe;") {
		t.Errorf("%+v", r)
	}
	if s.mode("a") != admission.Observe || s.mode("b") != admission.Enforce {
		t.Errorf("a is in %s, b in %s", s.mode("a"), s.mode("b"))
	}
}

// TestNoToken: the database is enough for those who may write it.
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
	if s.mode("a") != admission.PassThrough {
		t.Error("the mode was not changed")
	}
	g.run("status").want(t, exitUsage, "", "set HEADGATE_TOKEN")
}

// TestNothingRuns: the order counts at the next start, once.
func TestNothingRuns(t *testing.T) {
	g := newTestEnv(t)
	s := g.serve()
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	g.run("rollback", "--pool", "b").want(t, 0, "b: rollback at the next start (request 1)\n",
		"left request 1", "nothing serves from "+g.dataDir+": the request counts at the next start")
	got := g.run("observe", "--pool", "a", "--json").decodeJSON(t)
	if got["waits"] != true || got["request"] != 2.0 || len(got["changes"].([]any)) != 0 {
		t.Errorf("got %v", got)
	}
	s = g.serve()
	if s.mode("a") != admission.Observe || s.mode("b") != admission.PassThrough {
		t.Errorf("a is in %s, b in %s after the start", s.mode("a"), s.mode("b"))
	}
}

// TestPoolThatTheRecordDoesNotKnow: a mistyped name must not look like success,
// but a pool may be new in the settings.
func TestPoolThatTheRecordDoesNotKnow(t *testing.T) {
	t.Parallel()
	const warning = `no pool "bee" has ever served from there: if the name is mistyped, nothing will change`
	g := newTestEnv(t)
	s := g.serve()
	g.vars["HEADGATE_ADMIN"] = closedAddress(t)
	g.run("rollback", "--pool", "bee").want(t, exitFailed, "", warning, "request 1 was not seen done")
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	g.run("rollback", "--pool", "bee").want(t, 0, "bee: rollback at the next start (request 2)\n", warning)
	for _, args := range [][]string{{"rollback", "--pool", "b"}, {"rollback"}} {
		if r := g.run(args...); r.code != 0 || strings.Contains(r.err, "ever served") {
			t.Errorf("%v: %+v", args, r)
		}
	}
}

func TestBothWaysFail(t *testing.T) {
	g := newTestEnv(t)
	g.vars["HEADGATE_ADMIN"] = closedAddress(t)
	for _, c := range []string{"rollback", "restore", "observe"} {
		r := g.run(c)
		r.want(t, exitUnreachable, "", "no answer from the admin plane", "no request could be left in "+g.dataDir+" either", "what is left:",
			"stop headgate and let clients use the model endpoint itself", "--ephemeral and mode: passthrough")
	}
	if _, err := os.Stat(g.dataDir); !os.IsNotExist(err) {
		t.Error("a data directory was made")
	}
}

// TestRemoteUnreachable: the database here is not that of a service elsewhere.
func TestRemoteUnreachable(t *testing.T) {
	g := newTestEnv(t)
	g.environment.leaveRequest = func(context.Context, string, control.ModeRequest) (app.QueuedRequest, error) {
		t.Error("a request was left")
		return app.QueuedRequest{}, nil
	}
	g.environment.readAudit = func(context.Context, string, api.AuditQuery) (api.AuditRecords, error) {
		t.Error("the database was read")
		return api.AuditRecords{}, nil
	}
	g.vars["HEADGATE_ADMIN"] = "https://gate.invalid:8485"
	g.runBare("rollback").want(t, exitUnreachable, "", "there is no token for https://gate.invalid:8485", "headgate rollback --data-dir DIR")
	g.vars["HEADGATE_TOKEN"] = "a-token-for-elsewhere-1234"
	g.runBare("rollback").want(t, exitUnreachable, "", "the database is not on this machine", "what is left:")
	g.runBare("audit").want(t, exitUnreachable, "", "no answer")
	g.runBare("status").want(t, exitUnreachable, "", "no answer")
}

func TestDryRunWithoutAnswer(t *testing.T) {
	t.Parallel()
	g := newTestEnv(t)
	s := g.serve()
	g.vars["HEADGATE_ADMIN"] = hangingServer(t)
	g.run("rollback", "--dry-run").want(t, exitUnreachable, "", "nothing was changed; without --dry-run the order would now be left in the database in "+g.dataDir)
	if s.mode("a") != admission.Enforce {
		t.Error("a dry run changed something")
	}
}

// TestNotSeenDone: a service that does not take the request is told of.
func TestNotSeenDone(t *testing.T) {
	t.Parallel()
	g := newTestEnv(t)
	g.vars["HEADGATE_ADMIN"] = closedAddress(t)
	g.environment.leaveRequest = func(_ context.Context, dir string, o control.ModeRequest) (app.QueuedRequest, error) {
		if dir != g.dataDir || o.Action != control.Rollback || o.Mode != admission.PassThrough || o.Actor != "ana@host" || o.Via != control.ViaRequest {
			t.Errorf("left %+v in %s", o, dir)
		}
		return app.QueuedRequest{Number: 7, Running: true, Owner: "process 1 \x1b[2J"}, nil
	}
	g.environment.readAudit = func(context.Context, string, api.AuditQuery) (api.AuditRecords, error) {
		return api.AuditRecords{Changes: []control.ModeChange{{RequestNumber: 6, Pool: "a"}}}, nil
	}
	r := g.run("rollback")
	r.want(t, exitFailed, "", "request 7 was not seen done within 2s", "headgate status --data-dir", "what is left:")
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
			g.serve() // for the token
			g.vars["HEADGATE_ADMIN"] = foreignServer(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) })
			g.environment.leaveRequest = func(context.Context, string, control.ModeRequest) (app.QueuedRequest, error) {
				t.Error("the order was given a second time")
				return app.QueuedRequest{}, errors.New("no")
			}
			earlier := time.Now().Add(-2 * time.Millisecond)
			g.environment.readAudit = func(context.Context, string, api.AuditQuery) (api.AuditRecords, error) {
				change := control.ModeChange{Pool: "a", Action: control.Restore, From: admission.PassThrough, To: admission.Observe, Actor: "ana@host", At: time.Now(), Running: 1}
				if !done {
					change.At = earlier // one of a moment ago
				}
				other := change
				other.Actor, other.At = "bob@host", time.Now()
				return api.AuditRecords{Changes: []control.ModeChange{other, change}}, nil
			}
			r := g.run("restore")
			if done {
				r.want(t, 0, "a: passthrough → observe; 1 running and 0 queued kept\nundo: headgate rollback --data-dir "+g.dataDir+"\n", "shows that it was done")
			} else {
				r.want(t, exitUnreachable, "", "whether it was carried out is not known", "headgate status")
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
		"warning: applied but not recorded yet: a restart would forget it")
}
