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

// inHouse runs a test in a bubble, with a process over a new disk.
func inHouse(t *testing.T, c control.GuardConfig, mode admission.Mode, f func(t *testing.T, h *house)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := open(t, newDisk(), &scene{}, c, mode)
		defer func() { h.stop() }()
		f(t, h)
	})
}

// TestFlip: a page of a rule that asks for it takes the gate out within a second;
// it is recorded, audited with its inputs, and told with the way back.
func TestFlip(t *testing.T) {
	inHouse(t, usual, admission.Enforce, func(t *testing.T, h *house) {
		h.scene.pages("i-1", 3)
		wait(2 * time.Second)
		if h.mode() != admission.PassThrough {
			t.Fatalf("the gate is in %s", h.mode())
		}
		h.wantGuard(t, control.Flipped, 1)
		if why := h.keeper.Why("a"); why != "rule false_refusal" {
			t.Errorf("why %q", why)
		}
		h.disk.wantActions(t, "a first enforce>enforce", "a rollback enforce>passthrough")
		told := h.disk.told(engine.EventMode)
		if len(told) != 1 || told[0].By != "engine" || !strings.Contains(told[0].Words, "false_refusal") || !strings.Contains(told[0].Words, "headgate restore --pool a") {
			t.Errorf("told %+v", told)
		}
		if n := h.disk.endings(control.Done, "false_refusal"); n != 1 {
			t.Fatalf("%d entries of the rollback", n)
		}
		for _, e := range h.disk.notes() {
			for _, name := range []string{"rule", "value", "threshold", "flips_today", "mode", "permits_free", "queued"} {
				if e.Inputs[name] == "" {
					t.Errorf("the input %s is missing: %v", name, e.Inputs)
				}
			}
		}
		wait(time.Hour / 2)
		if len(h.disk.told(engine.EventMode)) != 1 || len(h.disk.notes()) != 1 {
			t.Errorf("told or noted again: %v", h.disk.notes())
		}
	})
}

// TestWithheld: whatever speaks against a rollback, the gate stays, and that is
// noted once, with the reason.
func TestWithheld(t *testing.T) {
	off, never := usual, usual
	off.Auto, never.MaxPerDay = false, 0
	for name, tt := range map[string]struct {
		c     control.GuardConfig
		mode  admission.Mode
		act   func(t *testing.T, h *house)
		words string // of the entry; empty: there is none
	}{
		"switched off":            {off, admission.Enforce, nil, "rollback.auto"},
		"observe refuses nothing": {usual, admission.Observe, nil, "observe"},
		"none a day":              {never, admission.Enforce, nil, "0 of 0"},
		"a person restored":       {usual, admission.Enforce, func(t *testing.T, h *house) { h.orders(t, rollback.Action); h.orders(t, control.Restore) }, "ana decided (restore to enforce)"},
		"a warning only":          {usual, admission.Enforce, func(_ *testing.T, h *house) { h.scene.set(func(s *scene) { s.level = engine.LevelWarn }) }, ""},
		"no value":                {usual, admission.Enforce, func(_ *testing.T, h *house) { h.scene.set(func(s *scene) { s.value.Knowing = engine.Missing }) }, "no fresh value"},
		"idle":                    {usual, admission.Enforce, func(_ *testing.T, h *house) { h.scene.set(func(s *scene) { s.value.Knowing = engine.Idle }) }, "no fresh value"},
		"below the limit again":   {usual, admission.Enforce, func(_ *testing.T, h *house) { h.scene.set(func(s *scene) { s.value.V = 0.5 }) }, "below the limit"},
	} {
		t.Run(name, func(t *testing.T) {
			inHouse(t, tt.c, tt.mode, func(t *testing.T, h *house) {
				if tt.act != nil && strings.HasPrefix(name, "a person") {
					tt.act(t, h)
				}
				h.scene.pages("i-1", 3)
				if tt.act != nil && !strings.HasPrefix(name, "a person") {
					tt.act(t, h)
				}
				wait(time.Minute)
				if h.mode() != tt.mode {
					t.Fatalf("the gate is in %s", h.mode())
				}
				want := 1
				if tt.words == "" {
					want = 0
				}
				if len(h.disk.notes()) != want || h.disk.endings(control.Withheld, tt.words) != want {
					t.Errorf("entries %+v", h.disk.notes())
				}
			})
		})
	}
}

