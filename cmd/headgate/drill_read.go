package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"headgate/internal/app"
	"headgate/runbooks/drill"
	"headgate/web/api"
)

// runReader knows the runs of drills: the service, or its database.
type runReader interface {
	Runs(ctx context.Context, q drill.Query) (api.DrillRunList, error)
	Run(ctx context.Context, id, series string) (api.DrillReport, error)
}

// withRuns asks the service, and reads the database if there is no answer: what a drill
// has done is wanted most when the service is down.
func (c *drillCmd) withRuns(cmd *cobra.Command, f func(context.Context, runReader) error) error {
	p, err := c.where.resolve(c.host, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	err = c.fromService(cmd.Context(), p, f)
	var silence *api.UnreachableError
	if !errors.As(err, &silence) {
		return err
	}
	if !p.local {
		return unreachableError{err}
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "headgate: %v\nheadgate: reading from the database in %s instead\n", err, p.dataDir)
	if err := f(cmd.Context(), app.RecordedRuns{Dir: p.dataDir}); err != nil {
		return unreachableError{fmt.Errorf("the database cannot tell either: %w", err)}
	}
	return nil
}

func (c *drillCmd) fromService(ctx context.Context, p endpoint, f func(context.Context, runReader) error) error {
	if p.unusable != nil {
		return &api.UnreachableError{Err: p.unusable}
	}
	client, err := p.client(c.host.actor())
	if err != nil {
		return err
	}
	defer client.Close()
	if err := client.Ping(ctx); err != nil {
		return err
	}
	return f(ctx, client)
}
