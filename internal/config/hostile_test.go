package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"headgate/internal/strictyaml"
)

// TestHostileFilesEndInAnError feeds files of the full size, made to be slow,
// deep or large.
func TestHostileFilesEndInAnError(t *testing.T) {
	fill := func(s string) string { return strings.Repeat(s, strictyaml.MaxFile/len(s)) }
	for name, text := range map[string]string{
		"deep flow lists":    fill("["),
		"deep flow mappings": fill("{a: "),
		"deep block lists":   fill("- "),
		"deep indentation":   fill("? "),
		"many keys":          fill("a: 1\n"),
		"many quoted keys":   fill("'a': 1\n"),
		"many documents":     fill("---\n"),
		"many comments":      fill("#\n") + "x",
		"many anchors":       fill("- &a a\n"),
		"many tags":          fill("- !a a\n"),
		"many pools":         "pools: [" + strings.Repeat("{},", 300000) + "]",
		"many clients":       "clients: [" + strings.Repeat("{},", 9000) + "]",
		"many models":        "pools: [{models: [" + strings.Repeat("a,", 400000) + "]}]",
		"many references":    "data_dir: '" + fill("${A}")[:strictyaml.MaxFile/2] + "'",
		"many dollars":       "data_dir: '" + fill("$$")[:strictyaml.MaxFile/2] + "x\ty'",
		"long key":           fill("a")[:strictyaml.MaxFile-10] + ": 1",
		"long value":         "log: {level: " + fill("a")[:strictyaml.MaxFile-100] + "}",
		"long number":        "drain: " + fill("9")[:strictyaml.MaxFile-100],
		"long tail of tabs":  "a:" + fill("\t")[:strictyaml.MaxFile-10],
		"only zeros":         fill("\x00"),
		"a byte too many":    fill("a") + "a",
	} {
		t.Run(name, func(t *testing.T) {
			c, err := Parse("f.yaml", []byte(text), env("A", strings.Repeat("x", 64)))
			if err == nil || c != nil {
				t.Fatalf("was accepted: %v", c)
			}
			if n := len(err.Error()); n > 100*kib {
				t.Errorf("a message of %d bytes", n)
			}
		})
	}
}

// FuzzParse checks that any input is either refused with problems that name the
// file, or gives settings that survive being written and read again.
func FuzzParse(f *testing.F) {
	f.Add([]byte(full))
	files, err := filepath.Glob("testdata/*/*.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range append(files, exampleFile) {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if strings.Contains(string(data), "${file:") {
			return // what files hold is not up to the input
		}
		c, err := Parse("f.yaml", data, env("MC_API_KEY", secretMarker, "LEAK", secretMarker))
		if err != nil {
			wantRefused(t, c, err)
			return
		}
		again, err := Parse("f.yaml", []byte(written(t, c)), nil)
		if err != nil {
			t.Fatalf("does not load again: %v\n%s", err, written(t, c))
		}
		if diff := cmp.Diff(withoutSecrets(c), again, settings); diff != "" {
			t.Error(diff)
		}
	})
}

func wantRefused(t *testing.T, c *Config, err error) {
	t.Helper()
	problems, ok := err.(strictyaml.Diagnostics)
	if !ok || len(problems) == 0 || c != nil {
		t.Fatalf("got %v beside %#v", c, err)
	}
	for _, p := range problems {
		if p.File != "f.yaml" || p.Message == "" || p.Line < 0 || strings.Contains(p.Error(), "\n") {
			t.Errorf("a problem without file or message, or of several lines: %#v", p)
		}
	}
}

func TestListsAreBounded(t *testing.T) {
	for n, ok := range map[int]bool{10000: true, 10001: false} {
		_, err := Parse("f.yaml", []byte("hosts: ["+strings.Repeat("a,", n)+"]"), nil)
		if (err == nil) != ok {
			t.Errorf("%d entries: %v", n, err)
		}
		if err != nil && err.Error() != "f.yaml:1:1: hosts: must have at most 10000 entries, has 10001" {
			t.Error(err)
		}
	}
}
