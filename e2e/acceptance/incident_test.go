//go:build proof

package acceptance

import (
	"testing"
	"time"

	"headgate/e2e/alerttest"
)

// Four gates at a time are killed a quarter of the times each: most of the time they
// wait for their rules.
func TestKillWhileIncidentsOpenAndEnd(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for n := range uint64(4) {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			t.Log(alerttest.KillTest{Rounds: kills / 4, Seed: seed + n}.Run(t))
		})
	}
}
