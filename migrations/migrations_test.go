package migrations_test

import (
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"headgate/migrations"
)

// TestFiles: the files are numbered without gaps, and lead one way only.
func TestFiles(t *testing.T) {
	names, err := fs.Glob(migrations.FS, "*")
	if err != nil || len(names) == 0 {
		t.Fatalf("%v, %v", names, err)
	}
	for i, name := range names {
		if !strings.HasPrefix(name, fmt.Sprintf("%04d_", i+1)) || !strings.HasSuffix(name, ".sql") {
			t.Errorf("file %d is %s", i+1, name)
		}
		text, err := fs.ReadFile(migrations.FS, name)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(string(text), "-- +goose Up\n") || strings.Contains(string(text), "+goose Down") {
			t.Errorf("%s must begin with its way up and have no way down", name)
		}
		if strings.Contains(string(text), "NO TRANSACTION") {
			t.Errorf("%s must be one transaction: what is broken off could not be done again", name)
		}
	}
}
