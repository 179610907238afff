package api_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"headgate/web/api"
)

const tokenFile = "headgate.token"

func TestTokenCreatedOnce(t *testing.T) {
	dir := t.TempDir()
	if _, err := api.ReadToken(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("error %v, want that there is none yet", err)
	}
	made, err := api.ReadOrMakeToken(dir)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := api.ReadOrMakeToken(dir); err != nil || again != made {
		t.Errorf("made another token: %v", err)
	}
	if read, err := api.ReadToken(dir); err != nil || read != made {
		t.Errorf("read another token, or none: %v", err)
	}
	info, err := os.Stat(filepath.Join(dir, tokenFile))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v (%v), want 0600", info.Mode(), err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, tokenFile+".*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestInvalidTokenFileRefused, and what it holds is not shown.
func TestInvalidTokenFileRefused(t *testing.T) {
	for name, text := range map[string]string{
		"empty": "", "short": "LEAK", "two lines": "LEAKLEAKLEAK\nLEAKLEAK", "huge": strings.Repeat("LEAK", 100_000),
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, tokenFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := api.ReadToken(dir)
		if err == nil || strings.Contains(err.Error(), "LEAK") || !strings.Contains(err.Error(), tokenFile) {
			t.Errorf("%s: error %v, want one that names the file and not its content", name, err)
		}
	}
}
