package app

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"headgate/internal/config"
	"headgate/internal/fakeslack"
	"headgate/proxy/admission"
	"headgate/runbooks/control"
)

// failureRateRules pages at once when a task runs, and asks for a rollback.
const failureRateRules = `rules:
  - name: faulty
    signal: headgate_in_flight{pool="$pool"}
    unit: tasks
    page: {at: 1, for: 5s}
    clear: {below: 1, for: 5s}
    summary: the gate is at fault
    impact: too much is refused
    runbook: queue_age
    action: rollback
    i_understand: true
`

// withRulesFile puts rules into the settings.
func withRulesFile(t *testing.T, text string) func(*config.Config) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return func(c *config.Config) { c.Rules.File = file }
}

func (r *fixture) mode() admission.Mode { return r.app.Pools()[0].Gate.Snapshot(time.Now()).Mode }

// auditCount are those of the audit whose reason holds some words.
func (r *fixture) auditCount(ending control.AuditResult, words string) (n int) {
	r.Helper()
	a, err := r.app.record.store.Audit(r.Context(), control.AuditQuery{Limit: 1000})
	if err != nil {
		r.Fatal(err)
	}
	for _, e := range entriesOf(a) {
		if e.Result == ending && strings.Contains(e.Reason, words) {
			n++
		}
	}
	return n
}

// TestAutoRollback: a rule pages, the pool switches to pass-through, and the
// thread of the message reports it, with the command that restores the mode.
func TestAutoRollback(t *testing.T) {
	slack, url := newFakeSlack(t)
	rules := withRulesFile(t, failureRateRules)
	r := newFixture(t, func(c *config.Config) { useFakeSlack(url)(c); rules(c) }, TimeScale(10))
	began := time.Now()
	answer := r.sendChat()
	r.eventually("the gate is out", func() bool { return r.mode() == admission.PassThrough })
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("it took %s", took)
	}
	r.eventually("a reply in the thread", func() bool {
		return slackContains(slack, "set by engine") && slackContains(slack, "restore --pool default")
	})
	r.eventually("an entry in the audit", func() bool { return r.auditCount(control.Done, "faulty") == 1 })
	close(r.upstream.release)
	<-answer
	_, err := r.app.record.modes.Do(t.Context(), time.Now(), control.ModeRequest{Action: control.Restore, Actor: "ana", Via: control.ViaAPI})
	if g, flips := r.app.record.autoRollback.State("default"); err != nil || g.Phase != control.Cooldown || flips != 1 || g.HoldActor != "ana" {
		t.Errorf("after a restore %+v, %v", g, err)
	}
}

// TestAutoRollbackDisabled: with rollback.auto off the gate stays, and the audit
// says why.
func TestAutoRollbackDisabled(t *testing.T) {
	rules := withRulesFile(t, failureRateRules)
	r := newFixture(t, func(c *config.Config) { rules(c); c.Rollback.Auto = false }, TimeScale(10))
	answer := r.sendChat()
	r.eventually("it is withheld", func() bool { return r.auditCount(control.Withheld, "rollback.auto") == 1 })
	if r.mode() != admission.Enforce {
		t.Errorf("the gate is in %s", r.mode())
	}
	close(r.upstream.release)
	<-answer
}

// slackContains reports whether a thread of the channel holds some words.
func slackContains(s *fakeslack.Server, words string) bool {
	for _, root := range s.Roots("C0123456789") {
		for _, m := range s.Replies("C0123456789", root.TS) {
			if strings.Contains(m.Text, words) {
				return true
			}
		}
	}
	return false
}

