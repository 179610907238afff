package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"headgate/engine/rules"
	"headgate/internal/app"
	"headgate/internal/config"
)

func newRulesTest() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "test FILE...",
		Short: "Run tests of rules",
		Long: `Run files of tests: series go in, and values, states and events are compared with
what is expected at given times. Exit status 4 means that an expectation was not
met, 2 that a file is not right. docs/rules.md says how tests are written.`,
		Example: `  headgate rules test *.test.yaml
  headgate rules test queue.test.yaml --json`,
		Args: usageArgs(cobra.MinimumNArgs(1)),
	}
	path := configFlag(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		cfg, err := loadSettings(*path, cmd.ErrOrStderr())
		if err != nil {
			return err
		}
		tested, err := testRules(cmd.Context(), cfg, args)
		write := func() error { return printTestReport(cmd.OutOrStdout(), tested.Files) }
		if asJSON {
			write = func() error { return printJSON(cmd.OutOrStdout(), tested) }
		}
		return errors.Join(write(), err)
	}
	return cmd
}

// rulesTestReport is what files of tests came to.
type rulesTestReport struct {
	Passed bool             `json:"passed"`
	Files  []fileTestReport `json:"files"`
}

type fileTestReport struct {
	File   string   `json:"file"`
	Tests  int      `json:"tests"`
	Failed []string `json:"failed"` // expectations that were not met, with their positions
	Error  string   `json:"error"`  // why the file could not be run; empty if it was
}

// testRules runs all files, also after one that is not right.
func testRules(ctx context.Context, cfg *config.Config, files []string) (rulesTestReport, error) {
	all := rulesTestReport{Files: []fileTestReport{}}
	var wrong []error
	unmet := 0
	for _, file := range files {
		done, err := rules.Test(ctx, file, app.RuleSettings(cfg))
		if ctx.Err() != nil {
			return all, ctx.Err()
		}
		one := fileTestReport{File: file, Tests: done.Tests, Failed: []string{}}
		for _, failure := range done.Failures {
			one.Failed = append(one.Failed, failure.Error())
		}
		if err != nil {
			one.Error = err.Error()
			wrong = append(wrong, err)
		}
		unmet += len(done.Failures)
		all.Files = append(all.Files, one)
	}
	all.Passed = unmet == 0 && len(wrong) == 0
	switch {
	case len(wrong) > 0:
		return all, usageError{errors.Join(wrong...)}
	case unmet > 0:
		return all, unexpectedResultError{fmt.Errorf("expectations that were not met: %d", unmet)}
	default:
		return all, nil
	}
}

func printTestReport(w io.Writer, files []fileTestReport) error {
	for _, f := range files {
		verdict := "ok"
		switch {
		case f.Error != "":
			verdict = "NOT RUN"
		case len(f.Failed) > 0:
			verdict = "FAILED"
		}
		tests := fmt.Sprintf("%d tests", f.Tests)
		if f.Tests == 1 {
			tests = "1 test"
		}
		if _, err := fmt.Fprintf(w, "%-7s  %s  %s\n", verdict, sanitize(f.File), tests); err != nil {
			return err
		}
		for _, line := range f.Failed {
			if _, err := fmt.Fprintf(w, "         %s\n", sanitize(line)); err != nil {
				return err
			}
		}
	}
	return nil
}
