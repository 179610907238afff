package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"headgate/web/api"
)

func TestPauseAndResume(t *testing.T) {
	g := newTestEnv(t)
	s := g.serve()
	left := func(pool string) time.Duration { return time.Until(s.gate(pool).Snapshot(time.Now()).PausedUntil) }
	if r := g.run("pause", "--pool", "a", "--dry-run"); !strings.Contains(r.out, "would hand out no permit") || left("a") > 0 {
		t.Errorf("a dry run: %s, paused for %s", r.out, left("a"))
	}
	r := g.run("pause", "--pool", "a", "--for", "1h", "--reason", "new model")
	if r.code != 0 || !strings.Contains(r.out, "Pool a hands out no permit until ") || !strings.Contains(r.out, "undo: headgate resume --pool a") {
		t.Errorf("exit %d\n%s%s", r.code, r.out, r.err)
	}
	if left("a") < 59*time.Minute || left("b") > 0 {
		t.Errorf("a is paused for %s, b for %s", left("a"), left("b"))
	}
	if out := g.run("status").out; !strings.Contains(out, "paused until ") || !strings.Contains(out, "new model") {
		t.Errorf("status\n%s", out)
	}
	var status api.Status
	if err := json.Unmarshal([]byte(g.run("status", "--json").out), &status); err != nil || status.Pools[0].Paused == nil || status.Pools[0].Paused.By != "ana@host" ||
		status.Pools[1].Paused != nil || status.Pools[0].AutoRollback.State != "armed" {
		t.Errorf("status %+v, %v", status, err)
	}
	for !strings.Contains(g.run("audit", "--kind", "action").out, "pause done") { // it is recorded beside those who act
		if t.Context().Err() != nil {
			t.Fatal("it is not in the audit")
		}
	}
	var reply api.ActionReply
	if err := json.Unmarshal([]byte(g.run("resume", "--json").out), &reply); err != nil || !reply.Verified || left("a") > 0 {
		t.Errorf("%+v, %v, a is paused for %s", reply, err, left("a"))
	}
	g.run("resume").want(t, exitFailed, "", "resume failed, nothing was changed", "not paused")
}

func TestPauseRefuses(t *testing.T) {
	g := newTestEnv(t)
	g.serve()
	g.run("pause", "--for", "25h").want(t, exitUsage, "", "--for must be at most 24h")
	g.run("pause", "--for", "soon").want(t, exitUsage, "", "--for must be a span")
	g.run("pause", "--pool", "A B").want(t, exitUsage, "", "--pool")
	g.run("pause", "--pool", "c").want(t, exitFailed, "", "no pool", "There are: a, b")
	g.vars["HEADGATE_ADMIN"] = closedAddress(t)
	g.run("pause").want(t, exitUnreachable, "", "no answer")
}
