package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
)

// backupTimeout bounds a backup, in which the whole database is read and checked.
const backupTimeout = 10 * time.Minute

func newBackup(h environment) *cobra.Command {
	var where endpointFlags
	cmd := &cobra.Command{
		Use:   "backup FILE",
		Short: "Copy the database into a file",
		Long: `Copy the database, which holds modes and audit, into a new file, whole and
checked. It works while the service runs, and while it does not. A file that is
there already is not touched. docs/rollback.md says how to put a copy back.`,
		Example: `  headgate backup headgate-$(date +%F).db
  headgate backup --data-dir /var/lib/headgate /backup/headgate.db`,
		Args: usageArgs(cobra.ExactArgs(1)),
	}
	where.addDataDir(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		dir := where.resolveDataDir(h, cmd.ErrOrStderr())
		ctx, cancel := context.WithTimeout(cmd.Context(), backupTimeout)
		defer cancel()
		if err := h.backup(ctx, dir, args[0]); err != nil {
			return fmt.Errorf("no backup of %s: %w", dir, err)
		}
		_, err := fmt.Fprintf(cmd.OutOrStdout(), "wrote %s\n", sanitize(args[0]))
		return err
	}
	return cmd
}
