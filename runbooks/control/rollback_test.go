package control_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"headgate/engine"
	"headgate/proxy/admission"
	"headgate/runbooks/control"
)

// withRollbackFixture runs a test in a bubble, with a process over a new disk.
func withRollbackFixture(t *testing.T, c control.AutoRollbackSettings, mode admission.Mode, f func(t *testing.T, h *rollbackFixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := startRollbackFixture(t, newKillableStore(), &fakeEngine{}, c, mode)
		defer func() { h.stop() }()
		f(t, h)
	})
}

// TestAutoRollback: a page of a rule with the action rollback rolls the pool back within a
// second; it is recorded, audited with its inputs, and announced with the command that restores.
func TestAutoRollback(t *testing.T) {
	withRollbackFixture(t, testSettings, admission.Enforce, func(t *testing.T, h *rollbackFixture) {
		h.engine.openPage("i-1", 3)
		advance(2 * time.Second)
		if h.mode() != admission.PassThrough {
			t.Fatalf("the gate is in %s", h.mode())
		}
		h.wantPhase(t, control.RolledBack, 1)
		if why := h.rollback.Status("a").Reason; why != "rule false_refusal" {
			t.Errorf("why %q", why)
		}
		h.store.wantActions(t, "a first enforce>enforce", "a rollback enforce>passthrough")
		announced := h.store.announcements(engine.EventMode)
		if len(announced) != 1 || announced[0].By != "engine" || !strings.Contains(announced[0].Text, "false_refusal") || !strings.Contains(announced[0].Text, "headgate restore --pool a") {
			t.Errorf("announced %+v", announced)
		}
		if n := h.store.countResults(control.Done, "false_refusal"); n != 1 {
			t.Fatalf("%d entries of the rollback", n)
		}
		for _, e := range h.store.auditEntries() {
			for _, name := range []string{"rule", "value", "threshold", "auto_rollbacks_today", "mode", "permits_free", "queued"} {
				if e.Inputs[name] == "" {
					t.Errorf("the input %s is missing: %v", name, e.Inputs)
				}
			}
			for _, name := range []string{"value", "threshold"} {
				if _, err := strconv.ParseFloat(e.Inputs[name], 64); err != nil {
					t.Errorf("the input %s is not a number: %v", name, err)
				}
			}
		}
		advance(5 * time.Minute)
		if len(h.store.announcements(engine.EventMode)) != 1 || len(h.store.auditEntries()) != 1 {
			t.Errorf("announced or audited again: %v", h.store.auditEntries())
		}
	})
}

// TestWithheld: a withheld rollback leaves the mode alone and is audited once, with the reason.
func TestWithheld(t *testing.T) {
	off, never := testSettings, testSettings
	off.Auto, never.MaxPerDay = false, 0
	for name, tt := range map[string]struct {
		c     control.AutoRollbackSettings
		mode  admission.Mode
		act   func(t *testing.T, h *rollbackFixture)
		words string // of the entry; empty: there is none
	}{
		"switched off":            {off, admission.Enforce, nil, "rollback.auto"},
		"observe refuses nothing": {testSettings, admission.Observe, nil, "observe"},
		"none a day":              {never, admission.Enforce, nil, "0 of 0"},
		"a person restored": {testSettings, admission.Enforce, func(t *testing.T, h *rollbackFixture) {
			h.requestMode(t, rollback.Action)
			h.requestMode(t, control.Restore)
		}, "ana decided (restore to enforce)"},
		"a warning only": {testSettings, admission.Enforce, func(_ *testing.T, h *rollbackFixture) {
			h.engine.set(func(s *fakeEngine) { s.level = engine.LevelWarn })
		}, ""},
		"no value": {testSettings, admission.Enforce, func(_ *testing.T, h *rollbackFixture) {
			h.engine.set(func(s *fakeEngine) { s.value.Quality = engine.Missing })
		}, "no fresh value"},
		"idle": {testSettings, admission.Enforce, func(_ *testing.T, h *rollbackFixture) {
			h.engine.set(func(s *fakeEngine) { s.value.Quality = engine.Idle })
		}, "no fresh value"},
		"below the limit again": {testSettings, admission.Enforce, func(_ *testing.T, h *rollbackFixture) { h.engine.set(func(s *fakeEngine) { s.value.V = 0.5 }) }, "below the limit"},
	} {
		t.Run(name, func(t *testing.T) {
			withRollbackFixture(t, tt.c, tt.mode, func(t *testing.T, h *rollbackFixture) {
				if tt.act != nil && strings.HasPrefix(name, "a person") {
					tt.act(t, h)
				}
				synctest.Wait() // no evaluation reads half of the page
				h.engine.openPage("i-1", 3)
				if tt.act != nil && !strings.HasPrefix(name, "a person") {
					tt.act(t, h)
				}
				advance(time.Minute)
				if h.mode() != tt.mode {
					t.Fatalf("the gate is in %s", h.mode())
				}
				want := 1
				if tt.words == "" {
					want = 0
				}
				if len(h.store.auditEntries()) != want || h.store.countResults(control.Withheld, tt.words) != want {
					t.Errorf("entries %+v", h.store.auditEntries())
				}
			})
		})
	}
}

