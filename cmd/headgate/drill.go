package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"headgate/internal/cli"
	"headgate/internal/modelstub"
	"headgate/runbooks/drill/spec"
)

// newDrill returns the group of commands about drills. All of them ask the service, apart
// from spec and check, which work on files.
func newDrill(env cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "drill",
		Short: "Run fault-injection drills and read their results",
		Long: `Run drills: a load scenario with injected faults, hypotheses about how headgate
behaves, and a verdict with its evidence. Drills run in the service, by schedule or
started here; a twin shares nothing with production.`,
	}
	cmd.AddCommand(newDrillList(env), newDrillRun(env), newDrillShow(env), newDrillAbort(env), newDrillFreeze(env),
		newDrillUnfreeze(env), newDrillHistory(env), newDrillSpec(), newDrillCheck())
	return cmd
}

func newDrillList(env cli.Env) *cobra.Command {
	var d cli.Drills
	return serviceCommand(&cobra.Command{
		Use:   "list",
		Short: "List drills, their next five runs and last verdicts",
		Long: `List the drills from the settings and the built-in ones: their target, when they are
due, and their last verdict. Due times are shown in the zone of the schedule and in
UTC, with a note where clocks go forward or back.`,
		Example: `  headgate drill list
  headgate drill list --json | jq '.items[].next_runs'`,
	}, env, &d.Service, noArgs(d.Run))
}

// newDrillRun returns the command that starts a run. The run belongs to the service and not
// to this process: closing a laptop must not leave faults without an owner.
func newDrillRun(env cli.Env) *cobra.Command {
	var d cli.RunDrill
	var speed float64
	cmd := &cobra.Command{
		Use:   "run NAME",
		Short: "Run a drill now",
		Long: `Run a drill now, by its name or ID. It runs in the service; with --wait this command
shows its progress and exits with 4 unless it passes. Ctrl-C ends the waiting, not the
run: headgate drill abort stops it.`,
		Example: `  headgate drill run burst --dry-run
  headgate drill run burst --speed 20 --wait
  headgate drill run rollback --wait --json | jq .hypotheses`,
		Args: cobra.ExactArgs(1),
	}
	f := cmd.Flags()
	f.BoolVar(&d.Wait, "wait", false, "wait until the run has ended")
	f.Float64Var(&speed, "speed", 0, "scenario seconds per second, 1 to 100 (default: as the drill has it)")
	f.BoolVar(&d.DryRun, "dry-run", false, "show what the run would do, and start nothing")
	reasonFlag(cmd, &d.Reason)
	cmd.ValidArgsFunction = completeArg(&d.Service, drillIDs)
	return serviceCommand(cmd, env, &d.Service, func(ctx context.Context, args []string) error {
		if f.Changed("speed") { // 0 is refused; a speed that was not given is that of the drill
			d.Speed = &speed
		}
		return d.Run(ctx, args[0])
	})
}

func newDrillShow(env cli.Env) *cobra.Command {
	var s cli.ShowDrillRun
	return serviceCommand(&cobra.Command{
		Use:   "show ID",
		Short: "Show a run: verdict, hypotheses, phases",
		Long: `Show one run of a drill: its verdict and why, each hypothesis with value, limit,
margin and evidence, its phases, its notifications, and what was rolled back. The
beginning of an ID is enough if it is unique. If the service does not answer, the run
is read from its database.`,
		Example: `  headgate drill show 01a22990
  headgate drill show 01a22990-4f00-7a3e-8d51-6c2b9a4e11aa --json | jq .series`,
		Args: cobra.ExactArgs(1),
	}, env, &s.Service, oneArg(s.Run))
}

// newDrillHistory returns the command whose CSV is the evidence for audits of resilience:
// it therefore lists skipped and missed runs, too.
func newDrillHistory(env cli.Env) *cobra.Command {
	var h cli.DrillHistory
	cmd := &cobra.Command{
		Use:   "history",
		Short: "List runs of drills, newest first",
		Long: `List runs of drills, newest first: verdict, trigger, duration, and the hypothesis that
was closest to its limit. Skipped and missed runs are included. If the service does
not answer, they are read from its database.`,
		Example: `  headgate drill history
  headgate drill history --drill burst --verdict failed,inconclusive --since 90d
  headgate drill history --since 365d --csv > drills.csv`,
	}
	f := cmd.Flags()
	f.StringVar(&h.Drill, "drill", "", "only this `drill`, by ID or by its present or a former name")
	f.StringVar(&h.Verdict, "verdict", "", "only these `verdicts`, separated by commas: "+
		"passed, failed, aborted, inconclusive, skipped, interrupted, missed")
	f.StringVar(&h.Trigger, "trigger", "", "only these `triggers`, separated by commas: schedule, catch_up, manual")
	sinceFlag(cmd, &h.Since, "30d")
	f.StringVar(&h.Until, "until", "", "end of the period: a `duration` ago, or a time")
	f.BoolVar(&h.CSV, "csv", false, "print CSV")
	completeFlag(cmd, "drill", &h.Service, drillIDs)
	return serviceCommand(cmd, env, &h.Service, noArgs(h.Run))
}

