package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"headgate/runbooks/drill"
	"headgate/web/api"
)

func newDrill(h environment) *cobra.Command {
	cmd := newGroup("drill", "Rehearse trouble, and read what came of it",
		"Run drills: a scenario under injected faults, hypotheses about what headgate will\ndo, and a verdict with its evidence. Drills run in the service, by schedule or when\nordered here; a twin shares nothing with production.")
	cmd.AddCommand(newDrillList(h), newDrillRun(h), newDrillShow(h), newDrillAbort(h), newDrillFreeze(h), newDrillUnfreeze(h), newDrillHistory(h), newDrillSpec(), newDrillCheck())
	return cmd
}

// drillCmd is what the commands about drills have in common.
type drillCmd struct{ serviceCmd }

// withClient calls f with a client of a service that is alive: only a service has drills.
func (c *drillCmd) withClient(cmd *cobra.Command, f func(context.Context, *api.Client) error) error {
	err := c.checkReachable(cmd.Context())
	if err == nil {
		err = c.serviceCmd.withClient(cmd, f)
	}
	var unreachable unreachableError
	if errors.As(err, &unreachable) {
		return fmt.Errorf("%w\ndrills run in the service, which is started with: headgate serve%s", err, configArg(c.where.config))
	}
	return err
}

// checkReachable returns an error if nothing answers there. Whether there is a token is
// asked after that: where no service has ever run there is none, and to look for
// it would be of no use.
func (c *drillCmd) checkReachable(ctx context.Context) error {
	p, err := c.where.resolve(c.host, io.Discard)
	if err != nil {
		return nil // the next one to look says so
	}
	client, err := api.NewClient(api.ClientConfig{URL: p.url})
	if err != nil {
		return nil
	}
	defer client.Close()
	return asUnreachable(client.Ping(ctx))
}

func configArg(file string) string {
	if file == "" {
		return ""
	}
	return " --config " + shellQuote(file)
}

// resolveRunID completes the beginning of the ID of a run.
func resolveRunID(ctx context.Context, c runReader, given string) (string, error) {
	return resolveID("run", given, func() (ids []string, err error) {
		all, _, err := allRuns(ctx, c, drill.Query{})
		for i := range all {
			ids = append(ids, all[i].ID)
		}
		return ids, err
	})
}

// allRuns reads all pages that a query leads to.
func allRuns(ctx context.Context, c runReader, q drill.Query) ([]api.DrillRun, string, error) {
	q.Limit = api.MaxPage
	return readPages(func(after string) ([]api.DrillRun, string, error) {
		q.After = after
		list, err := c.Runs(ctx, q)
		return list.Items, list.Next, err
	})
}

// reasonFlag is a reason for the record.
type reasonFlag struct{ reason string }

func (r *reasonFlag) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&r.reason, "reason", "", "`why`, for the record")
}

// text returns the reason on one line.
func (r *reasonFlag) text() (string, error) {
	if n := utf8.RuneCountInString(r.reason); n > api.MaxReason {
		return "", usageError{fmt.Errorf("--reason: at most %d characters, has %d", api.MaxReason, n)}
	}
	return sanitize(strings.Join(strings.Fields(r.reason), " ")), nil
}

// completeDrills completes the argument of a command with the IDs of drills.
func completeDrills(cmd *cobra.Command, h environment, where *endpointFlags) {
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return drillIDs(cmd.Context(), h, where), cobra.ShellCompDirectiveNoFileComp
	}
}

func drillIDs(ctx context.Context, h environment, where *endpointFlags) (ids []string) {
	where.askForCompletion(ctx, h, func(ctx context.Context, c *api.Client) error {
		list, err := c.Drills(ctx)
		for i := range list.Items {
			ids = append(ids, list.Items[i].ID)
		}
		return err
	})
	return ids
}

// verdictOf says how a run stands.
func verdictOf(r *api.DrillRun) string {
	if r.Verdict == nil {
		return sanitize(r.Status)
	}
	return sanitize(*r.Verdict)
}

// highlightVerdict makes what did not pass stand out.
func highlightVerdict(p colorizer, verdict, line string) string {
	switch drill.Verdict(verdict) {
	case drill.Failed, drill.Interrupted:
		return p.highlight(red, line)
	case drill.Aborted, drill.Inconclusive, drill.Missed:
		return p.highlight(yellow, line)
	default:
		return line
	}
}

// hypothesisText says a hypothesis in a few words: p95_turnaround 41s of 60s.
func hypothesisText(h *api.DrillHypothesis) string {
	if h == nil {
		return "-"
	}
	return fmt.Sprintf("%s %s of %s", sanitize(h.Name), formatMeasure(h.Value, h.Unit), formatMeasure(&h.Limit, h.Unit))
}

// formatMeasure is amount for what drills measure.
func formatMeasure(v *float64, unit string) string {
	if v == nil {
		return "?"
	}
	if unit == drill.UnitSeconds && *v < 0 {
		return "-" + formatSeconds(-*v)
	}
	return formatValue(v, unit)
}
