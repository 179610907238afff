package control_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"headgate/proxy/admission"
	"headgate/runbooks/control"
)

// TestRestoredAtOnce: somebody puts the gate back at the very moment at which it is
// taken out. Their decision stands, and the guard does not believe that it is out.
func TestRestoredAtOnce(t *testing.T) {
	c := usual
	c.MaxPerDay = 100
	for n := range 50 {
		synctest.Test(t, func(t *testing.T) {
			h := open(t, newDisk(), &scene{}, c, admission.Enforce)
			defer func() { h.stop() }()
			restored := make(chan error, 1)
			h.hooked(func(c control.Change) {
				if c.Via != control.ViaEngine {
					return
				}
				go func() { // who applies holds a lock
					_, err := h.Do(t.Context(), time.Now(), control.Order{Action: control.Restore, Pool: "a", Actor: "ana", Via: control.ViaAPI})
					restored <- err
				}()
			})
			h.scene.pages(fmt.Sprint("i-", n), 3)
			if err := <-restored; err != nil {
				t.Fatal(err)
			}
			wait(5 * time.Second)
			if g, flips := h.keeper.Guard("a"); h.mode() != admission.Enforce || g.State != control.Cooldown || flips != 1 || g.LatchedBy != "ana" {
				t.Fatalf("attempt %d: the gate is in %s, the guard is %+v", n, h.mode(), g)
			}
			if n := h.disk.endings(control.Done, "false_refusal"); n != 1 {
				t.Errorf("%d entries of the rollback: %v", n, h.disk.notes())
			}
		})
	}
}
