package control_test

import (
	"fmt"
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

// TestAutoRollback: a page of a rule that asks for it takes the gate out within a second;
// it is recorded, audited with its inputs, and told with the way back.
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
		told := h.store.announcements(engine.EventMode)
		if len(told) != 1 || told[0].By != "engine" || !strings.Contains(told[0].Text, "false_refusal") || !strings.Contains(told[0].Text, "headgate restore --pool a") {
			t.Errorf("told %+v", told)
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
		}
		advance(time.Hour / 2)
		if len(h.store.announcements(engine.EventMode)) != 1 || len(h.store.auditEntries()) != 1 {
			t.Errorf("told or noted again: %v", h.store.auditEntries())
		}
	})
}

// TestWithheld: whatever speaks against a rollback, the gate stays, and that is
// noted once, with the reason.
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

// TestManualHold: somebody's decision stands for four hours, and not longer; the same
// trouble that is still there then is acted upon.
func TestManualHold(t *testing.T) {
	withRollbackFixture(t, testSettings, admission.Enforce, func(t *testing.T, h *rollbackFixture) {
		h.requestMode(t, rollback.Action)
		h.requestMode(t, control.Restore)
		h.engine.openPage("i-1", 3)
		advance(4*time.Hour - 2*time.Second)
		if h.mode() != admission.Enforce {
			t.Fatal("the decision did not stand")
		}
		advance(4 * time.Second)
		if h.mode() != admission.PassThrough {
			t.Error("the decision stands for ever")
		}
	})
}

// TestCooldownAndMaximum: after a restore there is a pause; after the third time in
// a day there is no fourth, and on-call is told why, once.
func TestCooldownAndMaximum(t *testing.T) {
	c := testSettings
	c.ManualHold = 0
	withRollbackFixture(t, c, admission.Enforce, func(t *testing.T, h *rollbackFixture) {
		for n := 1; n <= 3; n++ {
			h.engine.openPage(fmt.Sprint("i-", n), 3)
			advance(2 * time.Second)
			h.wantPhase(t, control.RolledBack, n)
			h.requestMode(t, control.Restore)
			advance(10 * time.Minute)
			h.wantPhase(t, control.Cooldown, n)
			if why := h.rollback.Status("a").Reason; !strings.Contains(why, "cooldown until") {
				t.Errorf("why %q", why)
			}
			if h.mode() != admission.Enforce || h.store.countResults(control.Withheld, "cooldown") != n {
				t.Fatalf("in the cooldown the gate is in %s: %v", h.mode(), h.store.auditEntries())
			}
			h.engine.closeIncident()
			advance(20 * time.Minute)
			h.wantPhase(t, control.Armed, n)
		}
		h.engine.openPage("i-4", 3)
		advance(time.Hour)
		if why := h.rollback.Status("a").Reason; !strings.Contains(why, "used up") {
			t.Errorf("why %q", why)
		}
		told := h.store.announcements(engine.EventNote)
		if h.mode() != admission.Enforce || len(told) != 1 || told[0].Incident != "i-4" || !strings.Contains(told[0].Text, "3 of 3") {
			t.Errorf("in %s, told %+v", h.mode(), told)
		}
		h.stop()
		again := startRollbackFixture(t, h.store, h.engine, c, admission.Enforce)
		advance(time.Hour)
		if again.mode() != admission.Enforce || len(h.store.announcements(engine.EventNote)) != 1 || h.store.countResults(control.Withheld, "3 of 3") != 1 {
			t.Errorf("after a restart: in %s, told %+v", again.mode(), h.store.announcements(engine.EventNote))
		}
		advance(24 * time.Hour)
		if again.mode() != admission.PassThrough {
			t.Error("the next day counts as this one")
		}
		h.stop = again.stop
	})
}

// TestRollbackStateAfterRestart: latch, cooldown and the count of flips outlive a restart.
func TestRollbackStateAfterRestart(t *testing.T) {
	withRollbackFixture(t, testSettings, admission.Enforce, func(t *testing.T, h *rollbackFixture) {
		h.engine.openPage("i-1", 3)
		advance(2 * time.Second)
		h.requestMode(t, control.Restore)
		advance(2 * time.Second)
		h.stop()
		advance(time.Hour)
		again := startRollbackFixture(t, h.store, h.engine, testSettings, admission.Enforce)
		h.stop = again.stop
		advance(2*time.Hour + 50*time.Minute)
		g, flips := again.rollback.State("a")
		if again.mode() != admission.Enforce || flips != 1 || g.HoldActor != "ana" {
			t.Fatalf("in %s, guard %+v", again.mode(), g)
		}
		advance(15 * time.Minute)
		if again.mode() != admission.PassThrough {
			t.Error("the latch did not end")
		}
	})
}

