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

// watchEvery is how often status --watch looks.
const watchEvery = time.Second

func newStatus(h host) *cobra.Command {
	var where placeFlags
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
		p, err := where.find(h, cmd.ErrOrStderr())
		if err != nil {
			return err
		}
		client, err := p.client("")
		if err != nil {
			return err
		}
		defer client.Close()
		v := view{ask: quickly(client), now: h.now, out: cmd.OutOrStdout(), err: cmd.ErrOrStderr(),
			screen: isTerminal(cmd.OutOrStdout()), paint: paintFor(h, cmd.OutOrStdout()), json: asJSON, where: where.shown()}
		if watch {
			v.watch(cmd.Context())
			return nil
		}
		return v.once(cmd.Context())
	}
	return cmd
}

// quickly asks for the status, and gives up early on what does not answer.
func quickly(c *api.Client) func(context.Context) (api.Status, error) {
	return func(ctx context.Context) (api.Status, error) {
		if err := c.Alive(ctx); err != nil {
			return api.Status{}, err
		}
		return c.Status(ctx)
	}
}

// view shows the status of a service.
type view struct {
	ask    func(context.Context) (api.Status, error)
	now    func() time.Time
	out    io.Writer
	err    io.Writer
	screen bool // out can be drawn on
	paint  paint
	json   bool
	where  string // flags for the commands that are shown
}

func (v *view) once(ctx context.Context) error {
	s, err := v.ask(ctx)
	if err != nil {
		return reached(err)
	}
	if v.json {
		return printJSON(v.out, s)
	}
	return v.table(v.out, &s)
}

// reached tells silence from answers.
func reached(err error) error {
	var silence *api.Silence
	if errors.As(err, &silence) {
		return unreachableError{fmt.Errorf("%w\n"+elsewhere, err)}
	}
	return err
}

// elsewhere is what to try when nothing answers.
const elsewhere = "is it running? if its admin listener is not there, say where: --config FILE, --admin URL or " + adminVariable
