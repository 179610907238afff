package rollback

import (
	"testing"

	"headgate/e2e/rollbacktest"
)

// Measures the time to effect of rollbacks, and checks that none of 1,000 tasks is lost. The
// times are logged and have no limit: the machine may be busy. `make proof` measures more.
func TestRollbackUnderLoad(t *testing.T) {
	for _, s := range rollbacktest.Scenarios(10) {
		t.Run(s.Name, func(t *testing.T) {
			if s.Fault != nil {
				t.Parallel() // it mostly waits for the record
			}
			t.Logf("moments: %s", rollbacktest.FormatQuantiles(s.Run(t)))
		})
	}
}