// TestLatch: somebody's decision stands for four hours, and not longer; the same
// trouble that is still there then is acted upon.
func TestLatch(t *testing.T) {
	inHouse(t, usual, admission.Enforce, func(t *testing.T, h *house) {
		h.orders(t, rollback.Action)
		h.orders(t, control.Restore)
		h.scene.pages("i-1", 3)
		wait(4*time.Hour - 2*time.Second)
		if h.mode() != admission.Enforce {
			t.Fatal("the decision did not stand")
		}
		wait(4 * time.Second)
		if h.mode() != admission.PassThrough {
			t.Error("the decision stands for ever")
		}
	})
}

// TestCooldownAndMaximum: after a restore there is a pause; after the third time in
// a day there is no fourth, and on-call is told why, once.
func TestCooldownAndMaximum(t *testing.T) {
	c := usual
	c.HumanLatch = 0
	inHouse(t, c, admission.Enforce, func(t *testing.T, h *house) {
		for n := 1; n <= 3; n++ {
			h.scene.pages(fmt.Sprint("i-", n), 3)
			wait(2 * time.Second)
			h.wantGuard(t, control.Flipped, n)
			h.orders(t, control.Restore)
			wait(10 * time.Minute)
			h.wantGuard(t, control.Cooldown, n)
			if why := h.keeper.Why("a"); !strings.Contains(why, "cooldown until") {
				t.Errorf("why %q", why)
			}
			if h.mode() != admission.Enforce || h.disk.endings(control.Withheld, "cooldown") != n {
				t.Fatalf("in the cooldown the gate is in %s: %v", h.mode(), h.disk.notes())
			}
			h.scene.calms()
			wait(20 * time.Minute)
			h.wantGuard(t, control.Armed, n)
		}
		h.scene.pages("i-4", 3)
		wait(time.Hour)
		if why := h.keeper.Why("a"); !strings.Contains(why, "used up") {
			t.Errorf("why %q", why)
		}
		told := h.disk.told(engine.EventNoted)
		if h.mode() != admission.Enforce || len(told) != 1 || told[0].Incident != "i-4" || !strings.Contains(told[0].Words, "3 of 3") {
			t.Errorf("in %s, told %+v", h.mode(), told)
		}
		h.stop()
		again := open(t, h.disk, h.scene, c, admission.Enforce)
		wait(time.Hour)
		if again.mode() != admission.Enforce || len(h.disk.told(engine.EventNoted)) != 1 || h.disk.endings(control.Withheld, "3 of 3") != 1 {
			t.Errorf("after a restart: in %s, told %+v", again.mode(), h.disk.told(engine.EventNoted))
		}
		wait(24 * time.Hour)
		if again.mode() != admission.PassThrough {
			t.Error("the next day counts as this one")
		}
		h.stop = again.stop
	})
}

// TestGuardAfterRestart: latch, cooldown and the count of flips outlive a restart.
func TestGuardAfterRestart(t *testing.T) {
	inHouse(t, usual, admission.Enforce, func(t *testing.T, h *house) {
		h.scene.pages("i-1", 3)
		wait(2 * time.Second)
		h.orders(t, control.Restore)
		wait(2 * time.Second)
		h.stop()
		wait(time.Hour)
		again := open(t, h.disk, h.scene, usual, admission.Enforce)
		h.stop = again.stop
		wait(2*time.Hour + 50*time.Minute)
		g, flips := again.keeper.Guard("a")
		if again.mode() != admission.Enforce || flips != 1 || g.LatchedBy != "ana" {
			t.Fatalf("in %s, guard %+v", again.mode(), g)
		}
		wait(15 * time.Minute)
		if again.mode() != admission.PassThrough {
			t.Error("the latch did not end")
		}
	})
}

// TestFullDisk: the gate is taken out at once; the thread has nothing of it before it
// is recorded, and everything once it is. Meanwhile people hear, once, that it is not.
// Who puts the gate back has no need to.
func TestFullDisk(t *testing.T) {
	inHouse(t, usual, admission.Enforce, func(t *testing.T, h *house) {
		h.disk.fill(true)
		h.scene.pages("i-1", 3)
		wait(3 * time.Second)
		if h.mode() != admission.PassThrough || len(h.disk.told(engine.EventMode)) != 0 || len(h.disk.notes()) != 0 {
			t.Fatalf("in %s, told %v, noted %v", h.mode(), h.disk.told(engine.EventMode), h.disk.notes())
		}
		wait(time.Minute)
		if w := h.disk.warnings(); len(w) != 1 || w[0].To != admission.PassThrough || w[0].Pool != "a" {
			t.Errorf("warned of %+v", w)
		}
		h.disk.fill(false)
		wait(15 * time.Second)
		if len(h.disk.told(engine.EventMode)) != 1 || len(h.disk.notes()) != 1 || h.disk.guard("a").State != control.Flipped {
			t.Errorf("told %v, noted %v, guard %v", h.disk.told(engine.EventMode), h.disk.notes(), h.disk.guard("a"))
		}
	})
}