func newDrillAbort(env cli.Env) *cobra.Command {
	var s cli.StopDrills
	cmd := &cobra.Command{
		Use:   "abort ID",
		Short: "Abort the running drill and undo its faults and steps",
		Long: `Abort a run. Its faults are cleared within a second, its steps are undone in
reverse order, and it is recorded as aborted. The beginning of an ID is enough if it
is unique.`,
		Example: `  headgate drill abort 01a22990
  headgate drill abort 01a22990 --reason "the network is slow today"`,
		Args: cobra.ExactArgs(1),
	}
	reasonFlag(cmd, &s.Reason)
	return serviceCommand(cmd, env, &s.Service, oneArg(s.Abort))
}

// newDrillFreeze returns the command that stops all drills. A reason is required, because a
// freeze lasts until a person lifts it.
func newDrillFreeze(env cli.Env) *cobra.Command {
	var s cli.StopDrills
	cmd := &cobra.Command{
		Use:   "freeze",
		Short: "Freeze drills and abort the running one",
		Long: `Abort the running drill, and start none until headgate drill unfreeze, neither by
schedule nor by hand. A freeze survives restarts.`,
		Example: `  headgate drill freeze --reason "release week"`,
	}
	reasonFlag(cmd, &s.Reason)
	return serviceCommand(cmd, env, &s.Service, noArgs(s.Freeze))
}

func newDrillUnfreeze(env cli.Env) *cobra.Command {
	var s cli.StopDrills
	cmd := &cobra.Command{
		Use:   "unfreeze",
		Short: "Allow drills again",
		Long: `Allow drills again after headgate drill freeze. Runs that were due meanwhile are not
repeated unless their catch-up allows it.`,
		Example: `  headgate drill unfreeze
  headgate drill unfreeze --reason "the release is out"`,
	}
	reasonFlag(cmd, &s.Reason)
	return serviceCommand(cmd, env, &s.Service, noArgs(s.Unfreeze))
}

// newDrillSpec returns a command without flags: the built-in drills are part of the program,
// so that neither settings nor a service matter.
func newDrillSpec() *cobra.Command {
	return &cobra.Command{
		Use:   "spec NAME",
		Short: "Print the definition of a built-in drill as a template",
		Long: `Print the definition of a built-in drill: a file that the settings may list under
drills. A file with the same id replaces the built-in drill. The service need not
run.`,
		Example: "  headgate drill spec burst > weekly.yaml",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, ok := spec.BuiltInText(args[0])
			if !ok {
				return cli.Usagef("no built-in drill %.60q: there are %s", args[0], builtInNames())
			}
			_, err := cmd.OutOrStdout().Write(text)
			return err
		},
	}
}

// builtInNames lists what drill spec accepts.
func builtInNames() string {
	all, err := spec.BuiltIn()
	if err != nil {
		return "none: " + err.Error()
	}
	var names []string
	for _, s := range all {
		names = append(names, s.ID)
	}
	return strings.Join(names, ", ")
}

// newDrillCheck returns a command for editors and CI. It allows drills on production, since
// only the settings of a service can say whether those are allowed.
func newDrillCheck() *cobra.Command {
	return &cobra.Command{
		Use:   "check FILE",
		Short: "Validate a drill definition and show what a run would do",
		Long: `Validate a file that holds the definition of a drill, and show what a run would do.
Nothing is opened or changed, and the service need not run. Exit status 2 means that
the file is invalid; every error is reported with its position. Whether its pool
exists, and whether it may touch production, depends on the settings: headgate check
reports that.`,
		Example: "  headgate drill check weekly.yaml",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			loaded, err := spec.Load(args[0], spec.Settings{AllowLive: true, Service: func(text string) error {
				_, err := modelstub.ParseService(text)
				return err
			}})
			if err != nil {
				return cli.Usage(err)
			}
			out := cmd.OutOrStdout()
			for _, line := range spec.Outline(loaded) {
				fmt.Fprintln(out, line)
			}
			for _, e := range loaded.Expect {
				fmt.Fprintf(out, "expect: %s\n", e)
			}
			for _, e := range loaded.AbortIf {
				fmt.Fprintf(out, "abort if: %s\n", e)
			}
			return nil
		},
	}
}
