//go:build proof

package acceptance

import (
	"os"
	"testing"

	"headgate/e2e/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Run(m)) }