// TestManualHold: a person's decision holds for the configured time and no longer; an
// incident that is still open then triggers a rollback.
func TestManualHold(t *testing.T) {
	withRollbackFixture(t, testSettings, admission.Enforce, func(t *testing.T, h *rollbackFixture) {
		h.requestMode(t, rollback.Action)
		h.requestMode(t, control.Restore)
		h.engine.openPage("i-1", 3)
		advance(testSettings.ManualHold - 2*time.Second)
		if h.mode() != admission.Enforce {
			t.Fatal("the manual hold ended early")
		}
		advance(4 * time.Second)
		if h.mode() != admission.PassThrough {
			t.Error("the manual hold did not end")
		}
	})
}

// TestCooldownAndMaximum: a cooldown follows a restore; after three rollbacks in a day
// there is no fourth, which is announced once with its reason.
func TestCooldownAndMaximum(t *testing.T) {
	c := testSettings
	c.ManualHold = 0
	withRollbackFixture(t, c, admission.Enforce, func(t *testing.T, h *rollbackFixture) {
		for n := 1; n <= 3; n++ {
			h.engine.openPage(fmt.Sprint("i-", n), 3)
			advance(2 * time.Second)
			h.wantPhase(t, control.RolledBack, n)
			h.requestMode(t, control.Restore)
			advance(time.Minute)
			h.wantPhase(t, control.Cooldown, n)
			if why := h.rollback.Status("a").Reason; !strings.Contains(why, "cooldown until") {
				t.Errorf("why %q", why)
			}
			if h.mode() != admission.Enforce || h.store.countResults(control.Withheld, "cooldown") != n {
				t.Fatalf("in the cooldown the gate is in %s: %v", h.mode(), h.store.auditEntries())
			}
			h.engine.closeIncident()
			advance(2 * time.Minute)
			h.wantPhase(t, control.Armed, n)
		}
		h.engine.openPage("i-4", 3)
		advance(2 * time.Minute)
		if why := h.rollback.Status("a").Reason; !strings.Contains(why, "used up") {
			t.Errorf("why %q", why)
		}
		announced := h.store.announcements(engine.EventNote)
		if h.mode() != admission.Enforce || len(announced) != 1 || announced[0].Incident != "i-4" || !strings.Contains(announced[0].Text, "3 of 3") {
			t.Errorf("in %s, announced %+v", h.mode(), announced)
		}
		h.stop()
		again := startRollbackFixture(t, h.store, h.engine, c, admission.Enforce)
		advance(2 * time.Minute)
		if again.mode() != admission.Enforce || len(h.store.announcements(engine.EventNote)) != 1 || h.store.countResults(control.Withheld, "3 of 3") != 1 {
			t.Errorf("after a restart: in %s, announced %+v", again.mode(), h.store.announcements(engine.EventNote))
		}
		again.stop()
		advance(24 * time.Hour) // no process ticks meanwhile, which would take long
		again = startRollbackFixture(t, h.store, h.engine, c, admission.Enforce)
		h.stop = again.stop
		advance(2 * time.Second)
		if again.mode() != admission.PassThrough {
			t.Error("rollbacks of the day before still count")
		}
	})
}

