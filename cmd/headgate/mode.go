package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"headgate/proxy/admission"
	"headgate/runbooks/control"
	"headgate/web/api"
)

// modeCmd is a command that changes modes: rollback, restore and observe.
type modeCmd struct {
	host  environment
	where endpointFlags
	mode  string // as the API has it

	pool, reason              string
	dryRun, dropOverdue, json bool
}

func (o *modeCmd) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.pool, "pool", "", "only this `pool` (default all)")
	f.StringVar(&o.reason, "reason", "", "`why`, for the record")
	f.BoolVar(&o.dryRun, "dry-run", false, "say what would change, and change nothing")
	f.BoolVar(&o.json, "json", false, "print JSON")
	o.where.add(cmd)
	completePools(cmd, o.host, &o.where)
}

// run gives the order to the service, and leaves it in the database if there is
// no answer.
func (o *modeCmd) run(cmd *cobra.Command, _ []string) error {
	if err := o.check(); err != nil {
		return err
	}
	p, err := o.where.resolve(o.host, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	r := modeRun{modeCmd: o, endpoint: p, actor: o.host.actor(), start: o.host.now(), out: cmd.OutOrStdout(), err: cmd.ErrOrStderr()}
	reply, err := r.ask(cmd.Context())
	var silence *api.UnreachableError
	switch {
	case err == nil:
		return r.report(modeResult{ModeReply: reply, Path: pathAPI})
	case errors.As(err, &silence):
		return r.handleUnreachable(cmd.Context(), silence)
	default:
		return fmt.Errorf("%s failed, nothing was changed: %w", cmd.Name(), err)
	}
}

func (o *modeCmd) check() error {
	if o.pool != "" {
		if err := api.CheckPool(o.pool); err != nil {
			return usageError{fmt.Errorf("--pool: %w", err)}
		}
	}
	if n := utf8.RuneCountInString(o.reason); n > api.MaxReason {
		return usageError{fmt.Errorf("--reason: at most %d characters, has %d", api.MaxReason, n)}
	}
	o.reason = sanitize(strings.Join(strings.Fields(o.reason), " "))
	return nil
}

// ask gives the order to the admin API. What is dead is found out before the
// order is sent, in a second instead of five.
func (r *modeRun) ask(ctx context.Context) (api.ModeReply, error) {
	if r.endpoint.unusable != nil {
		return api.ModeReply{}, &api.UnreachableError{Err: r.endpoint.unusable}
	}
	client, err := r.endpoint.client(r.actor)
	if err != nil {
		return api.ModeReply{}, &api.UnreachableError{Err: err}
	}
	defer client.Close()
	if err := client.Ping(ctx); err != nil {
		return api.ModeReply{}, err
	}
	return client.SetMode(ctx, r.pool, api.ModeRequest{
		Mode: r.mode, Reason: r.reason, DropOverdue: r.dropOverdue, DryRun: r.dryRun,
	})
}

// modeRequest is what is left in the database.
func (r *modeRun) modeRequest() control.ModeRequest {
	o := control.ModeRequest{
		Pool: r.pool, DropOverdue: r.dropOverdue, Actor: r.actor, Via: control.ViaRequest, Reason: r.reason,
	}
	switch r.mode {
	case admission.PassThrough.String():
		o.Action, o.Mode = control.Rollback, admission.PassThrough
	case api.ModeRestore:
		o.Action = control.Restore
	default:
		o.Action, o.Mode = control.SetMode, admission.Observe
	}
	return o
}

// The ways in which an order is carried out.
const (
	pathAPI     = "api"
	pathRequest = "request" // left in the database
)

// modeResult is what became of an order; it is what --json prints.
type modeResult struct {
	api.ModeReply
	Path         string   `json:"way"`
	Request      int64    `json:"request"` // number of the request, 0 if none was left
	Deferred     bool     `json:"waits"`   // nothing runs: it counts at the next start
	UndoCommands []string `json:"undo"`    // commands that take it back
}

// startMilli is a moment before which the order cannot have been carried out. It leaves
// no margin: an earlier restore by the same person may be a moment ago. The clock
// is that of the record, whose times are cut to the millisecond.
func (r *modeRun) startMilli() time.Time { return r.start.Truncate(time.Millisecond) }
