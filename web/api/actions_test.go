package api_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"headgate/proxy/admission"
	"headgate/runbooks/control"
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
	if dry := r.act("rollback", `{"pool":"a","dry_run":true}`); !dry.DryRun || dry.Verified || dry.Changes[0].To != admission.PassThrough || r.Mode("a") != admission.Enforce {
		t.Errorf("dry run %+v", dry)
	}
	done := r.act("rollback", `{"pool":"a","expected":"enforce","reason":"why"}`)
	if !done.Verified || !done.Recorded || done.UndoCommands[0] != "headgate restore --pool a" || done.Changes[0].Reason != "why" || r.Mode("a") != admission.PassThrough {
		t.Errorf("rollback %+v", done)
	}
}

func TestPause(t *testing.T) {
	r := newFixture(t)
	done := r.act("pause", `{"pool":"a","for":"1h","reason":"new model"}`)
	paused := r.Gates["a"].Snapshot(time.Now()).PausedUntil
	if !done.Verified || done.Until.IsZero() || len(done.Changes) != 0 || time.Until(paused) < 59*time.Minute {
		t.Errorf("%+v, the gate is paused until %s", done, paused)
	}
	if r.act("resume", `{"pool":"a"}`); !r.Gates["a"].Snapshot(time.Now()).PausedUntil.IsZero() {
		t.Error("not resumed")
	}
	if e := r.Record.Entries(); len(e) != 2 || e[0].Via != control.ViaAPI || e[0].Result != control.Done {
		t.Errorf("the audit has %+v", e)
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
		{"ack", `{"incident":"i-1"}`, 404, "No rules"},
	} {
		p := r.problem(r.request(testRequest{method: "POST", path: "/api/v1/actions/" + tt.name, body: tt.body}), tt.status)
		if !strings.Contains(p.Detail, tt.say) {
			t.Errorf("%s %s: %q, want %q", tt.name, tt.body, p.Detail, tt.say)
		}
	}
	if r.Mode("a") != admission.Enforce {
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

func TestModes(t *testing.T) {
	tests := []struct {
		start, ask string
		want       admission.Mode
		action     control.ModeAction
	}{
		{"enforce", "passthrough", admission.PassThrough, control.Rollback},
		{"enforce", "observe", admission.Observe, control.SetMode},
		{"enforce", "restore", admission.Enforce, control.Restore},
		{"observe", "passthrough", admission.PassThrough, control.Rollback},
		{"observe", "restore", admission.Enforce, control.Restore},
		{"observe passthrough", "restore", admission.Observe, control.Restore},
		{"passthrough", "restore", admission.Enforce, control.Restore},
		{"passthrough", "enforce", admission.Enforce, control.SetMode},
	}
	for _, tt := range tests {
		t.Run(tt.start+" to "+tt.ask, func(t *testing.T) {
			r := newFixture(t)
			for mode := range strings.FieldsSeq(tt.start) {
				r.put("/api/v1/pools/a/mode", `{"mode":"`+mode+`"}`)
			}
			from := r.Mode("a")
			var reply api.ModeReply
			w := r.request(testRequest{method: "PUT", path: "/api/v1/pools/a/mode", body: `{"mode":"` + tt.ask + `","reason":"why"}`,
				header: http.Header{api.ActorHeader: {"ana@host"}}})
			r.reply(w, &reply)
			if got := r.Mode("a"); got != tt.want {
				t.Errorf("gate in %s, want %s", got, tt.want)
			}
			if got := r.Mode("b"); got != admission.Enforce {
				t.Errorf("the other pool is in %s", got)
			}
			if len(reply.Changes) != 1 || !reply.Recorded || reply.DryRun {
				t.Fatalf("reply %+v", reply)
			}
			c := reply.Changes[0]
			if c.Pool != "a" || c.From != from || c.To != tt.want || c.Action != tt.action {
				t.Errorf("change %+v", c)
			}
			if changed := from != tt.want; (c.ID != "") != changed || (c.Actor == "ana@host") != changed || (c.Reason == "why") != changed {
				t.Errorf("change %+v, changed %v", c, changed)
			}
		})
	}
}

func TestModeOfAllPools(t *testing.T) {
	r := newFixture(t)
	r.put("/api/v1/pools/b/mode", `{"mode":"observe"}`)
	var reply api.ModeReply
	r.reply(r.put("/api/v1/mode", `{"mode":"passthrough","reason":"storm"}`), &reply)
	var answers []string
	for _, c := range reply.Changes {
		answers = append(answers, fmt.Sprint(c.Pool, " ", c.From, " ", c.To, " ", c.RestoreMode))
	}
	if want := []string{"a enforce passthrough enforce", "b observe passthrough observe"}; !slices.Equal(answers, want) {
		t.Errorf("answers %q", answers)
	}
	r.reply(r.put("/api/v1/mode", `{"mode":"restore"}`), &reply)
	if r.Mode("a") != admission.Enforce || r.Mode("b") != admission.Observe {
		t.Errorf("after restore %s and %s", r.Mode("a"), r.Mode("b"))
	}
	if reply.Changes[0].Actor != "api" {
		t.Errorf("actor %q without a header", reply.Changes[0].Actor)
	}
}

// TestDryRun compares what is planned with what is then done, from every state.
func TestDryRun(t *testing.T) {
	starts := []string{"enforce", "observe", "passthrough", "observe passthrough", "passthrough observe"}
	for _, start := range starts {
		for _, ask := range []string{"enforce", "observe", "passthrough", "restore"} {
			for _, drop := range []string{"false", "true"} {
				if ask == "passthrough" && drop == "true" {
					continue
				}
				t.Run(start+" to "+ask+" drop "+drop, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { dryThenReal(t, start, ask, drop) })
				})
			}
		}
	}
}

