package main

import (
	"github.com/spf13/cobra"

	"headgate/internal/cli"
	"headgate/proxy/admission"
	"headgate/runbooks/control"
	"headgate/web/api"
)

// newRollback returns the emergency command. Everything that could fail beside the change
// itself was moved out of its path: it needs no argument, no reason, no valid settings
// file, and no service that answers.
func newRollback(env cli.Env) *cobra.Command {
	return modeCommand(env, &cli.ModeChange{Mode: admission.PassThrough.String()}, &cobra.Command{
		Use:   "rollback",
		Short: "Disable admission control (pass-through)",
		Long: `Switch all pools, or one, to pass-through: from now on nothing is refused, and
running and queued tasks are not affected. It also works while the service does not
answer: then the request is queued in its database, and applied within a second, or
at the next start if no service runs.

The mode before is remembered; headgate restore goes back to it.`,
		Example: `  headgate rollback
  headgate rollback --pool big --reason "p95 climbs since the deploy"
  headgate rollback --dry-run
  headgate rollback --data-dir /var/lib/headgate      when the service is elsewhere on this machine`,
	})
}

// newRestore returns the reverse of rollback. It names no mode: the mode to return to is
// the recorded one, which a person would have to look up.
func newRestore(env cli.Env) *cobra.Command {
	m := &cli.ModeChange{Mode: api.ModeRestore}
	cmd := &cobra.Command{
		Use:   "restore",
		Short: "Re-enable admission control after a rollback",
		Long: `Go back to the mode before the rollback; from observe, to enforce. Running and
queued tasks are not affected. Tasks queued during pass-through are served, late or
not; --drop-overdue refuses those that can no longer meet their deadline, so that new
tasks are served sooner.`,
		Example: `  headgate restore
  headgate restore --dry-run                       how many are late already, and by how long
  headgate restore --pool big --drop-overdue --reason "upstream has recovered"`,
	}
	cmd.Flags().BoolVar(&m.DropOverdue, "drop-overdue", false,
		"refuse queued tasks that can no longer meet their deadline")
	return modeCommand(env, m, cmd)
}

// newObserve returns the command for the first weeks in production: it shows what the
// policy would refuse before anything is refused.
func newObserve(env cli.Env) *cobra.Command {
	return modeCommand(env, &cli.ModeChange{Mode: admission.Observe.String()}, &cobra.Command{
		Use:   "observe",
		Short: "Admit everything, and count what would be refused",
		Long: `Switch all pools, or one, to observe: the policy decides as in enforce, but what it
would refuse is counted (headgate_would_refuse_total) and admitted. Use it before
enforcing for the first time. headgate restore switches to enforce.`,
		Example: `  headgate observe
  headgate observe --pool big --reason "first week"`,
	})
}

// modeCommand adds what rollback, restore and observe have in common.
func modeCommand(env cli.Env, m *cli.ModeChange, cmd *cobra.Command) *cobra.Command {
	changeFlags(cmd, &m.Pool, &m.Reason, &m.DryRun)
	return serviceCommand(cmd, env, &m.Service, noArgs(m.Run))
}

// newPause returns the command for maintenance of an endpoint. A pause always ends by
// itself: a forgotten one would be an outage.
func newPause(env cli.Env) *cobra.Command {
	p := &cli.Pause{Action: control.ActionPause}
	cmd := &cobra.Command{
		Use:   "pause",
		Short: "Pause dispatch for maintenance",
		Long: `Dispatch no task, in all pools or in one, until headgate resume or until the time has
passed. Running tasks continue; new ones are queued, or refused as the policy decides. A
pause survives restarts.`,
		Example: `  headgate pause --pool big --for 30m --reason "new model"
  headgate pause --dry-run`,
	}
	cmd.Flags().StringVar(&p.For, "for", "30m", "how long, a `duration` such as 30m, at most 24h")
	return pauseCommand(env, p, cmd)
}

// newResume returns the command that ends a pause early.
func newResume(env cli.Env) *cobra.Command {
	return pauseCommand(env, &cli.Pause{Action: control.ActionResume}, &cobra.Command{
		Use:     "resume",
		Short:   "End a pause",
		Long:    `End the pause of all pools, or of one: dispatch resumes with the tasks that were queued first.`,
		Example: `  headgate resume --pool big`,
	})
}

// pauseCommand adds what pause and resume have in common.
func pauseCommand(env cli.Env, p *cli.Pause, cmd *cobra.Command) *cobra.Command {
	changeFlags(cmd, &p.Pool, &p.Reason, &p.DryRun)
	return serviceCommand(cmd, env, &p.Service, noArgs(p.Run))
}
