package main

import (
	"log/slog"

	"github.com/spf13/cobra"

	"headgate/internal/app"
)

func newCheck() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check the settings and print what they come to",
		Long: `Check the settings exactly as serve does, and print the effective ones, every
default spelled out and every secret redacted. Nothing is opened or changed.
Exit status 2 means that serve would refuse them.`,
		Example: `  headgate check --config headgate.yaml
  headgate check                         what serve would do without a file`,
		Args: usageArgs(cobra.NoArgs),
	}
	path := configFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := loadSettings(*path, cmd.ErrOrStderr())
		if err != nil {
			return err
		}
		if _, err := app.New(cfg, version(), slog.New(slog.DiscardHandler)); err != nil {
			return usageError{err}
		}
		return cfg.Write(cmd.OutOrStdout())
	}
	return cmd
}