// TestAutoRollbackMaximumReported: when no rollback is left for the day, the incident's
// thread gives the reason and the command for a manual rollback.
func TestAutoRollbackMaximumReported(t *testing.T) {
	slack, url := newFakeSlack(t)
	rules := withRulesFile(t, failureRateRules)
	r := newFixture(t, func(c *config.Config) { useFakeSlack(url)(c); rules(c); c.Rollback.MaxPerDay = 0 }, TimeScale(10))
	answer := r.sendChat()
	r.eventually("a reply in the thread", func() bool {
		return slackContains(slack, "0 of 0 automatic rollbacks") && slackContains(slack, "headgate rollback --pool default")
	})
	if r.mode() != admission.Enforce || r.auditCount(control.Withheld, "max_per_day") != 1 {
		t.Errorf("the gate is in %s", r.mode())
	}
	close(r.upstream.release)
	<-answer
}

// TestAutoRollbackDecisionsReported: the actor and the reason of a mode change are reported in
// the thread of an incident of that pool.
func TestAutoRollbackDecisionsReported(t *testing.T) {
	slack, url := newFakeSlack(t)
	rules := withRulesFile(t, failureRateRules)
	r := newFixture(t, func(c *config.Config) { useFakeSlack(url)(c); rules(c); c.Rollback.Auto = false }, TimeScale(10))
	answer := r.sendChat()
	r.eventually("the message is there", func() bool { return len(slack.Roots("C0123456789")) == 1 })
	o := control.ModeRequest{Action: control.Rollback, Actor: "ana", Via: control.ViaAPI, Reason: "I see it too"}
	if _, err := r.app.record.modes.Do(t.Context(), time.Now(), o); err != nil {
		t.Fatal(err)
	}
	r.eventually("a reply in the thread", func() bool { return slackContains(slack, "set by ana: I see it too") })
	close(r.upstream.release)
	<-answer
}

// TestReminderOnce: a reminder of one hour is in the outbox once, however often
// it is enqueued.
func TestReminderOnce(t *testing.T) {
	slack, url := newFakeSlack(t)
	r := newFixture(t, useFakeSlack(url))
	reminder := control.Reminder{
		ModeState: control.ModeState{
			Pool: "default", ChangeID: "c-1", Since: time.Now().Add(-2 * time.Hour), Actor: "ana", Reason: "p95 climbs", RestoreMode: admission.Observe,
		},
		Hour: 2, At: time.Now(), Gate: admission.Snapshot{Workers: 4, InFlight: 3, Depth: 17, OldestAge: 40 * time.Second},
	}
	for range 3 {
		if err := r.app.enqueueReminder(context.Background(), reminder); err != nil {
			t.Fatal(err)
		}
	}
	reminder.Hour = 3
	if err := r.app.enqueueReminder(context.Background(), reminder); err != nil {
		t.Fatal(err)
	}
	r.eventually("both are there", func() bool { return len(slack.Roots("C0123456789")) == 2 })
	text := slack.Roots("C0123456789")[0].Text + slack.Roots("C0123456789")[1].Text
	for _, want := range []string{"passthrough for 2h0m0s", "by ana", "p95 climbs", "17 queued", "oldest for 40s", "3 of 4 in flight", "headgate restore --pool default", "observe"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in %s", want, text)
		}
	}
}

// TestAutoRollbackStatePersists: what the guard knows outlives a restart.
func TestAutoRollbackStatePersists(t *testing.T) {
	cfg := testConfig(t, "http://127.0.0.1:1")
	run := func(f func(a *App)) {
		a, err := New(cfg, "test", slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Start(); err != nil {
			t.Fatal(err)
		}
		f(a)
		if err := a.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	var before control.RollbackState
	run(func(a *App) {
		if _, err := a.record.modes.Do(t.Context(), time.Now(), control.ModeRequest{Action: control.Rollback, Actor: "ana", Via: control.ViaAPI}); err != nil {
			t.Fatal(err)
		}
		before, _ = a.record.autoRollback.State("default")
	})
	run(func(a *App) {
		after, _ := a.record.autoRollback.State("default")
		if after.HoldActor != "ana" || after.HoldUntil.Sub(before.HoldUntil).Abs() > time.Second {
			t.Errorf("latched until %s, was %s", after.HoldUntil, before.HoldUntil)
		}
	})
}
