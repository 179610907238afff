package main

import (
	"context"
	"fmt"
	"time"

	"headgate/internal/app"
	"headgate/runbooks/control"
	"headgate/web/api"
)

const (
	leaveTimeout    = 5 * time.Second
	confirmTimeout  = 2 * time.Second        // the service takes a request within one
	confirmInterval = 100 * time.Millisecond // at the record, for what it did
	confirmPageSize = 100                    // changes, newest first
)

// handleUnreachable goes the other way: it leaves the order in the database. Not every order
// may be given twice, so one that may have been carried out is looked for first.
func (r *modeRun) handleUnreachable(ctx context.Context, s *api.UnreachableError) error {
	switch {
	case r.dryRun:
		return unreachableError{fmt.Errorf("%w\nnothing was changed; without --dry-run the order would now be left in the database in %s", s, r.endpoint.dataDir)}
	case !r.endpoint.local:
		return unreachableError{fmt.Errorf("%w\nthe database is not on this machine; on the one that serves, run: headgate %s --data-dir DIR\n%s",
			s, r.commandName(), lastResortHint)}
	case s.Sent && r.mode == api.ModeRestore:
		return r.checkRecord(ctx, s)
	}
	left, err := r.leaveRequest(ctx)
	if err != nil {
		return unreachableError{fmt.Errorf("%w\nno request could be left in %s either: %w\n%s", s, r.endpoint.dataDir, err, lastResortHint)}
	}
	fmt.Fprintf(r.err, "headgate: %v\nheadgate: left request %d in the database in %s instead\n", s, left.Number, r.endpoint.dataDir)
	r.warnUnknownPool(ctx)
	if !left.Running {
		return r.reportDeferred(left)
	}
	fmt.Fprintf(r.err, "headgate: %s takes it within a second\n", sanitize(left.Owner))
	changes := r.waitForChanges(ctx, func(c control.ModeChange) bool { return c.RequestNumber == left.Number })
	if len(changes) == 0 {
		return fmt.Errorf("request %d was not seen done within %s; the service takes it as soon as it can: look with headgate status%s, and if that is silent too:\n%s",
			left.Number, confirmTimeout, r.where.shellArgs(), lastResortHint)
	}
	return r.report(modeResult{Path: pathRequest, Request: left.Number, ModeReply: api.ModeReply{Recorded: true, Changes: changes}})
}

const lastResortHint = `what is left:
  stop headgate and let clients use the model endpoint itself (upstream in the settings), or
  start it anew with --ephemeral and mode: passthrough in the settings;
  with a record, that mode counts only for pools that were never seen before`

func (r *modeRun) leaveRequest(ctx context.Context) (app.QueuedRequest, error) {
	ctx, cancel := context.WithTimeout(ctx, leaveTimeout)
	defer cancel()
	return r.host.leaveRequest(ctx, r.endpoint.dataDir, r.modeRequest())
}

// warnUnknownPool warns of a pool that the record does not know: with an order that is
// left, nobody says that there is no such pool. It may be new in the settings, so
// the order is left all the same.
func (r *modeRun) warnUnknownPool(ctx context.Context) {
	if r.pool == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, confirmTimeout)
	defer cancel()
	page, err := r.host.readAudit(ctx, r.endpoint.dataDir, api.AuditQuery{Pool: r.pool, Kind: api.KindMode, Limit: 1})
	if err == nil && len(page.Changes) == 0 {
		fmt.Fprintf(r.err, "headgate: warning: no pool %q has ever served from there: if the name is mistyped, nothing will change\n", r.pool)
	}
}

// reportDeferred reports a request that nobody takes now.
func (r *modeRun) reportDeferred(left app.QueuedRequest) error {
	fmt.Fprintf(r.err, "headgate: nothing serves from %s: the request counts at the next start\n", r.endpoint.dataDir)
	if r.json {
		return printJSON(r.out, modeResult{Path: pathRequest, Request: left.Number, Deferred: true, UndoCommands: []string{}, ModeReply: api.ModeReply{Changes: []api.ModeChange{}}})
	}
	which := "all pools"
	if r.pool != "" {
		which = r.pool
	}
	_, err := fmt.Fprintf(r.out, "%s: %s at the next start (request %d)\n", which, r.commandName(), left.Number)
	return err
}

// checkRecord looks whether an order was carried out that was sent and not answered.
func (r *modeRun) checkRecord(ctx context.Context, s *api.UnreachableError) error {
	changes := r.waitForChanges(ctx, func(c control.ModeChange) bool {
		return c.Action == control.Restore && c.Actor == r.actor && !c.At.Before(r.startMilli())
	})
	if len(changes) == 0 {
		return unreachableError{fmt.Errorf("%w\nthe order was sent, and whether it was carried out is not known: look with headgate status%s before repeating it, since a second restore may go one mode further",
			s, r.where.shellArgs())}
	}
	fmt.Fprintf(r.err, "headgate: %v\nheadgate: the record in %s shows that it was done\n", s, r.endpoint.dataDir)
	return r.report(modeResult{Path: pathAPI, ModeReply: api.ModeReply{Recorded: true, Changes: changes}})
}

// waitForChanges waits until the record shows changes that match, for a bounded time.
func (r *modeRun) waitForChanges(ctx context.Context, match func(control.ModeChange) bool) []api.ModeChange {
	ctx, cancel := context.WithTimeout(ctx, confirmTimeout)
	defer cancel()
	again := time.NewTicker(confirmInterval)
	defer again.Stop()
	for {
		page, err := r.host.readAudit(ctx, r.endpoint.dataDir, api.AuditQuery{Kind: api.KindMode, Limit: confirmPageSize})
		if found := matchingChanges(page.Changes, match); err == nil && len(found) > 0 {
			return found
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// matchingChanges returns the changes that match, oldest first.
func matchingChanges(newestFirst []control.ModeChange, match func(control.ModeChange) bool) []api.ModeChange {
	var found []api.ModeChange
	for i := len(newestFirst) - 1; i >= 0; i-- {
		if match(newestFirst[i]) {
			found = append(found, api.ModeChange{Change: api.ChangeOf(newestFirst[i])})
		}
	}
	return found
}

// commandName is the command's own.
func (r *modeRun) commandName() string {
	switch r.modeRequest().Action {
	case control.Rollback, control.Restore:
		return string(r.modeRequest().Action)
	default:
		return "observe"
	}
}