func dryThenReal(t *testing.T, start, ask, drop string) {
	r := newFixture(t)
	for mode := range strings.FieldsSeq(start) {
		r.put("/api/v1/mode", `{"mode":"`+mode+`"}`)
	}
	r.Fill("a", 7, 15*time.Second) // two run, five wait, of whom some cannot make it
	body := `{"mode":"` + ask + `","reason":"x","drop_overdue":` + drop + `,"dry_run":`
	synctest.Wait() // for what goes before to be recorded
	before, recorded := r.Status(time.Now()), len(r.Record.ModeChanges())
	var planned, done api.ModeReply
	r.reply(r.put("/api/v1/mode", body+"true}"), &planned)
	if diff := cmp.Diff(before, r.Status(time.Now())); diff != "" {
		t.Errorf("a dry run changed something (-before +after):\n%s", diff)
	}
	if synctest.Wait(); len(r.Record.ModeChanges()) != recorded {
		t.Error("a dry run was recorded")
	}
	r.reply(r.put("/api/v1/mode", body+"false}"), &done)
	if !planned.DryRun || planned.Recorded || done.DryRun {
		t.Errorf("planned %+v, done %+v", planned, done)
	}
	ignore := cmpopts.IgnoreFields(control.ModeChange{}, "ID", "Writer")
	drain := cmpopts.IgnoreFields(control.PoolChange{}, "DrainS") // shorter after some were rejected
	if diff := cmp.Diff(planned.Changes, done.Changes, ignore, drain); diff != "" {
		t.Errorf("planned, but not done (-planned +done):\n%s", diff)
	}
	if drop == "true" && done.Changes[0].Dropped == 0 {
		t.Error("no task was overdue: the test shows nothing")
	}
}

func TestReplyCountsOverdue(t *testing.T) {
	r := newFixture(t)
	r.put("/api/v1/mode", `{"mode":"passthrough"}`)
	r.Fill("a", 7, 15*time.Second)
	var reply api.ModeReply
	r.reply(r.put("/api/v1/pools/a/mode", `{"mode":"restore"}`), &reply)
	c := reply.Changes[0]
	if c.Running != 2 || c.Queued != 5 || c.Dropped != 0 || c.Overdue == 0 || c.DrainS <= 0 {
		t.Errorf("change %+v, want two running, five queued, some overdue and a time", c)
	}
	var dropped api.ModeReply
	r.reply(r.put("/api/v1/pools/a/mode", `{"mode":"restore","drop_overdue":true}`), &dropped)
	if d := dropped.Changes[0]; d.Dropped != c.Overdue || d.Overdue != 0 {
		t.Errorf("dropped %d of %d, %d are left", d.Dropped, c.Overdue, d.Overdue)
	}
}

