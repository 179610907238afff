package rollback

import (
	"testing"
	"time"

	"headgate/e2e/rollbacktest"
)

// SIGKILL at random points of a rollback or restore; `make proof` does it 200 times.
func TestKillDuringModeChanges(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	for name, silent := range map[string]bool{"by the API": false, "through the database": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			t.Log(rollbacktest.KillTest{Rounds: 5, Seed: seed, ViaDatabase: silent}.Run(t))
		})
	}
}
