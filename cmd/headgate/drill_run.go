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

func newDrillRun(h host) *cobra.Command {
	r := drillRun{drillCmd: drillCmd{incidentCmd{host: h}}}
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
	return r.ask(cmd, func(ctx context.Context, c *api.Client) error {
		reply, err := c.RunDrill(ctx, args[0], api.DrillRunRequest{Speed: r.speed, DryRun: r.dryRun, Reason: reason})
		switch {
		case err != nil:
			return begun(err)
		case reply.Run == nil:
			return r.showPlan(cmd, &reply)
		case r.wait:
			w := waiting{drillRun: r, client: c, id: *reply.Run, out: cmd.OutOrStdout(), err: cmd.ErrOrStderr()}
			return w.wait(ctx)
		case r.json:
			return printJSON(cmd.OutOrStdout(), reply)
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s begun, at most %s: run %s\nread it: headgate drill show %s%s\nstop it: headgate drill abort %s%s\n",
			inert(reply.Plan.Name), seconds(reply.Plan.TakesS), inert(*reply.Run), inert(*reply.Run), r.where.shown(), inert(*reply.Run), r.where.shown())
		return err
	})
}

// begun says what to do when it is not known whether a run has begun. Another
// order for it would be another run.
func begun(err error) error {
	if doubtful(err) != err {
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
	fmt.Fprintf(&b, "%s (%s) would run on %s", inert(p.Name), inert(p.Drill), inert(p.Target))
	if p.Pool != "" {
		fmt.Fprintf(&b, ", pool %s", inert(p.Pool))
	}
	fmt.Fprintf(&b, ", at most %s of scenario in %s at speed %g", seconds(p.ScenarioS), seconds(p.TakesS), p.Speed)
	if p.MessagesTo != "" {
		fmt.Fprintf(&b, ", messages to %s", inert(p.MessagesTo))
	}
	fmt.Fprintln(&b)
	for _, s := range p.Steps {
		fmt.Fprintf(&b, "  does      %s\n", inert(s))
	}
	for _, h := range p.Hypotheses {
		fmt.Fprintf(&b, "  must show %s\n", inert(h))
	}
	if p.Blocked != nil {
		fmt.Fprintf(&b, "it would not begin now: %s\n", inert(*p.Blocked))
	}
	fmt.Fprintln(&b, "nothing was begun")
	_, err := cmd.OutOrStdout().Write(b.Bytes())
	return err
}

// notPassed is the error of a run that was waited for, nil if it passed.
func notPassed(r *api.DrillRun) error {
	if r.Verdict != nil && *r.Verdict == string(drill.Passed) {
		return nil
	}
	return unmetError{fmt.Errorf("the drill %s ended %s: %s", inert(r.Name), verdictOf(r), inert(r.Reason))}
}

const (
	lookEvery    = 250 * time.Millisecond
	lookPatience = 15 * time.Second // with a service that does not answer
)
