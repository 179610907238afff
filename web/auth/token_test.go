package auth_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"headgate/web/auth"
)

func TestTokenCreatedOnce(t *testing.T) {
	dir := t.TempDir()
	if _, err := auth.ReadToken(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("error %v, want that there is none yet", err)
	}
	made, err := auth.MakeToken(dir)
	if err != nil {
		t.Fatal(err)
	}
	if read, err := auth.ReadToken(dir); err != nil || read != made {
		t.Errorf("read another token, or none: %v", err)
	}
	info, err := os.Stat(filepath.Join(dir, auth.TokenFile))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v (%v), want 0600", info.Mode(), err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, auth.TokenFile+".*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestInvalidTokenFileRefused, and what it holds is not shown.
func TestInvalidTokenFileRefused(t *testing.T) {
	for name, text := range map[string]string{
		"empty": "", "short": "LEAK", "two lines": "LEAKLEAKLEAK\nLEAKLEAK", "huge": strings.Repeat("LEAK", 100_000),
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, auth.TokenFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := auth.ReadToken(dir)
		if err == nil || strings.Contains(err.Error(), "LEAK") || !strings.Contains(err.Error(), auth.TokenFile) {
			t.Errorf("%s: error %v, want one that names the file and not its content", name, err)
		}
	}
}
