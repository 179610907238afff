//go:build proof

package acceptance

import (
	"testing"

	"headgate/e2e/alerttest"
)

// A full disk stops samples and recording; an alert is sent all the same.
func TestFullDiskAlerts(t *testing.T) { alerttest.FullDisk{AwaitAlert: true}.Run(t) }