// TestFullDiskForAMoment: what is recorded in time nobody is warned of, nor what
// somebody has undone.
func TestFullDiskForAMoment(t *testing.T) {
	for name, then := range map[string]func(*testing.T, *house){
		"recorded": func(_ *testing.T, h *house) { h.disk.fill(false) },
		"undone":   func(t *testing.T, h *house) { h.orders(t, control.Restore) },
	} {
		t.Run(name, func(t *testing.T) {
			inHouse(t, usual, admission.Enforce, func(t *testing.T, h *house) {
				h.disk.fill(true)
				h.scene.pages("i-1", 3)
				wait(3 * time.Second)
				then(t, h)
				wait(time.Minute)
				if w := h.disk.warnings(); len(w) != 0 {
					t.Errorf("warned of %+v", w)
				}
			})
		})
	}
}

// TestMaximumIsToldInTheEnd: that no rollback is left is told once it can be.
func TestMaximumIsToldInTheEnd(t *testing.T) {
	c := usual
	c.MaxPerDay = 0
	inHouse(t, c, admission.Enforce, func(t *testing.T, h *house) {
		h.disk.fill(true)
		h.scene.pages("i-1", 3)
		wait(time.Minute)
		h.disk.fill(false)
		wait(time.Minute)
		if told := h.disk.told(engine.EventNoted); len(told) != 1 || !strings.Contains(told[0].Words, "0 of 0") {
			t.Errorf("told %+v", told)
		}
	})
}

// TestSomebodyElsesRollback: a person's rollback wins over the engine's, and latches.
func TestSomebodyElsesRollback(t *testing.T) {
	inHouse(t, usual, admission.Enforce, func(t *testing.T, h *house) {
		h.orders(t, rollback.Action)
		h.scene.pages("i-1", 3)
		wait(time.Minute)
		h.wantGuard(t, control.Armed, 0)
		if h.disk.endings(control.Withheld, "pass-through already, by ana") != 1 {
			t.Errorf("entries %v", h.disk.notes())
		}
	})
}

// TestReminders: each hour of pass-through people hear of it, whoever rolled back,
// once, across restarts, until somebody puts the gate back.
func TestReminders(t *testing.T) {
	inHouse(t, usual, admission.Observe, func(t *testing.T, h *house) {
		h.orders(t, rollback.Action)
		wait(59 * time.Minute)
		if len(h.disk.reminders()) != 0 {
			t.Fatal("too early")
		}
		wait(90 * time.Minute)
		if len(h.disk.reminders()) != 2 {
			t.Fatalf("reminded %v", h.disk.reminders())
		}
		for _, r := range h.disk.reminders() {
			if r.By != "ana" || r.Reason != "I know better" || r.Before != admission.Observe || r.Workers != 1 {
				t.Errorf("reminder %+v", r)
			}
		}
		h.stop()
		wait(2 * time.Hour)
		again := open(t, h.disk, h.scene, usual, admission.Enforce)
		h.stop = again.stop
		wait(time.Minute)
		if len(h.disk.reminders()) != 3 { // only the latest of those that were missed
			t.Fatalf("after a restart %v", h.disk.reminders())
		}
		again.orders(t, control.Restore)
		wait(5 * time.Hour)
		if len(h.disk.reminders()) != 3 {
			t.Errorf("after the restore %v", h.disk.reminders())
		}
	})
}

// TestClockStep: orders whose time of day is an hour off, as after a step of the
// clock, neither shorten nor lengthen what is counted from them.
func TestClockStep(t *testing.T) {
	for _, step := range []time.Duration{time.Hour, -time.Hour} {
		inHouse(t, usual, admission.Enforce, func(t *testing.T, h *house) {
			o := control.Order{Action: control.Rollback, Pool: "a", Actor: "ana", Via: control.ViaAPI}
			if _, err := h.Do(t.Context(), time.Now().Add(step), o); err != nil {
				t.Fatal(err)
			}
			h.scene.pages("i-1", 3)
			wait(59 * time.Minute)
			if len(h.disk.reminders()) != 0 {
				t.Errorf("%s: reminded too early", step)
			}
			wait(2 * time.Minute)
			if len(h.disk.reminders()) != 1 {
				t.Errorf("%s: reminded %d times", step, len(h.disk.reminders()))
			}
			o.Action = control.Restore
			if _, err := h.Do(t.Context(), time.Now().Add(step), o); err != nil {
				t.Fatal(err)
			}
			wait(4*time.Hour - 2*time.Second)
			if h.mode() != admission.Enforce {
				t.Errorf("%s: the decision did not stand", step)
			}
			wait(4 * time.Second)
			if h.mode() != admission.PassThrough {
				t.Errorf("%s: the decision stands too long", step)
			}
		})
	}
}

