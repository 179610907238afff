package config

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden files from what the code does now")

// secretMarker stands for everything that must never come back in a message.
const secretMarker = "LEAKLEAK"

// badEnv is the environment in which the files of testdata/bad are read.
func badEnv(name string) (string, bool) {
	value, ok := map[string]string{
		"LEAK":    secretMarker,
		"NEWLINE": secretMarker + "\n",
		"BINARY":  secretMarker + "\xff",
		"SHORT":   "3s",
	}[name]
	return value, ok
}

// golden compares got with the file, or rewrites it under -update.
func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v (run with -update to write it)", err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs (-want +got):\n%s", file, diff)
	}
}

func TestBadFilesAreRefusedWithTheirMessages(t *testing.T) {
	files, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil || len(files) < 20 {
		t.Fatalf("found %d bad files, error %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			c, err := Parse(filepath.Base(file), data, badEnv)
			if err == nil {
				t.Fatal("was accepted")
			}
			if c != nil {
				t.Error("gave settings beside an error")
			}
			if strings.Contains(err.Error(), secretMarker) {
				t.Errorf("the message repeats what may be secret:\n%v", err)
			}
			golden(t, strings.TrimSuffix(file, ".yaml")+".want", err.Error()+"\n")
		})
	}
}
