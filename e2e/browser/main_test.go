package browser

import (
	"os"
	"testing"

	"headgate/e2e/harness"
)

func TestMain(m *testing.M) {
	code := harness.Run(m)
	if err := closeChromium(); err != nil {
		println("close chromium:", err.Error())
		code = max(code, 1)
	}
	os.Exit(code)
}
