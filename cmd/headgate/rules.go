package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

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
		lines, err := ruleLines(cfg, file)
		if err != nil {
			return usageError{err}
		}
		if asJSON {
			return printJSON(cmd.OutOrStdout(), map[string]any{"rules": lines})
		}
		return ruleTable(cmd.OutOrStdout(), lines)
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
	cmd.Flags().StringVar(&format, "format", app.FormatYAML, "yaml or prometheus")
	_ = cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions( // fails only for a flag that is not there
		[]string{app.FormatYAML, app.FormatPrometheus}, cobra.ShellCompDirectiveNoFileComp))
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if format != app.FormatYAML && format != app.FormatPrometheus {
			return usageError{fmt.Errorf("--format must be %s or %s", app.FormatYAML, app.FormatPrometheus)}
		}
		cfg, err := loadSettings(*path, cmd.ErrOrStderr())
		if err != nil {
			return err
		}
		return app.ExportRules(cmd.OutOrStdout(), cfg, format)
	}
	return cmd
}

// ruleLine is a rule in a pool, as people and programs see it.
type ruleLine struct {
	Name      string     `json:"name"`
	Pool      string     `json:"pool"` // empty: the whole process
	Unit      string     `json:"unit"`
	Warn      *ruleLimit `json:"warn"` // null: there is no such level
	Page      *ruleLimit `json:"page"`
	Clear     ruleClear  `json:"clear"`
	MinEvents float64    `json:"min_events"`
	Slow      bool       `json:"slow"` // evaluated every 30 s
	Signal    string     `json:"signal"`
	Summary   string     `json:"summary"`
	Runbook   string     `json:"runbook"`
	Action    string     `json:"action"`
}

type ruleLimit struct {
	At   float64 `json:"at"`
	ForS float64 `json:"for_s"`
}

type ruleClear struct {
	Below float64 `json:"below"`
	ForS  float64 `json:"for_s"`
}

func ruleLines(cfg *config.Config, file string) ([]ruleLine, error) {
	all, err := app.LoadRules(cfg, file)
	if err != nil {
		return nil, err
	}
	lines := []ruleLine{}
	for _, r := range all {
		l := ruleLine{
			Name: r.Name, Pool: r.Pool, Unit: r.Unit, Clear: ruleClear{r.Clear.Below, r.Clear.For.Seconds()},
			MinEvents: r.MinEvents, Slow: r.Slow, Signal: r.Signal, Summary: r.Summary, Runbook: r.Runbook, Action: r.Action,
		}
		if r.Warn.Set {
			l.Warn = &ruleLimit{r.Warn.At, r.Warn.For.Seconds()}
		}
		if r.Page.Set {
			l.Page = &ruleLimit{r.Page.At, r.Page.For.Seconds()}
		}
		lines = append(lines, l)
	}
	return lines, nil
}

func ruleTable(w io.Writer, lines []ruleLine) error {
	rows := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(rows, "RULE\tPOOL\tWARN AT\tPAGE AT\tCLEAR BELOW\tRUNBOOK\tACTION")
	for _, l := range lines {
		fmt.Fprintf(rows, "%s\t%s\t%s\t%s\t%s for %s\t%s\t%s\n", sanitize(l.Name), orDash(l.Pool), limitText(l.Warn, l.Unit), limitText(l.Page, l.Unit),
			formatValue(&l.Clear.Below, l.Unit), formatSeconds(l.Clear.ForS), orDash(l.Runbook), orDash(l.Action))
	}
	return rows.Flush()
}

func limitText(l *ruleLimit, unit string) string {
	if l == nil {
		return "-"
	}
	return fmt.Sprintf("%s for %s", formatValue(&l.At, unit), formatSeconds(l.ForS))
}