// TestRollbackStateAfterRestart: manual hold, cooldown and the count of rollbacks survive a restart.
func TestRollbackStateAfterRestart(t *testing.T) {
	withRollbackFixture(t, testSettings, admission.Enforce, func(t *testing.T, h *rollbackFixture) {
		h.engine.openPage("i-1", 3)
		advance(2 * time.Second)
		h.requestMode(t, control.Restore)
		advance(2 * time.Second)
		h.stop()
		advance(6 * time.Minute)
		again := startRollbackFixture(t, h.store, h.engine, testSettings, admission.Enforce)
		h.stop = again.stop
		advance(17 * time.Minute)
		g, flips := again.rollback.State("a")
		if again.mode() != admission.Enforce || flips != 1 || g.HoldActor != "ana" {
			t.Fatalf("in %s, state %+v", again.mode(), g)
		}
		advance(90 * time.Second)
		if again.mode() != admission.PassThrough {
			t.Error("the manual hold did not end")
		}
	})
}

// TestFullDisk: the pool is rolled back at once, and the rollback is announced only once it
// is recorded. Meanwhile OnUnrecorded is called once.
func TestFullDisk(t *testing.T) {
	withRollbackFixture(t, testSettings, admission.Enforce, func(t *testing.T, h *rollbackFixture) {
		h.store.setFull(true)
		h.engine.openPage("i-1", 3)
		advance(3 * time.Second)
		if h.mode() != admission.PassThrough || len(h.store.announcements(engine.EventMode)) != 0 || len(h.store.auditEntries()) != 0 {
			t.Fatalf("in %s, announced %v, audited %v", h.mode(), h.store.announcements(engine.EventMode), h.store.auditEntries())
		}
		advance(time.Minute)
		if w := h.store.warnings(); len(w) != 1 || w[0].To != admission.PassThrough || w[0].Pool != "a" {
			t.Errorf("warned of %+v", w)
		}
		h.store.setFull(false)
		advance(15 * time.Second)
		if len(h.store.announcements(engine.EventMode)) != 1 || len(h.store.auditEntries()) != 1 || h.store.rollbackState("a").Phase != control.RolledBack {
			t.Errorf("announced %v, audited %v, guard %v", h.store.announcements(engine.EventMode), h.store.auditEntries(), h.store.rollbackState("a"))
		}
	})
}

// TestFullDiskRecovers: there is no warning about a rollback that is recorded or restored in time.
func TestFullDiskRecovers(t *testing.T) {
	for name, then := range map[string]func(*testing.T, *rollbackFixture){
		"recorded": func(_ *testing.T, h *rollbackFixture) { h.store.setFull(false) },
		"undone":   func(t *testing.T, h *rollbackFixture) { h.requestMode(t, control.Restore) },
	} {
		t.Run(name, func(t *testing.T) {
			withRollbackFixture(t, testSettings, admission.Enforce, func(t *testing.T, h *rollbackFixture) {
				h.store.setFull(true)
				h.engine.openPage("i-1", 3)
				advance(3 * time.Second)
				then(t, h)
				advance(time.Minute)
				if w := h.store.warnings(); len(w) != 0 {
					t.Errorf("warned of %+v", w)
				}
			})
		})
	}
}

// TestDailyLimitIsAnnounced: that the daily limit is reached is announced once that is possible.
func TestDailyLimitIsAnnounced(t *testing.T) {
	c := testSettings
	c.MaxPerDay = 0
	withRollbackFixture(t, c, admission.Enforce, func(t *testing.T, h *rollbackFixture) {
		h.store.setFull(true)
		h.engine.openPage("i-1", 3)
		advance(time.Minute)
		h.store.setFull(false)
		advance(time.Minute)
		if announced := h.store.announcements(engine.EventNote); len(announced) != 1 || !strings.Contains(announced[0].Text, "0 of 0") {
			t.Errorf("announced %+v", announced)
		}
	})
}

// TestManualRollbackIsNotCounted: after a person's rollback there is no automatic one.
func TestManualRollbackIsNotCounted(t *testing.T) {
	withRollbackFixture(t, testSettings, admission.Enforce, func(t *testing.T, h *rollbackFixture) {
		h.requestMode(t, rollback.Action)
		h.engine.openPage("i-1", 3)
		advance(time.Minute)
		h.wantPhase(t, control.Armed, 0)
		if h.store.countResults(control.Withheld, "already in passthrough, by ana") != 1 {
			t.Errorf("entries %v", h.store.auditEntries())
		}
	})
}

