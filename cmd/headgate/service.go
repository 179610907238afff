package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"headgate/internal/cli"
	"headgate/internal/format"
	"headgate/web/api"
)

// serviceCommand adds to cmd the flags that all commands to a running service have,
// and what it runs. The service's fields are set before that.
func serviceCommand(cmd *cobra.Command, env cli.Env, s *cli.Service, run func(ctx context.Context, args []string) error) *cobra.Command {
	s.Env = env
	f := cmd.Flags()
	f.BoolVar(&s.JSON, "json", false, "print JSON")
	f.StringVar(&s.Admin, "admin", "", "`URL` of the admin listener (default $HEADGATE_ADMIN, or http://127.0.0.1:8485)")
	dataDirFlags(cmd, s)
	if f.Lookup("pool") != nil {
		completeFlag(cmd, "pool", s, poolNames)
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		s.Out, s.Err = cmd.OutOrStdout(), cmd.ErrOrStderr()
		return run(cmd.Context(), args)
	}
	return cmd
}

// dataDirFlags adds the flags that find the data directory of a service.
func dataDirFlags(cmd *cobra.Command, s *cli.Service) {
	cmd.Flags().StringVarP(&s.Config, "config", "c", "", "settings `file` of the service: says where data directory and admin listener are")
	cmd.Flags().StringVar(&s.DataDir, "data-dir", "", "data `directory` of the service (default ./data)")
	_ = cmd.MarkFlagFilename("config", "yaml", "yml") // these fail only for a flag that does not exist
	_ = cmd.MarkFlagDirname("data-dir")
}

// first returns the first argument, or "" without one.
func first(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}

func poolFlag(cmd *cobra.Command, to *string) {
	cmd.Flags().StringVar(to, "pool", "", "only this `pool` (default all)")
}
func reasonFlag(cmd *cobra.Command, to *string) {
	cmd.Flags().StringVar(to, "reason", "", "`why`, for the audit log")
}
func dryRunFlag(cmd *cobra.Command, to *bool) {
	cmd.Flags().BoolVar(to, "dry-run", false, "show what would change, and change nothing")
}

func sinceFlag(cmd *cobra.Command, to *string, since string) {
	cmd.Flags().StringVar(to, "since", since, "start of the period: a `duration` ago such as 7d or 90m, or a time such as 2026-01-31T12:00:00Z")
}

func newStatus(env cli.Env) *cobra.Command {
	var s cli.Status
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show modes, queues and rejections",
		Long: `Show every pool: its mode, what is running and queued, turnaround against the SLO,
and what was refused and admitted in the last minute. A pool that does not enforce
stands out, with who changed it, when and why.`,
		Example: `  headgate status
  headgate status --watch                          again every second, until Ctrl-C
  headgate status --json | jq '.pools[] | {name, mode}'`,
	}
	cmd.Flags().BoolVarP(&s.Watch, "watch", "w", false, "refresh every second; with --json print a line each")
	return serviceCommand(cmd, env, &s.Service, func(ctx context.Context, _ []string) error { return s.Run(ctx) })
}

func newAudit(env cli.Env) *cobra.Command {
	var a cli.Audit
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Show who did what, when and why",
		Long: `Show the audit log, newest first. Changes of modes: who, when, from what to what,
why, and what was running and queued at that moment. Everything else that was done,
withheld or refused: Slack buttons, automatic decisions, actions, rejected attempts,
drills. If the service does not answer, the log is read from its database.`,
		Example: `  headgate audit
  headgate audit --since 24h --pool big
  headgate audit --kind decision
  headgate audit --since 2026-01-31T00:00:00Z --json`,
	}
	sinceFlag(cmd, &a.Since, "7d")
	poolFlag(cmd, &a.Pool)
	cmd.Flags().StringVar(&a.Kind, "kind", "", "only this `kind`: "+format.List(api.AuditKinds(), ", ", 99))
	return serviceCommand(cmd, env, &a.Service, func(ctx context.Context, _ []string) error { return a.Run(ctx) })
}

// backupTimeout bounds a backup, which reads and checks the whole database.
const backupTimeout = 10 * time.Minute

func newBackup(env cli.Env) *cobra.Command {
	s := cli.Service{Env: env}
	cmd := &cobra.Command{
		Use:   "backup FILE",
		Short: "Copy the database into a file",
		Long: `Copy the database, which holds modes, incidents and the audit log, into a new file,
complete and checked. The service may be running or not. An existing file is not
overwritten. docs/rollback.md says how to restore a backup.`,
		Example: `  headgate backup headgate-$(date +%F).db
  headgate backup --data-dir /var/lib/headgate /backup/headgate.db`,
		Args: cobra.ExactArgs(1),
	}
	dataDirFlags(cmd, &s)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		s.Err = cmd.ErrOrStderr()
		dir := s.ResolveDataDir()
		ctx, cancel := context.WithTimeout(cmd.Context(), backupTimeout)
		defer cancel()
		if err := env.Backup(ctx, dir, args[0]); err != nil {
			return fmt.Errorf("backup of %s failed: %w", dir, err)
		}
		_, err := fmt.Fprintf(cmd.OutOrStdout(), "wrote %s\n", format.Printable(args[0]))
		return err
	}
	return cmd
}

func newLogin(env cli.Env) *cobra.Command {
	var l cli.Login
	cmd := &cobra.Command{
		Use:   "login",
		Short: "Create a one-time link that signs you in to the pages",
		Long: `Create a link that opens the pages without the token. It works once, within ten
minutes, and the person who opens it acts in your name: do not share it. Opening
the link does not use it up, its button does.`,
		Example: `  headgate login
  headgate login --url https://gate.example.com       as you reach the pages`,
	}
	cmd.Flags().StringVar(&l.URL, "url", "", "`URL` by which your browser reaches the admin listener (default the one that this command uses)")
	return serviceCommand(cmd, env, &l.Service, func(ctx context.Context, _ []string) error { return l.Run(ctx) })
}
