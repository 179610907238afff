package alerttest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Rule is one of a file, with the shortest times that there can be.
type Rule struct {
	Name       string
	Signal     string
	Unit       string
	Warn, Page float64 // 0: there is no such threshold
	Below      float64 // over, below that
	ClearFor   string  // default 5s
	Rollback   bool    // a page asks for a rollback
}

// HoldFor is how long each threshold has to be breached: five evaluations.
const HoldFor = "5s"

// Texts of all rules.
const (
	Summary = "the test has turned it up"
	Impact  = "people feel that a test runs"
	Runbook = "queue_depth"
)

// WorkersRule is a rule on the number of workers.
func WorkersRule(name string, warn, page float64) Rule {
	below := page
	if warn > 0 {
		below = warn
	}
	return Rule{Name: name, Signal: `headgate_workers{pool="$pool"}`, Unit: "workers", Warn: warn, Page: page, Below: below}
}

func (r Rule) yaml() string {
	clear := r.ClearFor
	if clear == "" {
		clear = HoldFor
	}
	lines := []string{
		"name: " + r.Name, fmt.Sprintf("signal: '%s'", r.Signal), fmt.Sprintf("unit: %q", r.Unit),
		fmt.Sprintf("clear: {below: %v, for: %s}", r.Below, clear),
		fmt.Sprintf("summary: %q", Summary), fmt.Sprintf("impact: %q", Impact), "runbook: " + Runbook,
	}
	for name, at := range map[string]float64{"warn": r.Warn, "page": r.Page} {
		if at > 0 {
			lines = append(lines, fmt.Sprintf("%s: {at: %v, for: %s}", name, at, HoldFor))
		}
	}
	if r.Rollback {
		lines = append(lines, "action: rollback", "i_understand: true")
	}
	return "  - " + strings.Join(lines, "\n    ") + "\n"
}

const rulesName = "rules.yaml"

// WriteRules puts a file of rules into a folder.
func WriteRules(t testing.TB, dir string, rules ...Rule) {
	t.Helper()
	text := "rules:\n"
	for _, r := range rules {
		text += r.yaml()
	}
	if err := os.WriteFile(filepath.Join(dir, rulesName), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
