package main

import (
	"cmp"
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"headgate/web/api"
)

// drillAction is a command that stops a run, or all of them.
type drillAction struct {
	drillCmd
	reasonFlag
}

func newDrillAction(h environment, cmd *cobra.Command, give func(o *drillAction, ctx context.Context, c *api.Client, args []string, reason string) (any, string, error)) *cobra.Command {
	o := drillAction{drillCmd: drillCmd{serviceCmd{host: h}}}
	o.reasonFlag.add(cmd)
	o.drillCmd.add(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		reason, err := o.text()
		if err != nil {
			return err
		}
		if cmd.Name() == "freeze" && reason == "" {
			return usageError{fmt.Errorf("--reason must say why: others will wonder why no drill runs\nsee `%s --help`", cmd.CommandPath())}
		}
		return o.withClient(cmd, func(ctx context.Context, c *api.Client) error {
			reply, said, err := give(&o, ctx, c, args, reason)
			switch {
			case err != nil:
				return hintMaybeApplied(err)
			case o.json:
				return printJSON(cmd.OutOrStdout(), reply)
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), said)
			return err
		})
	}
	return cmd
}

func newDrillAbort(h environment) *cobra.Command {
	return newDrillAction(h, &cobra.Command{
		Use:   "abort ID",
		Short: "Stop a run: faults cleared, steps undone",
		Long: `Stop a run that goes on. Its faults are cleared within a second, what it did is
undone in reverse, and it is recorded as aborted. The beginning of an ID is enough
if no other begins like it.`,
		Example: `  headgate drill abort 01a22990
  headgate drill abort 01a22990 --reason "the network is slow today"`,
		Args: usageArgs(cobra.ExactArgs(1)),
	}, func(o *drillAction, ctx context.Context, c *api.Client, args []string, reason string) (any, string, error) {
		id, err := resolveRunID(ctx, c, args[0])
		if err != nil {
			return nil, "", err
		}
		run, err := c.Abort(ctx, id, reason)
		if err != nil {
			return nil, "", err
		}
		return run, fmt.Sprintf("%s: %s, faults cleared\nread it: headgate drill show %s%s", sanitize(run.Name), verdictOf(&run), sanitize(run.ID), o.where.shellArgs()), nil
	})
}

func newDrillFreeze(h environment) *cobra.Command {
	return newDrillAction(h, &cobra.Command{
		Use:   "freeze",
		Short: "Stop what runs, and let no drill run",
		Long: `Stop the run that goes on, and let no drill run until headgate drill unfreeze,
neither by schedule nor by hand. It outlasts restarts.`,
		Example: `  headgate drill freeze --reason "release week"`,
		Args:    usageArgs(cobra.NoArgs),
	}, func(o *drillAction, ctx context.Context, c *api.Client, _ []string, reason string) (any, string, error) {
		f, err := c.Freeze(ctx, reason)
		return f, fmt.Sprintf("drills are frozen by %s: %s\nback: headgate drill unfreeze%s", cmp.Or(sanitize(f.By), "somebody"), sanitize(f.Reason), o.where.shellArgs()), err
	})
}

func newDrillUnfreeze(h environment) *cobra.Command {
	return newDrillAction(h, &cobra.Command{
		Use:   "unfreeze",
		Short: "Let drills run again",
		Long: `Let drills run again after headgate drill freeze. What was due meanwhile is not
made up for, unless its catch-up allows it.`,
		Example: `  headgate drill unfreeze
  headgate drill unfreeze --reason "the release is out"`,
		Args: usageArgs(cobra.NoArgs),
	}, func(_ *drillAction, ctx context.Context, c *api.Client, _ []string, reason string) (any, string, error) {
		f, err := c.Unfreeze(ctx, reason)
		return f, "drills may run", err
	})
}
