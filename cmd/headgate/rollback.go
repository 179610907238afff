package main

import (
	"github.com/spf13/cobra"

	"headgate/proxy/admission"
)

func newRollback(h environment) *cobra.Command {
	o := modeCmd{host: h, mode: admission.PassThrough.String()}
	cmd := &cobra.Command{
		Use:   "rollback",
		Short: "Stop refusing: switch to pass-through, in one move",
		Long: `Switch all pools, or one, to pass-through: from now on nothing is refused, and
nothing that runs or waits is touched. It works while the service does not answer
too: then the order is left in its database, and taken within a second, or at the
next start if nothing runs.

What was in force before is remembered; headgate restore goes back to it.`,
		Example: `  headgate rollback
  headgate rollback --pool big --reason "p95 climbs since the deploy"
  headgate rollback --dry-run
  headgate rollback --data-dir /var/lib/headgate      when the service is elsewhere on this machine`,
		Args: usageArgs(cobra.NoArgs),
		RunE: o.run,
	}
	o.addFlags(cmd)
	return cmd
}
