package rollback

import (
	"testing"

	"headgate/e2e/rollbacktest"
)

// From the order to the first task that is let in and would not have been, and
// none of a thousand tasks lost. The figures are told, not judged: the machine may
// be busy. `make proof` measures more of them.
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
