//go:build proof

package proof

import (
	"testing"

	"headgate/e2e/watch/desk"
)

// A full disk takes the samples and the record: somebody is told all the same.
func TestFullDiskIsTold(t *testing.T) { desk.FullDisk{Told: true}.Run(t) }
