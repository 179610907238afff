package control_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"headgate/proxy/admission"
	"headgate/runbooks/control"
)

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
			if g, flips := h.rollback.Status("a"); h.mode() != admission.Enforce || g.Phase != control.Cooldown || flips != 1 || g.HoldActor != "ana" {
				t.Fatalf("attempt %d: the gate is in %s, the guard is %+v", n, h.mode(), g)
			}
			if n := h.store.countResults(control.Done, "false_refusal"); n != 1 {
				t.Errorf("%d entries of the rollback: %v", n, h.store.auditEntries())
			}
		})
	}
}
