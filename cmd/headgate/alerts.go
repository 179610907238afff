package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"headgate/internal/app"
	"headgate/internal/config"
)

// alertsTimeout bounds the test of everything that is sent to.
const alertsTimeout = time.Minute

func newAlerts(h environment) *cobra.Command {
	cmd := newGroup("alerts", "Try whether messages would arrive", "Try whether messages about incidents would arrive.")
	cmd.AddCommand(newAlertsTest(h))
	return cmd
}

func newAlertsTest(h environment) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "test",
		Short: "Try the Slack token, its scopes and the channels",
		Long: `Try what sending needs: the Slack token, its scopes, and in each channel
membership, a post, an edit, a look-up and a deletion. Nothing is left behind if
all works. Exit status 1 means that something did not, and the output says what to
do about it. The service need not run.`,
		Example: `  headgate alerts test --config headgate.yaml
  headgate alerts test --config headgate.yaml --json | jq '.checks[] | select(.ok | not)'`,
		Args: usageArgs(cobra.NoArgs),
	}
	path := configFlag(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := loadSettings(*path, cmd.ErrOrStderr())
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), alertsTimeout)
		defer cancel()
		checks, err := h.testAlerts(ctx, cfg)
		if errors.Is(err, app.ErrNoBotToken) {
			return usageError{err}
		}
		if err != nil {
			return err
		}
		return reportChecks(cmd.OutOrStdout(), checks, asJSON, colorizerFor(h, cmd.OutOrStdout()))
	}
	return cmd
}

// verifyAlerts tries for real.
func verifyAlerts(ctx context.Context, cfg *config.Config) ([]alertCheck, error) {
	tried, err := app.TestAlerts(ctx, cfg)
	var checks []alertCheck
	for _, c := range tried {
		checks = append(checks, alertCheck{Name: c.Name, OK: c.OK, Detail: c.Detail, Hint: c.Hint})
	}
	return checks, err
}

// alertCheck is one thing that was tried.
type alertCheck struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"` // what was found
	Hint   string `json:"hint"`   // what to do about it, empty if there is nothing
}

func reportChecks(w io.Writer, checks []alertCheck, asJSON bool, p colorizer) error {
	failed := 0
	for _, c := range checks {
		if !c.OK {
			failed++
		}
	}
	write := func() error { return printChecks(w, checks, p) }
	if asJSON {
		write = func() error {
			return printJSON(w, map[string]any{"passed": failed == 0, "checks": append([]alertCheck{}, checks...)})
		}
	}
	if err := write(); err != nil {
		return err
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d checks failed: messages would not arrive as they should", failed, len(checks))
	}
	return nil
}

func printChecks(w io.Writer, checks []alertCheck, p colorizer) error {
	var b bytes.Buffer
	rows := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, c := range checks {
		verdict := "ok"
		if !c.OK {
			verdict = "FAILED"
		}
		fmt.Fprintf(rows, "%s\t%s\t%s\n", verdict, sanitize(c.Name), sanitize(c.Detail))
		if c.Hint != "" && !c.OK {
			fmt.Fprintf(rows, "\t\t→ %s\n", sanitize(c.Hint))
		}
	}
	if err := rows.Flush(); err != nil {
		return err
	}
	for line := range strings.Lines(b.String()) {
		if line = strings.TrimRight(line, " \n"); strings.HasPrefix(line, "FAILED") {
			line = p.highlight(red, line)
		}
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	return nil
}