func TestExpected(t *testing.T) {
	r := newFixture(t)
	r.request(testRequest{method: "PUT", path: "/api/v1/pools/b/mode", body: `{"mode":"passthrough","reason":"mine"}`,
		header: http.Header{api.ActorHeader: {"bob"}}})
	for _, body := range []string{
		`{"mode":"observe","expected":"enforce"}`, `{"mode":"observe","expected":"enforce","dry_run":true}`,
	} {
		p := r.problem(r.put("/api/v1/mode", body), http.StatusConflict)
		if r.Mode("a") != admission.Enforce || r.Mode("b") != admission.PassThrough {
			t.Fatal("a refused order changed a mode")
		}
		if p.Type != api.TypeModeConflict || len(p.Current) != 1 {
			t.Fatalf("problem %+v", p)
		}
		c := p.Current[0]
		if c.Pool != "b" || c.Mode != admission.PassThrough || c.RestoreMode != admission.Enforce || c.Actor != "bob" || c.Reason != "mine" || c.Since.IsZero() {
			t.Errorf("current %+v", c)
		}
		if !strings.Contains(p.Detail, "bob") || !strings.Contains(p.Detail, "passthrough") {
			t.Errorf("detail %q does not say who won", p.Detail)
		}
	}
}

// TestExpectedRace lets many ask for the same change; the record has one winner
// and every loser learns its name.
func TestExpectedRace(t *testing.T) {
	r := newServedFixture(t)
	const n = 16
	won := make(chan string, n)
	lost := make(chan *api.Problem, n)
	var all sync.WaitGroup
	for i := range n {
		name := string(rune('a'+i)) + "@host"
		all.Go(func() {
			c := r.client(name)
			defer c.Close()
			_, err := c.SetMode(t.Context(), "a", api.ModeRequest{Mode: "passthrough", Expected: "enforce"})
			if p, ok := err.(*api.Problem); ok {
				lost <- p
			} else if err == nil {
				won <- name
			} else {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if len(won) != 1 || len(lost) != n-1 {
		t.Fatalf("%d won, %d lost", len(won), len(lost))
	}
	winner := <-won
	for range n - 1 {
		if p := <-lost; p.Status != http.StatusConflict || len(p.Current) != 1 || p.Current[0].Actor != winner {
			t.Errorf("the loser got %+v, the winner is %s", p, winner)
		}
	}
}

func TestUnknownPool(t *testing.T) {
	r := newFixture(t)
	for _, path := range []string{"/api/v1/pools/c/mode", "/api/v1/pools/%22%0aevil/mode", "/api/v1/pools/" + strings.Repeat("x", 4000) + "/mode"} {
		for _, dry := range []string{"true", "false"} {
			p := r.problem(r.put(path, `{"mode":"observe","dry_run":`+dry+`}`), http.StatusNotFound)
			if p.Type != api.TypeUnknownPool || !slices.Equal(p.Pools, []string{"a", "b"}) || len(p.Detail) > 300 {
				t.Errorf("problem %+v", p)
			}
		}
	}
	if len(r.Record.ModeChanges()) != 0 && r.Mode("a") != admission.Enforce {
		t.Error("something was changed")
	}
}

// TestUnrecorded: a record that does not stand is answers, each time, and does not
// stop the change.
func TestUnrecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t)
		synctest.Wait()
		r.Record.SetError(errDisk)
		var reply api.ModeReply
		r.reply(r.put("/api/v1/mode", `{"mode":"passthrough"}`), &reply)
		if reply.Recorded || reply.Changes[0].ID == "" || r.Mode("a") != admission.PassThrough {
			t.Errorf("reply %+v, mode %s", reply, r.Mode("a"))
		}
		r.reply(r.put("/api/v1/mode", `{"mode":"passthrough"}`), &reply)
		if reply.Recorded || reply.Changes[0].ID != "" {
			t.Errorf("asked again: reply %+v", reply)
		}
	})
}
