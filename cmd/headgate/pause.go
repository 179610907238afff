package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"headgate/runbooks/control"
	"headgate/web/api"
)

func newPause(h environment) *cobra.Command {
	p := pauseCmd{host: h, action: control.ActPause}
	cmd := &cobra.Command{
		Use:   "pause",
		Short: "Hand out no permit for a while, for maintenance of the endpoint",
		Long: `Hand out no permit, in all pools or in one, until headgate resume or until the time
has passed. Who runs goes on; who comes waits, or is refused by the ordinary rules.
It holds across restarts.`,
		Example: `  headgate pause --pool big --for 30m --reason "new model"
  headgate pause --dry-run`,
		Args: usageArgs(cobra.NoArgs),
		RunE: p.run,
	}
	cmd.Flags().StringVar(&p.length, "for", "", "how long, a `span` such as 30m, at most 24h (default 30m)")
	p.add(cmd)
	return cmd
}

func newResume(h environment) *cobra.Command {
	p := pauseCmd{host: h, action: control.ActResume}
	cmd := &cobra.Command{
		Use:   "resume",
		Short: "End a pause",
		Long: `End the pause of all pools, or of one: permits are handed out again, first to those
who waited.`,
		Example: `  headgate resume --pool big`,
		Args:    usageArgs(cobra.NoArgs),
		RunE:    p.run,
	}
	p.add(cmd)
	return cmd
}

// pauseCmd is pause and resume.
type pauseCmd struct {
	host   environment
	where  endpointFlags
	action string

	pool, reason, length string
	dryRun, json         bool
}

func (p *pauseCmd) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&p.pool, "pool", "", "only this `pool` (default all)")
	f.StringVar(&p.reason, "reason", "", "`why`, for the record")
	f.BoolVar(&p.dryRun, "dry-run", false, "say what would be done, and do nothing")
	f.BoolVar(&p.json, "json", false, "print JSON")
	p.where.add(cmd)
	completePools(cmd, p.host, &p.where)
}

func (p *pauseCmd) run(cmd *cobra.Command, _ []string) error {
	if err := p.check(); err != nil {
		return usageError{err}
	}
	where, err := p.where.resolve(p.host, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	if where.unusable != nil {
		return unreachableError{&api.UnreachableError{Err: where.unusable}}
	}
	client, err := where.client(p.host.actor())
	if err != nil {
		return unreachableError{err}
	}
	defer client.Close()
	reply, err := p.ask(cmd.Context(), client)
	if err != nil {
		return err
	}
	if p.json {
		return printJSON(cmd.OutOrStdout(), reply)
	}
	return p.report(cmd.OutOrStdout(), cmd.ErrOrStderr(), reply)
}

func (p *pauseCmd) check() error {
	if p.pool != "" {
		if err := api.CheckPool(p.pool); err != nil {
			return fmt.Errorf("--pool: %w", err)
		}
	}
	if p.length != "" {
		if d, err := api.ParseDuration(p.length); err != nil {
			return fmt.Errorf("--for %w", err)
		} else if d > control.MaxPause {
			return errors.New("--for must be at most 24h")
		}
	}
	if n := utf8.RuneCountInString(p.reason); n > api.MaxReason {
		return fmt.Errorf("--reason: at most %d characters, has %d", api.MaxReason, n)
	}
	p.reason = sanitize(strings.Join(strings.Fields(p.reason), " "))
	return nil
}

func (p *pauseCmd) ask(ctx context.Context, c *api.Client) (api.ActionReply, error) {
	if err := c.Ping(ctx); err != nil {
		return api.ActionReply{}, unreachableError{err}
	}
	reply, err := c.DoAction(ctx, p.action, api.ActionRequest{Pool: p.pool, For: p.length, Reason: p.reason, DryRun: p.dryRun})
	var silence *api.UnreachableError
	switch {
	case errors.As(err, &silence):
		return reply, unreachableError{err}
	case err != nil:
		return reply, fmt.Errorf("%s failed, nothing was changed: %w", p.action, err)
	}
	return reply, nil
}

// report says what was done, what was found, and how to undo it.
func (p *pauseCmd) report(out, stderr io.Writer, r api.ActionReply) error {
	if !r.DryRun && !r.Recorded {
		fmt.Fprintln(stderr, "headgate: warning: it is not recorded yet: a restart would forget it")
	}
	var b strings.Builder
	fmt.Fprintln(&b, sanitize(r.Message))
	if r.DryRun {
		fmt.Fprintln(&b, "nothing was changed")
	} else {
		for _, undo := range r.UndoCommands {
			fmt.Fprintf(&b, "undo: %s%s\n", sanitize(undo), p.where.shellArgs())
		}
	}
	if _, err := io.WriteString(out, b.String()); err != nil {
		return err
	}
	if !r.DryRun && !r.Verified {
		return fmt.Errorf("it was done, but reading back found: %s", sanitize(r.Observed))
	}
	return nil
}
