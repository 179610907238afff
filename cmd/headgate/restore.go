package main

import (
	"github.com/spf13/cobra"

	"headgate/web/api"
)

func newRestore(h environment) *cobra.Command {
	o := modeCmd{host: h, mode: api.ModeRestore}
	cmd := &cobra.Command{
		Use:   "restore",
		Short: "Undo a rollback: back to the mode before it",
		Long: `Go back to the mode that was in force before the rollback; from observe, to
enforce. Nothing that runs or waits is touched. Who waits since the pass-through
is served, late or not; --drop-overdue refuses those that can no longer end in
time, so that new tasks get through sooner.`,
		Example: `  headgate restore
  headgate restore --dry-run                       how many are late already, and for how long
  headgate restore --pool big --drop-overdue --reason "upstream is well again"`,
		Args: usageArgs(cobra.NoArgs),
		RunE: o.run,
	}
	o.addFlags(cmd)
	cmd.Flags().BoolVar(&o.dropOverdue, "drop-overdue", false, "refuse waiting tasks that can no longer end in time")
	return cmd
}
