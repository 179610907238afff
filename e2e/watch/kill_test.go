package watch

import (
	"testing"
	"time"

	"headgate/e2e/alerttest"
)

// SIGKILL at random times while incidents open and end; `make proof` does it 200 times.
func TestKillWhileIncidentsOpenAndEnd(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	t.Log(alerttest.KillTest{Rounds: 10, Seed: seed}.Run(t))
}
