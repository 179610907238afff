package main

import (
	"context"

	"github.com/spf13/cobra"

	"headgate/internal/cli"
	"headgate/internal/format"
	"headgate/web/api"
)

// newCompletion returns one command with the shell as its argument, where cobra's own has a
// command for each shell: docs and help have one section for it.
func newCompletion() *cobra.Command {
	return &cobra.Command{
		Use:   "completion SHELL",
		Short: "Print a completion script for a shell",
		Long: "Print a script that completes commands, flags and names of pools and drills: " +
			"for bash, zsh, fish or powershell.",
		Example: `  source <(headgate completion bash)
  headgate completion fish > ~/.config/fish/completions/headgate.fish`,
		ValidArgs: []string{"bash", "zsh", "fish", "powershell"},
		Args:      cobra.ExactArgs(1),
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
				return cli.Usagef("unknown shell %q: must be bash, zsh, fish or powershell", args[0])
			}
		},
	}
}

// nameSource asks the service for names that complete a flag or an argument.
type nameSource func(context.Context, *api.Client) ([]string, error)

func poolNames(ctx context.Context, c *api.Client) (names []string, err error) {
	s, err := c.Status(ctx)
	for i := range s.Pools {
		names = append(names, format.Printable(s.Pools[i].Name))
	}
	return names, err
}

func drillIDs(ctx context.Context, c *api.Client) (ids []string, err error) {
	list, err := c.Drills(ctx)
	for i := range list.Items {
		ids = append(ids, format.Printable(list.Items[i].ID))
	}
	return ids, err
}

// completeArg completes the first argument with names from the service.
func completeArg(s *cli.Service, names nameSource) cobra.CompletionFunc {
	complete := completer(s, names)
	return func(cmd *cobra.Command, args []string, text string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return complete(cmd, args, text)
	}
}

// completeFlag completes a flag with names from the service.
func completeFlag(cmd *cobra.Command, flag string, s *cli.Service, names nameSource) {
	_ = cmd.RegisterFlagCompletionFunc(flag, completer(s, names)) // fails only for a flag that does not exist
}

func completer(s *cli.Service, names nameSource) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, _ string) (found []string, _ cobra.ShellCompDirective) {
		s.Complete(cmd.Context(), func(ctx context.Context, c *api.Client) (err error) {
			found, err = names(ctx, c)
			return err
		})
		return found, cobra.ShellCompDirectiveNoFileComp
	}
}
