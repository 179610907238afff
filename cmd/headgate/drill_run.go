package main

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"headgate/runbooks/drill"
	"headgate/web/api"
)

func newDrillRun(h environment) *cobra.Command {
	r := drillRun{drillCmd: drillCmd{serviceCmd{host: h}}}
	cmd := &cobra.Command{
		Use:   "run NAME",
		Short: "Run a drill now",
		Long: `Run a drill now, by its name or ID. The run goes on in the service, whoever
watches; with --wait this command shows how it goes and ends with 4 unless it
passes. Ctrl-C leaves the run alone: headgate drill abort stops it.`,
		Example: `  headgate drill run burst --dry-run
  headgate drill run burst --speed 20 --wait
  headgate drill run rollback --wait --json | jq .hypotheses`,
		Args: usageArgs(cobra.ExactArgs(1)),
		RunE: r.run,
	}
	f := cmd.Flags()
	f.BoolVar(&r.wait, "wait", false, "wait until the run has ended")
	f.Float64Var(&r.speed, "speed", 0, "scenario seconds in a second, 1 to 100 (default: as the drill has it)")
	f.BoolVar(&r.dryRun, "dry-run", false, "say what the run would do, and begin nothing")
	r.reasonFlag.add(cmd)
	r.drillCmd.add(cmd)
	completeDrills(cmd, h, &r.where)
	return cmd
}

type drillRun struct {
	drillCmd
	reasonFlag
	wait, dryRun bool
	speed        float64
}

func (r *drillRun) run(cmd *cobra.Command, args []string) error {
	reason, err := r.text()
	if err != nil {
		return err
	}
	if err := api.CheckDrill(args[0]); err != nil {
		return usageError{err}
	}
	if cmd.Flags().Changed("speed") && !(r.speed >= 1 && r.speed <= api.MaxSpeed) {
		return usageError{fmt.Errorf("--speed must be from 1 to %d", api.MaxSpeed)}
	}
	return r.withClient(cmd, func(ctx context.Context, c *api.Client) error {
		reply, err := c.RunDrill(ctx, args[0], api.DrillRunRequest{Speed: r.speed, DryRun: r.dryRun, Reason: reason})
		switch {
		case err != nil:
			return hintMaybeStarted(err)
		case reply.Run == nil:
			return r.showPlan(cmd, &reply)
		case r.wait:
			w := runWaiter{drillRun: r, client: c, id: *reply.Run, out: cmd.OutOrStdout(), err: cmd.ErrOrStderr()}
			return w.wait(ctx)
		case r.json:
			return printJSON(cmd.OutOrStdout(), reply)
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s begun, at most %s: run %s\nread it: headgate drill show %s%s\nstop it: headgate drill abort %s%s\n",
			sanitize(reply.Plan.Name), formatSeconds(reply.Plan.WallTimeS), sanitize(*reply.Run), sanitize(*reply.Run), r.where.shellArgs(), sanitize(*reply.Run), r.where.shellArgs())
		return err
	})
}

// hintMaybeStarted says what to do when it is not known whether a run has begun. Another
// order for it would be another run.
func hintMaybeStarted(err error) error {
	if hintMaybeApplied(err) != err {
		return fmt.Errorf("%w\nit may have begun all the same: headgate drill history --since 5m shows it", err)
	}
	return err
}

func (r *drillRun) showPlan(cmd *cobra.Command, reply *api.DrillRunReply) error {
	if r.json {
		return printJSON(cmd.OutOrStdout(), reply)
	}
	p := &reply.Plan
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s (%s) would run on %s", sanitize(p.Name), sanitize(p.Drill), sanitize(p.Target))
	if p.Pool != "" {
		fmt.Fprintf(&b, ", pool %s", sanitize(p.Pool))
	}
	fmt.Fprintf(&b, ", at most %s of scenario in %s at speed %g", formatSeconds(p.ScenarioS), formatSeconds(p.WallTimeS), p.Speed)
	if p.NotificationTarget != "" {
		fmt.Fprintf(&b, ", messages to %s", sanitize(p.NotificationTarget))
	}
	fmt.Fprintln(&b)
	for _, s := range p.Steps {
		fmt.Fprintf(&b, "  does      %s\n", sanitize(s))
	}
	for _, h := range p.Hypotheses {
		fmt.Fprintf(&b, "  must show %s\n", sanitize(h))
	}
	if p.Blocked != nil {
		fmt.Fprintf(&b, "it would not begin now: %s\n", sanitize(*p.Blocked))
	}
	fmt.Fprintln(&b, "nothing was begun")
	_, err := cmd.OutOrStdout().Write(b.Bytes())
	return err
}

// verdictError is the error of a run that was waited for, nil if it passed.
func verdictError(r *api.DrillRun) error {
	if r.Verdict != nil && *r.Verdict == string(drill.Passed) {
		return nil
	}
	return unexpectedResultError{fmt.Errorf("the drill %s ended %s: %s", sanitize(r.Name), verdictOf(r), sanitize(r.Reason))}
}

const (
	pollInterval        = 250 * time.Millisecond
	unreachablePatience = 15 * time.Second // with a service that does not answer
)