// TestKilledAnywhere: at whatever use of the disk the process is killed, before or
// after its effect, the next one finds a pool that is rolled back and recorded, or
// one that is not: never one that was told of and is not. And it makes up for what
// is missing, once.
func TestKilledAnywhere(t *testing.T) {
	for _, still := range []bool{true, false} {
		for _, after := range []bool{true, false} {
			for n := range 12 {
				t.Run(fmt.Sprintf("use %d, effect %v, trouble goes on %v", n, after, still), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { killed(t, n, after, still) })
				})
			}
		}
	}
}

func killed(t *testing.T, n int, after, still bool) {
	d, s := newDisk(), &scene{}
	h := open(t, d, s, usual, admission.Enforce)
	wait(time.Second)
	d.dies(n, after)
	s.pages("i-1", 3)
	wait(10 * time.Second)
	d.dead = true
	h.stop()
	done := d.standings["a"].Mode == admission.PassThrough
	if told := d.told(engine.EventMode); !done && (len(told) > 0 || d.endings(control.Done, "") > 0) {
		t.Fatalf("told and not done: %v", d.log)
	}
	d.dead, d.life = false, -1
	if !still {
		s.value.V = 0
	}
	again := open(t, d, s, usual, admission.Enforce)
	if (again.mode() == admission.PassThrough) != done {
		t.Fatalf("the record says %v, the gate is in %s: %v", done, again.mode(), d.log)
	}
	wait(10 * time.Second)
	again.stop()
	done = d.standings["a"].Mode == admission.PassThrough
	want := 0
	if done {
		want = 1
	}
	if still && !done {
		t.Errorf("the trouble goes on, and nothing was done: %v", d.log)
	}
	if len(d.told(engine.EventMode)) != want || d.endings(control.Done, "") != want {
		t.Errorf("done %v: told %d times, noted %d times: %v", done, len(d.told(engine.EventMode)), d.endings(control.Done, ""), d.log)
	}
	if g := d.guards["a"]; done && (g.State != control.Flipped || len(g.Flips) != 1) {
		t.Errorf("the guard is %+v", g)
	}
}

// TestGuardConfig: what cannot be is refused, with what would be right.
func TestGuardConfig(t *testing.T) {
	bad := control.GuardConfig{MaxPerDay: -1, Cooldown: -1, HumanLatch: -1}
	_, err := control.NewKeeper(control.KeeperConfig{Rules: bad})
	for _, say := range []string{"must be 0 to 100", "the cooldown is -1ns", "the latch is -1ns"} {
		if err == nil || !strings.Contains(err.Error(), say) {
			t.Errorf("%v, want %q in it", err, say)
		}
	}
	if _, err := control.NewKeeper(control.KeeperConfig{Rules: usual}); err == nil {
		t.Error("a Keeper of nothing")
	}
}

// TestReconfigured: what settings say counts from the reload on.
func TestReconfigured(t *testing.T) {
	off := usual
	off.Auto = false
	inHouse(t, off, admission.Enforce, func(t *testing.T, h *house) {
		h.scene.pages("i-1", 3)
		wait(time.Minute)
		if h.mode() != admission.Enforce {
			t.Fatalf("the gate is in %s", h.mode())
		}
		h.keeper.Configure(usual)
		wait(2 * time.Second)
		if h.mode() != admission.PassThrough {
			t.Errorf("the gate is in %s", h.mode())
		}
	})
}

// TestTroubleOfTheProcess: a rule of no pool in particular is every pool's.
func TestTroubleOfTheProcess(t *testing.T) {
	inHouse(t, usual, admission.Enforce, func(t *testing.T, h *house) {
		h.scene.set(func(s *scene) { s.pool = "" })
		h.scene.pages("i-1", 3)
		wait(2 * time.Second)
		if h.mode() != admission.PassThrough {
			t.Errorf("the gate is in %s", h.mode())
		}
	})
}
