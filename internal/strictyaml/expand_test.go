package strictyaml

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

const secretMarker = "hunter2"

// env makes a lookup out of NAME, VALUE pairs.
func env(pairs ...string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1], true
			}
		}
		return "", false
	}
}

func TestExpand(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "key"), "from file\r\n\n")
	f := expander{dir: dir, env: env("A", "one", "B_2", "${A} $$ $x", "EMPTY", "")}
	for _, test := range []struct{ text, want, refs string }{
		{"plain", "plain", ""},
		{"", "", ""},
		{"${A}", "one", "${A}"},
		{"x${A}y${A}z", "xoneyonez", "${A}"},
		{"${B_2}", "${A} $$ $x", "${B_2}"}, // what was filled in is not expanded again
		{"${EMPTY}", "", "${EMPTY}"},
		{"$$", "$", ""},
		{"$${A}", "${A}", ""},
		{"$$$${A}", "$${A}", ""},
		{"$$${A}", "$one", "${A}"},
		{"${file:key}", "from file", "${file:key}"},
		{"${file:" + dir + "/key}", "from file", "${file:" + dir + "/key}"},
		{"${A}${file:key}", "onefrom file", "${A} and ${file:key}"},
	} {
		got, refs, err := f.expand(test.text)
		if err != nil || got != test.want || refs != test.refs {
			t.Errorf("%s: %q from %q, %v; want %q from %q", test.text, got, refs, err, test.want, test.refs)
		}
	}
}

func TestExpandRefuses(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "big"), strings.Repeat("x", maxReferencedFile+1))
	write(t, filepath.Join(dir, "largest"), strings.Repeat("x", maxReferencedFile))
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	f := expander{dir: dir, env: env("BAD", secretMarker+"\xff")}
	for text, want := range map[string]string{
		"$": "single $", "a$b": "single $", "${A": "without its }", "${": "without its }",
		"${}": "neither", "${a b}": "neither", "${A:-x}": "neither", "${1}": "neither", "${${A}}": "neither",
		"${NONE}":          "the environment variable NONE, which is not set",
		"${BAD}":           "UTF-8",
		"${file:}":         "no name",
		"${file:none}":     "no such file",
		"${file:big}":      "larger than 64 KiB",
		"${file:pipe}":     "not a regular file",
		"${file:/dev/tty}": "not a regular file",
	} {
		got, refs, err := f.expand(text)
		if err == nil || got != "" || refs != "" || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), secretMarker) {
			t.Errorf("%s: %q, %v; want %q", text, got, err, want)
		}
	}
	if got, _, err := f.expand("${file:largest}"); err != nil || len(got) != maxReferencedFile {
		t.Errorf("the largest file gives %d bytes, %v", len(got), err)
	}
}

func TestExpandBoundsTotalSize(t *testing.T) {
	f := expander{env: env("K", strings.Repeat("x", 1024))}
	if _, _, err := f.expand(strings.Repeat("${K}", 1024)); err != nil {
		t.Errorf("1 MiB in all: %v", err)
	}
	if _, _, err := f.expand("${K}"); err != errExpandedTooLarge {
		t.Errorf("more: %v", err)
	}
}
