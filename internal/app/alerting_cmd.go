package app

import (
	"context"
	"fmt"
	"io"

	"headgate/engine"
	"headgate/engine/rules"
	"headgate/internal/config"
)

// LoadRules returns the rules of a file, made for the pools of the settings; without a
// file those that a service with these settings evaluates. What is wrong with a
// file is said with its positions, all of it.
func LoadRules(cfg *config.Config, file string) ([]engine.Rule, error) {
	if file == "" {
		return rulesFor(cfg)
	}
	return rules.Load(file, ruleSettings(cfg))
}

// RuleTestResult is what a file of tests of rules came to.
type RuleTestResult struct {
	Tests  int
	Failed []string // expectations that were not met, with their positions
}

// TestRules runs a file of tests of rules. An error says that the file, or the file
// of rules that it names, is not right.
func TestRules(ctx context.Context, cfg *config.Config, file string) (RuleTestResult, error) {
	done, err := rules.Test(ctx, file, ruleSettings(cfg))
	t := RuleTestResult{Tests: done.Tests, Failed: []string{}}
	for _, p := range done.Failures {
		t.Failed = append(t.Failed, p.Error())
	}
	return t, err
}

// The formats that rules are exported in.
const (
	FormatYAML       = "yaml"       // a file of rules, to start from
	FormatPrometheus = "prometheus" // for a Prometheus that scrapes headgate
)

// ExportRules writes the rules that a service with these settings evaluates.
func ExportRules(w io.Writer, cfg *config.Config, format string) error {
	all, err := rulesFor(cfg)
	if err != nil {
		return err
	}
	switch format {
	case FormatYAML:
		return writeRulesYAML(w, all)
	case FormatPrometheus:
		return rules.Export(w, all)
	default:
		return fmt.Errorf("unknown format %.40q: must be %s or %s", format, FormatYAML, FormatPrometheus)
	}
}
