package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"headgate/web/api"
)

// completionTimeout bounds the question for pool names: somebody waits at the
// prompt.
const completionTimeout = 500 * time.Millisecond

func newCompletion() *cobra.Command {
	return &cobra.Command{
		Use:       "completion SHELL",
		Short:     "Print a script that completes commands in a shell",
		Long:      "Print a script that completes commands, flags and names of pools and drills: for bash, zsh, fish or powershell.",
		Example:   "  source <(headgate completion bash)\n  headgate completion fish > ~/.config/fish/completions/headgate.fish",
		ValidArgs: []string{"bash", "zsh", "fish", "powershell"},
		Args:      usageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			root, w := cmd.Root(), cmd.OutOrStdout()
			switch args[0] {
			case "bash":
				return root.GenBashCompletionV2(w, true)
			case "zsh":
				return root.GenZshCompletion(w)
			case "fish":
				return root.GenFishCompletion(w, true)
			case "powershell":
				return root.GenPowerShellCompletionWithDesc(w)
			default:
				return usageError{fmt.Errorf("unknown shell %q: must be bash, zsh, fish or powershell", args[0])}
			}
		},
	}
}

// disableFileCompletion keeps a shell from proposing files, which it does for every
// argument, to commands that take none.
func disableFileCompletion(cmd *cobra.Command) {
	for _, c := range cmd.Commands() {
		disableFileCompletion(c)
	}
	if cmd.ValidArgsFunction == nil && len(cmd.ValidArgs) == 0 && !strings.Contains(cmd.Use, "FILE") {
		cmd.ValidArgsFunction = cobra.NoFileCompletions
	}
}

// completePools completes --pool with the pools of the service, if it answers
// at once.
func completePools(cmd *cobra.Command, h environment, where *endpointFlags) {
	// It fails only for a flag that is not there.
	_ = cmd.RegisterFlagCompletionFunc("pool", func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		return poolNames(cmd.Context(), h, where), cobra.ShellCompDirectiveNoFileComp
	})
}

func poolNames(ctx context.Context, h environment, where *endpointFlags) (names []string) {
	where.askForCompletion(ctx, h, func(ctx context.Context, c *api.Client) error {
		s, err := c.Status(ctx)
		for i := range s.Pools {
			names = append(names, sanitize(s.Pools[i].Name))
		}
		return err
	})
	return names
}

// askForCompletion asks the service something for a completion: quickly or not at all, since
// somebody waits with a finger on the key.
func (f *endpointFlags) askForCompletion(ctx context.Context, h environment, ask func(context.Context, *api.Client) error) {
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, cancel := context.WithTimeout(ctx, completionTimeout)
	defer cancel()
	p, err := f.resolve(h, io.Discard)
	if err != nil {
		return
	}
	client, err := p.client("")
	if err != nil {
		return
	}
	defer client.Close()
	_ = ask(ctx, client) // without an answer nothing is completed
}
