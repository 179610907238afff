//go:build proof

package acceptance

import (
	"testing"
	"time"

	"headgate/e2e/rollbacktest"
)

// kills is how often the gate is killed while an order is under way.
const kills = 200

// By the API and through the database, half of the kills each, one after the
// other, so that neither slows the other's orders down.
func TestKillDuringModeChanges(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for name, silent := range map[string]bool{"by the API": false, "through the database": true} {
		t.Run(name, func(t *testing.T) {
			t.Log(rollbacktest.KillTest{Rounds: kills / 2, Seed: seed, ViaDatabase: silent}.Run(t))
		})
	}
}
