package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"headgate/alerts/slack"
	"headgate/engine"
	"headgate/engine/rules"
	"headgate/internal/app"
	"headgate/internal/config"
	"headgate/internal/format"
)

// ShowRules checks a file of rules and lists its rules for each pool. Without a
// file it lists the rules that the settings select. The service need not run.
func (s *Service) ShowRules(cfg *config.Config, file string) error {
	all, err := loadRules(cfg, file)
	if err != nil {
		return Usage(err)
	}
	return s.show(map[string]any{"rules": all}, func(p *printer) {
		t := p.table("RULE", "POOL", "WARN AT", "PAGE AT", "CLEAR BELOW", "RUNBOOK", "ACTION")
		for _, r := range all {
			clear := engine.Threshold{Set: true, At: r.Clear.Below, For: r.Clear.For}
			t.row(plain, r.Name, r.Pool, thresholdText(r.Warn, r.Unit), thresholdText(r.Page, r.Unit),
				thresholdText(clear, r.Unit), r.Runbook, r.Action)
		}
		t.end()
	})
}

// loadRules returns the rules of a file, or those that a service with these settings
// evaluates, for each pool.
func loadRules(cfg *config.Config, file string) ([]engine.Rule, error) {
	if file == "" {
		return app.Rules(cfg)
	}
	return rules.Load(file, app.RuleSettings(cfg))
}

// thresholdText shows a limit and how long a breach must last: "25s for 60s".
func thresholdText(t engine.Threshold, unit string) string {
	if !t.Set {
		return ""
	}
	return fmt.Sprintf("%s for %s", format.Table.Value(t.At, unit), elapsed(t.For))
}

// rulesTestReport is the result of files of rule tests, as --json prints it.
type rulesTestReport struct {
	Passed bool             `json:"passed"`
	Files  []fileTestReport `json:"files"`
}

type fileTestReport struct {
	File   string   `json:"file"`
	Tests  int      `json:"tests"`
	Failed []string `json:"failed"` // unmet expectations, with their positions
	Error  string   `json:"error"`  // why the file could not be run; empty if it was
}

// TestRules runs all files of rule tests, also after an invalid one. The service
// need not run.
func (s *Service) TestRules(ctx context.Context, cfg *config.Config, files []string) error {
	report := rulesTestReport{Files: []fileTestReport{}}
	var invalid []error
	unmet := 0
	for _, file := range files {
		result, err := rules.Test(ctx, file, app.RuleSettings(cfg))
		if ctx.Err() != nil {
			return ctx.Err()
		}
		one := fileTestReport{File: file, Tests: result.Tests, Failed: []string{}}
		for _, failure := range result.Failures {
			one.Failed = append(one.Failed, failure.Error())
		}
		if err != nil {
			one.Error = err.Error()
			invalid = append(invalid, err)
		}
		unmet += len(one.Failed)
		report.Files = append(report.Files, one)
	}
	report.Passed = unmet == 0 && len(invalid) == 0
	if err := s.show(report, report.text); err != nil {
		return err
	}
	switch {
	case len(invalid) > 0:
		return Usage(errors.Join(invalid...))
	case unmet > 0:
		return Error{ExitUnexpected, fmt.Errorf("unmet expectations: %d", unmet)}
	}
	return nil
}

// text shows a line per file, and its unmet expectations below.
func (r rulesTestReport) text(p *printer) {
	for _, f := range r.Files {
		verdict, look := "ok", plain
		switch {
		case f.Error != "":
			verdict, look = "NOT RUN", alarm
		case len(f.Failed) > 0:
			verdict, look = "FAILED", alarm
		}
		p.line(look, "%-7s  %s  %s", verdict, f.File, format.Plural(f.Tests, "test"))
		for _, failed := range f.Failed {
			p.printf("         %s\n", failed)
		}
	}
}

// alertsTimeout bounds the test of all Slack channels.
const alertsTimeout = time.Minute

// TestAlertDelivery tests whether Slack accepts messages. The service need not run.
func (s *Service) TestAlertDelivery(ctx context.Context, cfg *config.Config) error {
	ctx, cancel := context.WithTimeout(ctx, alertsTimeout)
	defer cancel()
	checks, err := s.TestAlerts(ctx, cfg)
	if errors.Is(err, app.ErrNoBotToken) {
		return Usage(err)
	}
	if err != nil {
		return err
	}
	failed := 0
	for _, c := range checks {
		if !c.OK {
			failed++
		}
	}
	err = s.show(map[string]any{"passed": failed == 0, "checks": append([]slack.Check{}, checks...)}, func(p *printer) {
		t := p.table()
		for _, c := range checks {
			verdict, look := "ok", plain
			if !c.OK {
				verdict, look = "FAILED", alarm
			}
			t.row(look, verdict, c.Name, c.Detail)
			if c.Hint != "" && !c.OK {
				t.row(plain, blank{}, blank{}, "→ "+c.Hint)
			}
		}
		t.end()
	})
	if err == nil && failed > 0 {
		err = fmt.Errorf("%d of %d checks failed: messages would not be delivered as configured", failed, len(checks))
	}
	return err
}
