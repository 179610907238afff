package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
)

// backupTime bounds a backup, in which the whole database is read and checked.
const backupTime = 10 * time.Minute

func newBackup(h host) *cobra.Command {
	var where placeFlags
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
	where.addData(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		dir := where.data(h, cmd.ErrOrStderr())
		ctx, cancel := context.WithTimeout(cmd.Context(), backupTime)
		defer cancel()
		if err := h.backup(ctx, dir, args[0]); err != nil {
			return fmt.Errorf("no backup of %s: %w", dir, err)
		}
		_, err := fmt.Fprintf(cmd.OutOrStdout(), "wrote %s\n", inert(args[0]))
		return err
	}
	return cmd
}
