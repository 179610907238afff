package rules

import (
	"os"
	"testing"
)

// Every rule that is built in has a page that says what to do.
func TestEveryBuiltInRuleHasItsPage(t *testing.T) {
	for _, r := range builtIn(t, settings()) {
		if info, err := os.Stat("../../runbooks/" + r.Runbook + ".md"); err != nil || info.Size() == 0 {
			t.Errorf("rule %s: its page %s: %v", r.Name, r.Runbook, err)
		}
	}
}
