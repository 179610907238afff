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

// runFunc is what a command does with its arguments, which cobra has counted by then.
type runFunc func(ctx context.Context, args []string) error

func noArgs(run func(context.Context) error) runFunc {
	return func(ctx context.Context, _ []string) error { return run(ctx) }
}

// oneArg passes "" for an optional argument that was not given.
func oneArg(run func(context.Context, string) error) runFunc {
	return func(ctx context.Context, args []string) error { return run(ctx, first(args)) }
}

// serviceCommand adds to cmd the flags that all commands to a running service have,
// and what it runs. The service's fields are set before that. The flags are local to
// each command, not persistent flags of the root: serve, demo and stub have no use for
// them, and a flag without effect would mislead.
func serviceCommand(cmd *cobra.Command, env cli.Env, s *cli.Service, run runFunc) *cobra.Command {
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

// dataDirFlags adds the flags that find the data directory of a service. Without an
// answer from the service, its database there takes requests and has the history.
func dataDirFlags(cmd *cobra.Command, s *cli.Service) {
	cmd.Flags().StringVarP(&s.Config, "config", "c", "",
		"settings `file` of the service: says where data directory and admin listener are")
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

// The functions below define the flags that several commands share, so that a flag
// means the same wherever it appears.

func poolFlag(cmd *cobra.Command, to *string) {
	cmd.Flags().StringVar(to, "pool", "", "only this `pool` (default all)")
}

func reasonFlag(cmd *cobra.Command, to *string) {
	cmd.Flags().StringVar(to, "reason", "", "`why`, for the audit log")
}

// changeFlags adds the flags of a command that changes pools. No reason is required: a
// rollback in an emergency must not fail because its reason is missing.
func changeFlags(cmd *cobra.Command, pool, reason *string, dryRun *bool) {
	poolFlag(cmd, pool)
	reasonFlag(cmd, reason)
	cmd.Flags().BoolVar(dryRun, "dry-run", false, "show what would change, and change nothing")
}

func sinceFlag(cmd *cobra.Command, to *string, since string) {
	cmd.Flags().StringVar(to, "since", since,
		"start of the period: a `duration` ago such as 7d or 90m, or a time such as 2026-01-31T12:00:00Z")
}

// newStatus returns the command that on-call looks at first: its notes below the table
// therefore carry the command that ends each unusual state.
func newStatus(env cli.Env) *cobra.Command {
	var s cli.Status
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show modes, queues and refusals",
		Long: `Show every pool: its mode, what is running and queued, turnaround against the SLO,
and what was refused and admitted in the last minute. A pool that does not enforce
stands out, with who changed it, when and why.`,
		Example: `  headgate status
  headgate status --watch                          again every second, until Ctrl-C
  headgate status --json | jq '.pools[] | {name, mode}'`,
	}
	cmd.Flags().BoolVarP(&s.Watch, "watch", "w", false, "refresh every second; with --json print a line each")
	return serviceCommand(cmd, env, &s.Service, noArgs(s.Run))
}

// newAudit returns the command for the review after an incident. Seven days are its
// default because such reviews are usually held in the week that follows.
func newAudit(env cli.Env) *cobra.Command {
	var a cli.Audit
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Show who did what, when and why",
		Long: `Show the audit log, newest first. Changes of modes: who, when, from what to what,
why, and what was running and queued at that moment. Everything else that was done,
withheld or refused: Slack buttons, automatic decisions, actions, refused attempts,
drills. If the service does not answer, the log is read from its database.`,
		Example: `  headgate audit
  headgate audit --since 24h --pool big
  headgate audit --kind decision
  headgate audit --since 2026-01-31T00:00:00Z --json`,
	}
	sinceFlag(cmd, &a.Since, "7d")
	poolFlag(cmd, &a.Pool)
	cmd.Flags().StringVar(&a.Kind, "kind", "", "only this `kind`: "+format.List(api.AuditKinds(), ", ", 99))
	return serviceCommand(cmd, env, &a.Service, noArgs(a.Run))
}

// backupTimeout bounds a backup, which reads and checks the whole database.
const backupTimeout = 10 * time.Minute

// newBackup returns a command without --admin: it reads the database and never asks the
// service, so that a backup succeeds whether the service runs or not.
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

// newLogin returns the command that signs people in under their own name: the token would
// make everybody who has it the same person in the audit log.
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
	cmd.Flags().StringVar(&l.URL, "url", "",
		"`URL` by which your browser reaches the admin listener (default the one that this command uses)")
	return serviceCommand(cmd, env, &l.Service, noArgs(l.Run))
}
