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

func newDrill(h host) *cobra.Command {
	cmd := parentOf("drill", "Rehearse trouble, and read what came of it",
		"Run drills: a scenario under injected faults, hypotheses about what headgate will\ndo, and a verdict with its evidence. Drills run in the service, by schedule or when\nordered here; a twin shares nothing with production.")
	cmd.AddCommand(newDrillList(h), newDrillRun(h), newDrillShow(h), newDrillAbort(h), newDrillFreeze(h), newDrillUnfreeze(h), newDrillHistory(h), newDrillSpec(), newDrillCheck())
	return cmd
}

// drillCmd is what the commands about drills have in common.
type drillCmd struct{ incidentCmd }

// ask calls f with a client of a service that is alive: only a service has drills.
func (c *drillCmd) ask(cmd *cobra.Command, f func(context.Context, *api.Client) error) error {
	err := c.nobody(cmd.Context())
	if err == nil {
		err = c.incidentCmd.ask(cmd, f)
	}
	var unreachable unreachableError
	if errors.As(err, &unreachable) {
		return fmt.Errorf("%w\ndrills run in the service, which is started with: headgate serve%s", err, configShown(c.where.config))
	}
	return err
}

// nobody returns an error if nothing answers there. Whether there is a token is
// asked after that: where no service has ever run there is none, and to look for
// it would be of no use.
func (c *drillCmd) nobody(ctx context.Context) error {
	p, err := c.where.find(c.host, io.Discard)
	if err != nil {
		return nil // the next one to look says so
	}
	client, err := api.NewClient(api.ClientConfig{URL: p.url})
	if err != nil {
		return nil
	}
	defer client.Close()
	return reached(client.Alive(ctx))
}

func configShown(file string) string {
	if file == "" {
		return ""
	}
	return " --config " + shellWord(file)
}

// runID completes the beginning of the ID of a run.
func runID(ctx context.Context, c runReader, given string) (string, error) {
	return complete("run", given, func() (ids []string, err error) {
		all, _, err := runsOf(ctx, c, drill.Query{})
		for i := range all {
			ids = append(ids, all[i].ID)
		}
		return ids, err
	})
}

// runsOf reads all pages that a query leads to.
func runsOf(ctx context.Context, c runReader, q drill.Query) ([]api.DrillRun, string, error) {
	q.Limit = api.MaxPage
	return pages(func(after string) ([]api.DrillRun, string, error) {
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
	return inert(strings.Join(strings.Fields(r.reason), " ")), nil
}

// completeDrills completes the argument of a command with the IDs of drills.
func completeDrills(cmd *cobra.Command, h host, where *placeFlags) {
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return drillIDs(cmd.Context(), h, where), cobra.ShellCompDirectiveNoFileComp
	}
}

func drillIDs(ctx context.Context, h host, where *placeFlags) (ids []string) {
	where.brief(ctx, h, func(ctx context.Context, c *api.Client) error {
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
		return inert(r.Status)
	}
	return inert(*r.Verdict)
}

// colouredVerdict makes what did not pass stand out.
func colouredVerdict(p paint, verdict, line string) string {
	switch drill.Verdict(verdict) {
	case drill.Failed, drill.Interrupted:
		return p.loud(red, line)
	case drill.Aborted, drill.Inconclusive, drill.Missed:
		return p.loud(yellow, line)
	default:
		return line
	}
}

// hypothesisText says a hypothesis in a few words: p95_turnaround 41s of 60s.
func hypothesisText(h *api.DrillHypothesis) string {
	if h == nil {
		return "-"
	}
	return fmt.Sprintf("%s %s of %s", inert(h.Name), drillAmount(h.Value, h.Unit), drillAmount(&h.Limit, h.Unit))
}

// drillAmount is amount for what drills measure.
func drillAmount(v *float64, unit string) string {
	if v == nil {
		return "?"
	}
	if unit == drill.UnitSeconds && *v < 0 {
		return "-" + seconds(-*v)
	}
	return amount(v, unit)
}
