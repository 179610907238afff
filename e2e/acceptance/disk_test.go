//go:build proof

package acceptance

import (
	"testing"

	"headgate/e2e/alerttest"
)

// A full disk takes the samples and the record: somebody is told all the same.
func TestFullDiskAlerts(t *testing.T) { alerttest.FullDisk{AwaitAlert: true}.Run(t) }