// TestReminders: one reminder for each hour in passthrough, whatever rolled the pool back,
// also across restarts, until it is restored.
func TestReminders(t *testing.T) {
	withRollbackFixture(t, testSettings, admission.Observe, func(t *testing.T, h *rollbackFixture) {
		h.requestMode(t, rollback.Action)
		advance(59 * time.Minute)
		if len(h.store.reminders()) != 0 {
			t.Fatal("too early")
		}
		advance(90 * time.Minute)
		if len(h.store.reminders()) != 2 {
			t.Fatalf("reminded %v", h.store.reminders())
		}
		for _, r := range h.store.reminders() {
			if r.Actor != "ana" || r.Reason != "I know better" || r.RestoreMode != admission.Observe || r.Gate.Workers != 1 {
				t.Errorf("reminder %+v", r)
			}
		}
		h.stop()
		advance(2 * time.Hour)
		again := startRollbackFixture(t, h.store, h.engine, testSettings, admission.Enforce)
		h.stop = again.stop
		advance(time.Minute)
		if len(h.store.reminders()) != 3 { // only the latest of those that were missed
			t.Fatalf("after a restart %v", h.store.reminders())
		}
		again.requestMode(t, control.Restore)
		advance(61 * time.Minute)
		if len(h.store.reminders()) != 3 {
			t.Errorf("after the restore %v", h.store.reminders())
		}
	})
}

// TestClockStep: requests whose time of day is an hour off, as after a step of the
// clock, neither shorten nor lengthen the times that are counted from them.
func TestClockStep(t *testing.T) {
	for _, step := range []time.Duration{time.Hour, -time.Hour} {
		withRollbackFixture(t, testSettings, admission.Enforce, func(t *testing.T, h *rollbackFixture) {
			o := control.ModeRequest{Action: control.Rollback, Pool: "a", Actor: "ana", Via: control.ViaAPI}
			if _, err := h.Do(t.Context(), time.Now().Add(step), o); err != nil {
				t.Fatal(err)
			}
			h.engine.openPage("i-1", 3)
			advance(59 * time.Minute)
			if len(h.store.reminders()) != 0 {
				t.Errorf("%s: reminded too early", step)
			}
			advance(2 * time.Minute)
			if len(h.store.reminders()) != 1 {
				t.Errorf("%s: reminded %d times", step, len(h.store.reminders()))
			}
			o.Action = control.Restore
			if _, err := h.Do(t.Context(), time.Now().Add(step), o); err != nil {
				t.Fatal(err)
			}
			advance(testSettings.ManualHold - 2*time.Second)
			if h.mode() != admission.Enforce {
				t.Errorf("%s: the manual hold ended early", step)
			}
			advance(4 * time.Second)
			if h.mode() != admission.PassThrough {
				t.Errorf("%s: the manual hold did not end", step)
			}
		})
	}
}

// TestKillAtEveryWrite: at whichever write the process is killed, before or after its
// effect, the next process finds a pool that is rolled back and recorded, or one that is
// not: never a rollback that was announced and is lost. It adds what is missing, once.
func TestKillAtEveryWrite(t *testing.T) {
	for _, still := range []bool{true, false} {
		for _, after := range []bool{true, false} {
			for n := range 12 {
				t.Run(fmt.Sprintf("use %d, effect %v, trouble goes on %v", n, after, still), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { testKill(t, n, after, still) })
				})
			}
		}
	}
}

func testKill(t *testing.T, n int, after, still bool) {
	d, s := newKillableStore(), &fakeEngine{}
	h := startRollbackFixture(t, d, s, testSettings, admission.Enforce)
	advance(time.Second)
	d.killAfter(n, after)
	s.openPage("i-1", 3)
	advance(10 * time.Second)
	d.dead = true
	h.stop()
	done := d.standings["a"].Mode == admission.PassThrough
	if announced := d.announcements(engine.EventMode); !done && (len(announced) > 0 || d.countResults(control.Done, "") > 0) {
		t.Fatalf("announced and lost: %v", d.log)
	}
	d.dead, d.usesLeft = false, -1
	if !still {
		s.value.V = 0
	}
	again := startRollbackFixture(t, d, s, testSettings, admission.Enforce)
	if (again.mode() == admission.PassThrough) != done {
		t.Fatalf("the record says %v, the gate is in %s: %v", done, again.mode(), d.log)
	}
	advance(10 * time.Second)
	again.stop()
	done = d.standings["a"].Mode == admission.PassThrough
	want := 0
	if done {
		want = 1
	}
	if still && !done {
		t.Errorf("the trouble goes on, and nothing was done: %v", d.log)
	}
	if len(d.announcements(engine.EventMode)) != want || d.countResults(control.Done, "") != want {
		t.Errorf("done %v: announced %d times, audited %d times: %v", done, len(d.announcements(engine.EventMode)), d.countResults(control.Done, ""), d.log)
	}
	if g := d.guards["a"]; done && (g.Phase != control.RolledBack || len(g.Rollbacks) != 1) {
		t.Errorf("the state is %+v", g)
	}
}

