//go:build proof

package proof

import (
	"testing"
	"time"

	"headgate/e2e/rollback/rig"
)

// kills is how often the gate is killed while an order is under way.
const kills = 200

// By the API and through the database, half of the kills each, one after the
// other, so that neither slows the other's orders down.
func TestKillDuringOrders(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for name, silent := range map[string]bool{"by the API": false, "through the database": true} {
		t.Run(name, func(t *testing.T) {
			t.Log(rig.Crash{Rounds: kills / 2, Seed: seed, Silent: silent}.Run(t))
		})
	}
}
