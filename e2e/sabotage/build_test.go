package sabotage

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"headgate/e2e/harness"
)

func TestEditsThatDoNotFit(t *testing.T) {
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "a.go"), []byte("one two two"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		edits []Edit
		want  string
	}{
		"it is not there":    {[]Edit{{"a.go", "three", ""}}, `a.go holds "three" 0 times`},
		"it is there twice":  {[]Edit{{"a.go", "two", ""}}, `a.go holds "two" 2 times`},
		"nothing is sought":  {[]Edit{{"a.go", "", "x"}}, `must be there once`},
		"another edit took":  {[]Edit{{"a.go", "one", "1"}, {"a.go", "one", "1"}}, `holds "one" 0 times`},
		"there is no file":   {[]Edit{{"b.go", "one", ""}}, "b.go"},
		"one of two is good": {[]Edit{{"a.go", "one", "1"}, {"a.go", "four", ""}}, `"four"`},
	} {
		if got, err := patch(root, tt.edits); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, error %v, want %s", name, got, err, tt.want)
		}
	}
}

func TestEditsAddUp(t *testing.T) {
	root := t.TempDir()
	file := filepath.Join(root, "sub", "a.go")
	if err := os.Mkdir(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("one two"), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := patch(root, []Edit{{"sub/a.go", "one", "1 two"}, {"sub/a.go", "1 two two", "3"}})
	if err != nil || len(got) != 1 || got[file] != "3" {
		t.Errorf("got %v, %v", got, err)
	}
}

// The fault is in what is built, and the source stays as it was.
func TestBuild(t *testing.T) {
	file := filepath.Join(filepath.Dir(harness.Module(t)), "cmd", "headgate", "main.go")
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	path := Build(t, Edit{"cmd/headgate/main.go", "func main() {", "func main() { println(\"sabotaged\");"})
	p, code := harness.RunToEnd(t, harness.Command{Program: path, Args: []string{"version"}})
	if code != 0 || !strings.Contains(p.Stderr(), "sabotaged") {
		t.Errorf("exit code %d, said %q", code, p.Stderr())
	}
	if after, err := os.ReadFile(file); err != nil || string(after) != string(before) {
		t.Errorf("the source has changed (%v)", err)
	}
}

// One build has many faults, and the environment says which is at work.
func TestBuildSwitched(t *testing.T) {
	path := BuildSwitched(t,
		Edit{"cmd/headgate/main.go", "func main() {", "func main() { if sabotaged(\"one\") { println(\"fault one\") };"},
		Edit{"internal/config/defaults.go", "func Default() *Config {", "func Default() *Config { if sabotaged(\"two\") { println(\"fault two\") };"})
	for fault, want := range map[string]string{"": "", "one": "fault one\n", "two": "fault two\n"} {
		p, code := harness.RunToEnd(t, harness.Command{Program: path, Args: []string{"check"}, Env: []string{Variable + "=" + fault}})
		if said := p.Stderr(); code != 0 || strings.Contains(said, "fault") != (want != "") || !strings.Contains(said, want) {
			t.Errorf("fault %q: exit code %d, said %q", fault, code, said)
		}
	}
}

func TestSwitchIsInEveryPackage(t *testing.T) {
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "a.go"), []byte("// A.\npackage letters\n\nvar a = 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := switched(root, []Edit{{"a.go", "= 1", "= 2"}})
	if text := got[filepath.Join(root, switchFile)]; err != nil || len(got) != 2 || !strings.HasPrefix(text, "package letters\n") {
		t.Errorf("got %q, %v", got, err)
	}
	if err := os.WriteFile(filepath.Join(root, "a.go"), []byte("no Go"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := switched(root, []Edit{{"a.go", "no", "yes"}}); err == nil {
		t.Errorf("a file without a package gave %q", got)
	}
}
