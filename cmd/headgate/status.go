package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"headgate/web/api"
)

// watchInterval is how often status --watch looks.
const watchInterval = time.Second

func newStatus(h environment) *cobra.Command {
	var where endpointFlags
	var asJSON, watch bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show modes, queues and what is refused",
		Long: `Show every pool: its mode, how much runs and waits, how long tasks take against
the SLO, and what was refused and admitted in the last minute. A pool that does
not enforce stands out, with who changed it, when and why.`,
		Example: `  headgate status
  headgate status --watch                          again every second, until Ctrl-C
  headgate status --json | jq '.pools[] | {name, mode}'`,
		Args: usageArgs(cobra.NoArgs),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON; with --watch a line each second")
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "look again every second")
	where.add(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		p, err := where.resolve(h, cmd.ErrOrStderr())
		if err != nil {
			return err
		}
		client, err := p.client("")
		if err != nil {
			return err
		}
		defer client.Close()
		v := statusView{fetch: pingThenStatus(client), now: h.now, out: cmd.OutOrStdout(), err: cmd.ErrOrStderr(),
			screen: isTerminal(cmd.OutOrStdout()), paint: colorizerFor(h, cmd.OutOrStdout()), json: asJSON, where: where.shellArgs()}
		if watch {
			v.watch(cmd.Context())
			return nil
		}
		return v.once(cmd.Context())
	}
	return cmd
}

// pingThenStatus asks for the status, and gives up early on what does not answer.
func pingThenStatus(c *api.Client) func(context.Context) (api.Status, error) {
	return func(ctx context.Context) (api.Status, error) {
		if err := c.Ping(ctx); err != nil {
			return api.Status{}, err
		}
		return c.Status(ctx)
	}
}

// statusView shows the status of a service.
type statusView struct {
	fetch  func(context.Context) (api.Status, error)
	now    func() time.Time
	out    io.Writer
	err    io.Writer
	screen bool // out can be drawn on
	paint  colorizer
	json   bool
	where  string // flags for the commands that are shown
}

func (v *statusView) once(ctx context.Context) error {
	s, err := v.fetch(ctx)
	if err != nil {
		return asUnreachable(err)
	}
	if v.json {
		return printJSON(v.out, s)
	}
	return v.table(v.out, &s)
}

// asUnreachable tells silence from answers.
func asUnreachable(err error) error {
	var silence *api.UnreachableError
	if errors.As(err, &silence) {
		return unreachableError{fmt.Errorf("%w\n"+unreachableHint, err)}
	}
	return err
}

// unreachableHint is what to try when nothing answers.
const unreachableHint = "is it running? if its admin listener is not there, say where: --config FILE, --admin URL or " + adminEnv
