package config

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
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
		{"${B_2}", "${A} $$ $x", "${B_2}"}, // what was filled in is not looked at again
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
		if err == nil || got != "" || refs != "" || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), secretMarker) {
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

func TestReferencesNeverChangeTheStructure(t *testing.T) {
	const inject = "x\ndrain: 1s\nadmin: {listen: 127.0.0.1:1}"
	c, err := Parse("f.yaml", []byte("admin: {token: \"${T}\"}\nlog: {level: \"${L}\"}\n"), env("T", "a,b}:#[*&!", "L", "warn"))
	if err != nil || c.Admin.Token.Reveal() != "a,b}:#[*&!" || c.Log.Level != "warn" {
		t.Errorf("got %+v, %v", c, err)
	}
	_, err = Parse("f.yaml", []byte("log: {level: '${L}'}\n"), env("L", inject))
	if err == nil || strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Errorf("got %v", err)
	}
	if _, err := Parse("f.yaml", []byte("${K}: 1s\n"), env("K", "drain")); err == nil {
		t.Error("a key was filled in")
	}
}

func TestReferencesServeEveryType(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "workers"), "7\n")
	text := `
drain: ${D}
pools:
  - name: a
    upstream: ${U}
    workers: ${file:workers}
    slo: {objective: "${O}"}
    limits: {body: "${B}MiB"}
`
	c, err := Parse(filepath.Join(dir, "f.yaml"), []byte(text), env("D", "7s", "U", "https://m.example.com/v1", "O", "0.5", "B", "3"))
	if err != nil {
		t.Fatal(err)
	}
	p := c.Pools[0]
	if c.Drain != 7*time.Second || p.Upstream != "https://m.example.com/v1" || p.Workers != 7 || p.SLO.Objective != 0.5 || p.Limits.Body != 3*mib {
		t.Errorf("got %+v", c)
	}
}