// TestAutoRollbackSettings: invalid settings are rejected with the valid values.
func TestAutoRollbackSettings(t *testing.T) {
	bad := control.AutoRollbackSettings{MaxPerDay: -1, Cooldown: -1, ManualHold: -1}
	_, err := control.NewAutoRollback(control.AutoRollbackConfig{Settings: bad})
	for _, say := range []string{"must be 0 to 100", "the cooldown is -1ns", "the manual hold is -1ns"} {
		if err == nil || !strings.Contains(err.Error(), say) {
			t.Errorf("%v, want %q in it", err, say)
		}
	}
	if _, err := control.NewAutoRollback(control.AutoRollbackConfig{Settings: testSettings}); err == nil {
		t.Error("an AutoRollback without a journal")
	}
}

// TestReconfigured: new settings apply from the reload on.
func TestReconfigured(t *testing.T) {
	off := testSettings
	off.Auto = false
	withRollbackFixture(t, off, admission.Enforce, func(t *testing.T, h *rollbackFixture) {
		h.engine.openPage("i-1", 3)
		advance(time.Minute)
		if h.mode() != admission.Enforce {
			t.Fatalf("the gate is in %s", h.mode())
		}
		h.rollback.Configure(testSettings)
		advance(2 * time.Second)
		if h.mode() != admission.PassThrough {
			t.Errorf("the gate is in %s", h.mode())
		}
	})
}

// TestRuleWithoutPoolRollsBackAll: a rule without a pool concerns every pool.
func TestRuleWithoutPoolRollsBackAll(t *testing.T) {
	withRollbackFixture(t, testSettings, admission.Enforce, func(t *testing.T, h *rollbackFixture) {
		h.engine.set(func(s *fakeEngine) { s.pool = "" })
		h.engine.openPage("i-1", 3)
		advance(2 * time.Second)
		if h.mode() != admission.PassThrough {
			t.Errorf("the gate is in %s", h.mode())
		}
	})
}

// TestRestoreDuringRollback: a person restores the pool at the moment of its rollback. Their
// decision holds, and the state is a cooldown.
func TestRestoreDuringRollback(t *testing.T) {
	c := testSettings
	c.MaxPerDay = 100
	for n := range 50 {
		synctest.Test(t, func(t *testing.T) {
			h := startRollbackFixture(t, newKillableStore(), &fakeEngine{}, c, admission.Enforce)
			defer func() { h.stop() }()
			restored := make(chan error, 1)
			h.setHook(func(c control.ModeChange) {
				if c.Via != control.ViaEngine {
					return
				}
				go func() { // who applies holds a lock
					_, err := h.Do(t.Context(), time.Now(), control.ModeRequest{Action: control.Restore, Pool: "a", Actor: "ana", Via: control.ViaAPI})
					restored <- err
				}()
			})
			h.engine.openPage(fmt.Sprint("i-", n), 3)
			if err := <-restored; err != nil {
				t.Fatal(err)
			}
			advance(5 * time.Second)
			if g, flips := h.rollback.State("a"); h.mode() != admission.Enforce || g.Phase != control.Cooldown || flips != 1 || g.HoldActor != "ana" {
				t.Fatalf("attempt %d: the gate is in %s, the state is %+v", n, h.mode(), g)
			}
			if n := h.store.countResults(control.Done, "false_refusal"); n != 1 {
				t.Errorf("%d entries of the rollback: %v", n, h.store.auditEntries())
			}
		})
	}
}
