package main

import (
	"github.com/spf13/cobra"

	"headgate/engine/rules"
	"headgate/internal/app"
	"headgate/internal/cli"
	"headgate/internal/config"
)

// configFunc is what a command does that reads the settings itself.
type configFunc func(cmd *cobra.Command, s *cli.Service, cfg *config.Config, args []string) error

// configCommand adds --config, --json and what cmd runs with the settings. The
// service need not run: these commands are for CI and for the time before a start.
func configCommand(cmd *cobra.Command, env cli.Env, run configFunc) *cobra.Command {
	s := cli.Service{Env: env}
	path := configFlag(cmd)
	cmd.Flags().BoolVar(&s.JSON, "json", false, "print JSON")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		s.Out, s.Err = cmd.OutOrStdout(), cmd.ErrOrStderr()
		cfg, err := loadSettings(*path, s.Err)
		if err != nil {
			return err
		}
		return run(cmd, &s, cfg, args)
	}
	return cmd
}

// newRules returns the group of commands about alerting rules.
func newRules(env cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rules",
		Short: "Validate, test and export alerting rules",
		Long: `Validate a rules file, run rule tests, and export the effective rules. The service
need not run.`,
	}
	cmd.AddCommand(newRulesCheck(env), newRulesTest(env), newRulesExport())
	return cmd
}

func newRulesCheck(env cli.Env) *cobra.Command {
	return configCommand(&cobra.Command{
		Use:   "check [FILE]",
		Short: "Validate a rules file and list its rules for each pool",
		Long: `Validate a rules file as serve does, and list the resulting rules: one line for each
rule and pool. Without a FILE, the rules that the settings select. Exit status 2 means
that they are invalid; every error is reported with its position.`,
		Example: `  headgate rules check rules.yaml --config headgate.yaml
  headgate rules check                   the rules without a file
  headgate rules check rules.yaml --json`,
		Args: cobra.MaximumNArgs(1),
	}, env, func(_ *cobra.Command, s *cli.Service, cfg *config.Config, args []string) error {
		if len(args) > 0 && args[0] == "" { // an unset variable of a script must not pass as no FILE
			return cli.Usagef("FILE must not be empty")
		}
		return s.ShowRules(cfg, first(args))
	})
}

// newRulesTest returns the command that CI runs. Unmet expectations have an exit code that
// differs from that of an invalid file, so that CI can distinguish a failed test from an
// invalid rule.
func newRulesTest(env cli.Env) *cobra.Command {
	return configCommand(&cobra.Command{
		Use:   "test FILE...",
		Short: "Run rule tests",
		Long: `Run files of rule tests: they give input series, and the values, states and events
expected at given times. Exit status 4 means that an expectation was not met, 2 that a
file is invalid. docs/rules.md describes the format.`,
		Example: `  headgate rules test *.test.yaml
  headgate rules test queue.test.yaml --json`,
		Args: cobra.MinimumNArgs(1),
	}, env, func(cmd *cobra.Command, s *cli.Service, cfg *config.Config, args []string) error {
		return s.TestRules(cmd.Context(), cfg, args)
	})
}

// newRulesExport returns a command without --json: its output is YAML, whatever reads it.
func newRulesExport() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Export the effective rules to a file",
		Long: `Export the rules that the settings select: as a rules file to start from, or as
alerting rules for a Prometheus that scrapes headgate. In a rules file the thresholds
are those that were derived from the settings of the pools; they no longer follow
them.`,
		Example: `  headgate rules export --config headgate.yaml > rules.yaml
  headgate rules export --config headgate.yaml --format prometheus > headgate.rules.yaml`,
	}
	path := configFlag(cmd)
	cmd.Flags().StringVar(&format, "format", rules.FormatYAML, "yaml or prometheus")
	_ = cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions( // fails only for a flag that does not exist
		[]string{rules.FormatYAML, rules.FormatPrometheus}, cobra.ShellCompDirectiveNoFileComp))
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if format != rules.FormatYAML && format != rules.FormatPrometheus {
			return cli.Usagef("--format must be %s or %s", rules.FormatYAML, rules.FormatPrometheus)
		}
		cfg, err := loadSettings(*path, cmd.ErrOrStderr())
		if err != nil {
			return err
		}
		all, err := app.Rules(cfg)
		if err != nil {
			return err
		}
		return rules.Export(cmd.OutOrStdout(), all, format)
	}
	return cmd
}

// newAlerts returns the group of commands about delivery. It is a group so that the name
// says what is tested.
func newAlerts(env cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "alerts",
		Short: "Test alert delivery",
		Long:  "Test whether notifications about incidents can be delivered.",
	}
	cmd.AddCommand(configCommand(&cobra.Command{
		Use:   "test",
		Short: "Test the Slack token, its scopes and the channels",
		Long: `Test what sending needs: the Slack token, its scopes, and in each channel membership, a
post, an edit, a look-up and a deletion. If all works, nothing is left behind. Exit
status 1 means that a check failed, and the output says what to do about it. The
service need not run.`,
		Example: `  headgate alerts test --config headgate.yaml
  headgate alerts test --config headgate.yaml --json | jq '.checks[] | select(.ok | not)'`,
	}, env, func(cmd *cobra.Command, s *cli.Service, cfg *config.Config, _ []string) error {
		return s.TestAlertDelivery(cmd.Context(), cfg)
	}))
	return cmd
}
