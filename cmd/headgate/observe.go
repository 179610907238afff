package main

import (
	"github.com/spf13/cobra"

	"headgate/proxy/admission"
)

func newObserve(h environment) *cobra.Command {
	o := modeCmd{host: h, mode: admission.Observe.String()}
	cmd := &cobra.Command{
		Use:   "observe",
		Short: "Only count what would be refused",
		Long: `Switch all pools, or one, to observe: the policy is asked, and what it would
refuse is counted (headgate_would_refuse_total) and let in. It is for a careful
introduction. headgate restore goes on to enforce.`,
		Example: `  headgate observe
  headgate observe --pool big --reason "first week"`,
		Args: usageArgs(cobra.NoArgs),
		RunE: o.run,
	}
	o.addFlags(cmd)
	return cmd
}
