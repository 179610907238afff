//go:build proof

package proof

import (
	"testing"
	"time"

	"headgate/e2e/rollback/rig"
)

// aim is what a rollback by the API should take at most, in 99 of 100 cases, on a
// machine that has nothing else to do.
const aim = 100 * time.Millisecond

// The figures are printed, and held against nothing: the machine may be busy.
func TestRollbackUnderLoad(t *testing.T) {
	for _, s := range rig.Scenarios(100) {
		t.Run(s.Name, func(t *testing.T) {
			t.Logf("from the order until nobody is refused: %s (aim for the API: p99 under %v)", rig.Spread(s.Run(t)), aim)
		})
	}
}
