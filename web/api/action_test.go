package api_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"headgate/proxy/admission"
	"headgate/web/api"
)

// act asks for an action that must be done.
func (r *fixture) act(name, body string) api.ActionReply {
	r.Helper()
	var reply api.ActionReply
	r.reply(r.request(testRequest{method: "POST", path: "/api/v1/actions/" + name, body: body}), &reply)
	return reply
}

func TestActions(t *testing.T) {
	r := newFixture(t)
	var list api.ActionList
	r.reply(r.request(testRequest{method: "GET", path: "/api/v1/actions"}), &list)
	var names []string
	for _, a := range list.Items {
		names = append(names, a.Name)
		if a.Description == "" || a.Undo == "" || a.Verify == "" || len(a.Parameters) == 0 {
			t.Errorf("it says too little: %+v", a)
		}
	}
	if got := strings.Join(names, " "); got != "rollback restore observe enforce pause resume ack silence" {
		t.Errorf("there are %s", got)
	}
	if dry := r.act("rollback", `{"pool":"a","dry_run":true}`); !dry.DryRun || dry.Verified || dry.Changes[0].To != "passthrough" || r.mode("a") != admission.Enforce {
		t.Errorf("dry run %+v", dry)
	}
	done := r.act("rollback", `{"pool":"a","expected":"enforce","reason":"why"}`)
	if !done.Verified || !done.Recorded || done.UndoCommands[0] != "headgate restore --pool a" || done.Changes[0].Reason != "why" || r.mode("a") != admission.PassThrough {
		t.Errorf("rollback %+v", done)
	}
}

func TestPause(t *testing.T) {
	r := newFixture(t)
	done := r.act("pause", `{"pool":"a","for":"1h","reason":"new model"}`)
	paused := r.gates["a"].Snapshot(time.Now()).PausedUntil
	if !done.Verified || done.Until == nil || len(done.Changes) != 0 || time.Until(paused) < 59*time.Minute {
		t.Errorf("%+v, the gate is paused until %s", done, paused)
	}
	if r.act("resume", `{"pool":"a"}`); !r.gates["a"].Snapshot(time.Now()).PausedUntil.IsZero() {
		t.Error("not resumed")
	}
	var page api.AuditPage
	r.reply(r.request(testRequest{method: "GET", path: "/api/v1/audit?kind=action"}), &page)
	if len(page.Items) != 2 || page.Items[0].Entry.Via != "api" || page.Items[0].Entry.Result != "done" {
		t.Errorf("the audit has %+v", page.Items)
	}
}

func TestActionsRefuse(t *testing.T) {
	r := newFixture(t)
	for _, tt := range []struct {
		name, body string
		status     int
		say        string
	}{
		{"explode", `{}`, 404, "GET /api/v1/actions lists them"},
		{"rollback", `{"pool":"c"}`, 404, `no pool "c"`},
		{"rollback", `{"pool":"a","expected":"observe"}`, 409, "observe was expected"},
		{"rollback", `{"rule":"x"}`, 400, "takes no rule"},
		{"rollback", `{"expected":"x"}`, 400, "expected must be"},
		{"rollback", `{"reason":"a\nb"}`, 400, "one line"},
		{"rollback", `{"what":1}`, 400, "what"},
		{"pause", `{"for":"soon"}`, 400, "for must be a span"},
		{"pause", `{"for":"25h"}`, 400, "up to 24h"},
		{"resume", `{}`, 409, "not paused"},
		{"ack", `{"incident":"i-1"}`, 404, "no rules"},
	} {
		p := r.problem(r.request(testRequest{method: "POST", path: "/api/v1/actions/" + tt.name, body: tt.body}), tt.status)
		if !strings.Contains(p.Detail, tt.say) {
			t.Errorf("%s %s: %q, want %q", tt.name, tt.body, p.Detail, tt.say)
		}
	}
	if r.mode("a") != admission.Enforce {
		t.Error("something was done")
	}
}

func TestClientActs(t *testing.T) {
	r := newServedFixture(t)
	reply, err := r.client("").DoAction(t.Context(), "pause", api.ActionRequest{Pool: "a", For: "10m"})
	if err != nil || !reply.Verified || reply.Action != "pause" {
		t.Errorf("%+v, %v", reply, err)
	}
	var p *api.Problem
	if _, err := r.client("").DoAction(t.Context(), "resume", api.ActionRequest{Pool: "b"}); !errors.As(err, &p) || p.Status != http.StatusConflict {
		t.Errorf("%v", err)
	}
}
