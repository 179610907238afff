package rules

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"headgate/engine"
)

var yamlBlock = regexp.MustCompile("(?s)```yaml\n(.*?)```")

// The examples of the manual are right, and the tests in it pass.
func TestManualExamplesParse(t *testing.T) {
	manual, err := os.ReadFile("../../docs/rules.md")
	if err != nil {
		t.Fatal(err)
	}
	s := settings()
	s.Runbooks = []string{"queue_age", "refused_share"}
	blocks := yamlBlock.FindAllSubmatch(manual, -1)
	if len(blocks) != 2 {
		t.Fatalf("%d examples, want rules and tests", len(blocks))
	}
	if _, err := Parse("example", blocks[0][1], s); err != nil {
		t.Errorf("the example of rules: %v", err)
	}
	done, err := TestData(t.Context(), "example", blocks[1][1], s)
	if err != nil || len(done.Failures) > 0 {
		t.Errorf("the example of tests: %v, %v", err, done.Failures)
	}
	for _, r := range builtIn(t, settings()) {
		if r.Name != engine.SignalMissing && !strings.Contains(string(manual), "| `"+r.Name+"` |") {
			t.Errorf("the manual does not list %s", r.Name)
		}
	}
}
