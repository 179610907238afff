package watch

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"headgate/e2e/harness"
)

// docBlock returns the YAML after a mark in docs/alerting.md.
func docBlock(t *testing.T, mark string) string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(filepath.Dir(harness.Module(t)), "docs", "alerting.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(page), "<!-- "+mark+" -->\n")
	head, rest, fenced := strings.Cut(rest, "```yaml\n")
	text, _, ended := strings.Cut(rest, "```\n")
	if !ok || !fenced || !ended || strings.TrimSpace(head) != "" {
		t.Fatalf("docs/alerting.md has no YAML after the mark %q", mark)
	}
	indent := head // of a block within a list
	var lines []string
	for line := range strings.Lines(text) {
		lines = append(lines, strings.TrimPrefix(line, indent))
	}
	return strings.Join(lines, "")
}

// The examples of docs/alerting.md are valid.
func TestExamplesOfDocs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for file, mark := range map[string]string{"rules.yaml": "rules", "rules.test.yaml": "rules test", "headgate.yaml": "settings"} {
		harness.WriteFile(t, filepath.Join(dir, file), docBlock(t, mark))
	}
	for _, args := range [][]string{
		{"rules", "check", "rules.yaml"}, {"rules", "test", "rules.test.yaml"}, {"check", "--config", "headgate.yaml"},
	} {
		p, code := harness.RunToEnd(t, harness.Command{Args: args, Dir: dir, Env: []string{"SLACK_BOT_TOKEN=xoxb-1-2-x"}})
		if code != 0 {
			t.Errorf("headgate %s ended with %d: %s%s", strings.Join(args, " "), code, p.Stdout(), p.Stderr())
		}
	}
}
