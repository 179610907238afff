package alerttest

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"headgate/e2e/harness"
)

// Rule is a rule with the shortest durations that are valid.
type Rule struct {
	Name       string
	Signal     string
	Unit       string
	Warn, Page float64 // 0: no such threshold
	Below      float64 // clears below this
	ClearFor   string  // default 5s
	Rollback   bool    // a page rolls back
}

// HoldFor is how long a threshold must be exceeded: five evaluations.
const HoldFor = "5s"

// Texts of all rules.
const (
	Summary = "the test has raised the value"
	Impact  = "users notice that a test runs"
	Runbook = "queue_depth"
)

// WorkersRule is a rule on the number of workers, which a test sets by a reload.
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

// WriteRules writes a rules file into a folder.
func WriteRules(t testing.TB, dir string, rules ...Rule) {
	t.Helper()
	text := "rules:\n"
	for _, r := range rules {
		text += r.yaml()
	}
	harness.WriteFile(t, filepath.Join(dir, rulesName), text)
}