// TestFullDisk: the gate is taken out at once; the thread has nothing of it before it
// is recorded, and everything once it is. Meanwhile people hear, once, that it is not.
// Who puts the gate back has no need to.
func TestFullDisk(t *testing.T) {
	withRollbackFixture(t, testSettings, admission.Enforce, func(t *testing.T, h *rollbackFixture) {
		h.store.setFull(true)
		h.engine.openPage("i-1", 3)
		advance(3 * time.Second)
		if h.mode() != admission.PassThrough || len(h.store.announcements(engine.EventMode)) != 0 || len(h.store.auditEntries()) != 0 {
			t.Fatalf("in %s, told %v, noted %v", h.mode(), h.store.announcements(engine.EventMode), h.store.auditEntries())
		}
		advance(time.Minute)
		if w := h.store.warnings(); len(w) != 1 || w[0].To != admission.PassThrough || w[0].Pool != "a" {
			t.Errorf("warned of %+v", w)
		}
		h.store.setFull(false)
		advance(15 * time.Second)
		if len(h.store.announcements(engine.EventMode)) != 1 || len(h.store.auditEntries()) != 1 || h.store.rollbackState("a").Phase != control.RolledBack {
			t.Errorf("told %v, noted %v, guard %v", h.store.announcements(engine.EventMode), h.store.auditEntries(), h.store.rollbackState("a"))
		}
	})
}

// TestFullDiskRecovers: what is recorded in time nobody is warned of, nor what
// somebody has undone.
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

// TestDailyLimitIsAnnounced: that no rollback is left is told once it can be.
func TestDailyLimitIsAnnounced(t *testing.T) {
	c := testSettings
	c.MaxPerDay = 0
	withRollbackFixture(t, c, admission.Enforce, func(t *testing.T, h *rollbackFixture) {
		h.store.setFull(true)
		h.engine.openPage("i-1", 3)
		advance(time.Minute)
		h.store.setFull(false)
		advance(time.Minute)
		if told := h.store.announcements(engine.EventNote); len(told) != 1 || !strings.Contains(told[0].Text, "0 of 0") {
			t.Errorf("told %+v", told)
		}
	})
}

// TestManualRollbackIsNotCounted: a person's rollback wins over the engine's, and latches.
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

// TestReminders: each hour of pass-through people hear of it, whoever rolled back,
// once, across restarts, until somebody puts the gate back.
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
		advance(5 * time.Hour)
		if len(h.store.reminders()) != 3 {
			t.Errorf("after the restore %v", h.store.reminders())
		}
	})
}

// TestClockStep: orders whose time of day is an hour off, as after a step of the
// clock, neither shorten nor lengthen what is counted from them.
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
			advance(4*time.Hour - 2*time.Second)
			if h.mode() != admission.Enforce {
				t.Errorf("%s: the decision did not stand", step)
			}
			advance(4 * time.Second)
			if h.mode() != admission.PassThrough {
				t.Errorf("%s: the decision stands too long", step)
			}
		})
	}
}

// TestKillAtEveryWrite: at whatever use of the disk the process is killed, before or
// after its effect, the next one finds a pool that is rolled back and recorded, or
// one that is not: never one that was told of and is not. And it makes up for what
// is missing, once.
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
	if told := d.announcements(engine.EventMode); !done && (len(told) > 0 || d.countResults(control.Done, "") > 0) {
		t.Fatalf("told and not done: %v", d.log)
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
		t.Errorf("done %v: told %d times, noted %d times: %v", done, len(d.announcements(engine.EventMode)), d.countResults(control.Done, ""), d.log)
	}
	if g := d.guards["a"]; done && (g.Phase != control.RolledBack || len(g.Rollbacks) != 1) {
		t.Errorf("the guard is %+v", g)
	}
}

// TestAutoRollbackSettings: what cannot be is refused, with what would be right.
func TestAutoRollbackSettings(t *testing.T) {
	bad := control.AutoRollbackSettings{MaxPerDay: -1, Cooldown: -1, ManualHold: -1}
	_, err := control.NewAutoRollback(control.AutoRollbackConfig{Settings: bad})
	for _, say := range []string{"must be 0 to 100", "the cooldown is -1ns", "the manual hold is -1ns"} {
		if err == nil || !strings.Contains(err.Error(), say) {
			t.Errorf("%v, want %q in it", err, say)
		}
	}
	if _, err := control.NewAutoRollback(control.AutoRollbackConfig{Settings: testSettings}); err == nil {
		t.Error("a Keeper of nothing")
	}
}

// TestReconfigured: what settings say counts from the reload on.
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

// TestRuleWithoutPoolRollsBackAll: a rule of no pool in particular is every pool's.
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

// TestRestoreDuringRollback: somebody puts the gate back at the very moment at which it is
// taken out. Their decision stands, and the guard does not believe that it is out.
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
				t.Fatalf("attempt %d: the gate is in %s, the guard is %+v", n, h.mode(), g)
			}
			if n := h.store.countResults(control.Done, "false_refusal"); n != 1 {
				t.Errorf("%d entries of the rollback: %v", n, h.store.auditEntries())
			}
		})
	}
}
