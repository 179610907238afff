package clients

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"headgate/e2e/harness"
)

// The lock file has no registry URLs, so that npm uses the configured registry.
func TestLockNamesNoRegistry(t *testing.T) {
	lock, err := os.ReadFile(filepath.Join(harness.Module(t), "node", "package-lock.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, never := range []string{`"resolved"`, "://"} {
		for line := range bytes.Lines(lock) {
			if bytes.Contains(line, []byte(never)) && !bytes.Contains(line, []byte(`"url"`)) { // of a sponsor
				t.Errorf("%s in package-lock.json: %s", never, line)
			}
		}
	}
	if !bytes.Contains(lock, []byte(`"integrity"`)) {
		t.Error("package-lock.json has no integrity of what it installs")
	}
}
