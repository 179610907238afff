package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"headgate/engine"
	"headgate/engine/rules"
	"headgate/internal/app"
	"headgate/internal/config"
)

func newRules() *cobra.Command {
	cmd := newGroup("rules", "Check, test and export the rules that are watched",
		"Check a file of rules, run tests of rules, and write the rules that are watched. The\nservice need not run.")
	cmd.AddCommand(newRulesCheck(), newRulesTest(), newRulesExport())
	return cmd
}

func newRulesCheck() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "check [FILE]",
		Short: "Check a file of rules, and list them for each pool",
		Long: `Check a file of rules as serve does, and list what it comes to: one line for each
rule and pool. Without a FILE, the rules that the settings lead to. Exit status 2
means that they are not right; every mistake is said with its place.`,
		Example: `  headgate rules check rules.yaml --config headgate.yaml
  headgate rules check                   what is watched without a file
  headgate rules check rules.yaml --json`,
		Args: usageArgs(cobra.MaximumNArgs(1)),
	}
	path := configFlag(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		cfg, err := loadSettings(*path, cmd.ErrOrStderr())
		if err != nil {
			return err
		}
		file := ""
		if len(args) > 0 {
			if file = args[0]; file == "" {
				return usageError{fmt.Errorf("FILE must not be empty")}
			}
		}
		all, err := loadRules(cfg, file)
		if err != nil {
			return usageError{err}
		}
		if asJSON {
			return printJSON(cmd.OutOrStdout(), map[string]any{"rules": all})
		}
		return ruleTable(cmd.OutOrStdout(), all)
	}
	return cmd
}

func newRulesExport() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Write the rules that are watched as a file",
		Long: `Write the rules that the settings lead to: as a file of rules to start from, or as
a file of alerts for a Prometheus that scrapes headgate. In a file of rules the
thresholds are the ones that were derived from the pools' settings; they no longer
follow them.`,
		Example: `  headgate rules export --config headgate.yaml > rules.yaml
  headgate rules export --config headgate.yaml --format prometheus > headgate.rules.yaml`,
		Args: usageArgs(cobra.NoArgs),
	}
	path := configFlag(cmd)
	cmd.Flags().StringVar(&format, "format", rules.FormatYAML, "yaml or prometheus")
	_ = cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions( // fails only for a flag that is not there
		[]string{rules.FormatYAML, rules.FormatPrometheus}, cobra.ShellCompDirectiveNoFileComp))
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if format != rules.FormatYAML && format != rules.FormatPrometheus {
			return usageError{fmt.Errorf("--format must be %s or %s", rules.FormatYAML, rules.FormatPrometheus)}
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

// loadRules returns the rules of a file, made for the pools of the settings; without a file those that a service with
// these settings evaluates.
func loadRules(cfg *config.Config, file string) ([]engine.Rule, error) {
	if file == "" {
		return app.Rules(cfg)
	}
	return rules.Load(file, app.RuleSettings(cfg))
}

func ruleTable(w io.Writer, all []engine.Rule) error {
	rows := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(rows, "RULE\tPOOL\tWARN AT\tPAGE AT\tCLEAR BELOW\tRUNBOOK\tACTION")
	for _, r := range all {
		fmt.Fprintf(rows, "%s\t%s\t%s\t%s\t%s for %s\t%s\t%s\n", sanitize(r.Name), orDash(r.Pool), limitText(r.Warn, r.Unit), limitText(r.Page, r.Unit),
			formatValue(&r.Clear.Below, r.Unit), formatSeconds(r.Clear.For.Seconds()), orDash(r.Runbook), orDash(r.Action))
	}
	return rows.Flush()
}

func limitText(t engine.Threshold, unit string) string {
	if !t.Set {
		return "-"
	}
	return fmt.Sprintf("%s for %s", formatValue(&t.At, unit), formatSeconds(t.For.Seconds()))
}
