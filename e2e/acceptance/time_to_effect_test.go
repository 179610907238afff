//go:build proof

package acceptance

import (
	"testing"
	"time"

	"headgate/e2e/rollbacktest"
)

// targetP99 is what a rollback by the API should take at most, in 99 of 100 cases, on a
// machine that has nothing else to do.
const targetP99 = 100 * time.Millisecond

// The figures are printed, and held against nothing: the machine may be busy.
func TestRollbackUnderLoad(t *testing.T) {
	for _, s := range rollbacktest.Scenarios(100) {
		t.Run(s.Name, func(t *testing.T) {
			t.Logf("from the request until no task is refused: %s (aim for the API: p99 under %v)", rollbacktest.FormatQuantiles(s.Run(t)), targetP99)
		})
	}
}
