package archtest

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
)

// readFixture splits one fixture into the violations it must show and its files.
// The form is described in testdata/README.md.
func readFixture(t *testing.T, file string) (want []string, files fs.FS) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	tree := fstest.MapFS{}
	var name string
	for line := range strings.Lines(string(text)) {
		if n, ok := strings.CutPrefix(line, "-- "); ok {
			name = strings.TrimSuffix(strings.TrimSpace(n), " --")
			tree[name] = &fstest.MapFile{Mode: 0o644}
			continue
		}
		if name != "" {
			tree[name].Data = append(tree[name].Data, line...)
		} else if w, ok := strings.CutPrefix(line, "want: "); ok {
			want = append(want, strings.TrimSpace(w))
		}
	}
	if len(tree) == 0 {
		t.Fatalf("%s: no files in it", file)
	}
	return want, tree
}

// fixtures lists the fixtures by name.
func fixtures(t *testing.T) map[string]string {
	t.Helper()
	paths, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatalf("fixtures: %v, %d found", err, len(paths))
	}
	out := map[string]string{}
	for _, p := range paths {
		out[strings.TrimSuffix(filepath.Base(p), ".txtar")] = p
	}
	return out
}
