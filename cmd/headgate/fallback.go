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
	leaveTime   = 5 * time.Second
	confirmTime = 2 * time.Second        // the service takes a request within one
	lookAgain   = 100 * time.Millisecond // at the record, for what it did
	lookAt      = 100                    // changes, newest first
)

// silent goes the other way: it leaves the order in the database. Not every order
// may be given twice, so one that may have been carried out is looked for first.
func (r *orderRun) silent(ctx context.Context, s *api.Silence) error {
	switch {
	case r.dryRun:
		return unreachableError{fmt.Errorf("%w\nnothing was changed; without --dry-run the order would now be left in the database in %s", s, r.place.dataDir)}
	case !r.place.here:
		return unreachableError{fmt.Errorf("%w\nthe database is not on this machine; on the one that serves, run: headgate %s --data-dir DIR\n%s",
			s, r.name(), lastResort)}
	case s.Sent && r.mode == api.ModeRestore:
		return r.doubtful(ctx, s)
	}
	left, err := r.leave(ctx)
	if err != nil {
		return unreachableError{fmt.Errorf("%w\nno request could be left in %s either: %w\n%s", s, r.place.dataDir, err, lastResort)}
	}
	fmt.Fprintf(r.err, "headgate: %v\nheadgate: left request %d in the database in %s instead\n", s, left.Number, r.place.dataDir)
	r.warnUnknown(ctx)
	if !left.Running {
		return r.waits(left)
	}
	fmt.Fprintf(r.err, "headgate: %s takes it within a second\n", inert(left.Holder))
	changes := r.seen(ctx, func(c control.Change) bool { return c.Request == left.Number })
	if len(changes) == 0 {
		return fmt.Errorf("request %d was not seen done within %s; the service takes it as soon as it can: look with headgate status%s, and if that is silent too:\n%s",
			left.Number, confirmTime, r.where.shown(), lastResort)
	}
	return r.report(outcome{Way: wayRequest, Request: left.Number, ModeReply: api.ModeReply{Recorded: true, Changes: changes}})
}

const lastResort = `what is left:
  stop headgate and let clients use the model endpoint itself (upstream in the settings), or
  start it anew with --ephemeral and mode: passthrough in the settings;
  with a record, that mode counts only for pools that were never seen before`

func (r *orderRun) leave(ctx context.Context) (app.LeftRequest, error) {
	ctx, cancel := context.WithTimeout(ctx, leaveTime)
	defer cancel()
	return r.host.leave(ctx, r.place.dataDir, r.order())
}

// warnUnknown warns of a pool that the record does not know: with an order that is
// left, nobody says that there is no such pool. It may be new in the settings, so
// the order is left all the same.
func (r *orderRun) warnUnknown(ctx context.Context) {
	if r.pool == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, confirmTime)
	defer cancel()
	page, err := r.host.audit(ctx, r.place.dataDir, api.ChangeQuery{Pool: r.pool, Kind: api.KindMode, Limit: 1})
	if err == nil && len(page.Items) == 0 {
		fmt.Fprintf(r.err, "headgate: warning: no pool %q has ever served from there: if the name is mistyped, nothing will change\n", r.pool)
	}
}

// waits reports a request that nobody takes now.
func (r *orderRun) waits(left app.LeftRequest) error {
	fmt.Fprintf(r.err, "headgate: nothing serves from %s: the request counts at the next start\n", r.place.dataDir)
	if r.json {
		return printJSON(r.out, outcome{Way: wayRequest, Request: left.Number, Waits: true, Undo: []string{}, ModeReply: api.ModeReply{Changes: []api.ModeChange{}}})
	}
	which := "all pools"
	if r.pool != "" {
		which = r.pool
	}
	_, err := fmt.Fprintf(r.out, "%s: %s at the next start (request %d)\n", which, r.name(), left.Number)
	return err
}

// doubtful looks whether an order was carried out that was sent and not answered.
func (r *orderRun) doubtful(ctx context.Context, s *api.Silence) error {
	changes := r.seen(ctx, func(c control.Change) bool {
		return c.Action == control.Restore && c.Actor == r.actor && !c.At.Before(r.since())
	})
	if len(changes) == 0 {
		return unreachableError{fmt.Errorf("%w\nthe order was sent, and whether it was carried out is not known: look with headgate status%s before repeating it, since a second restore may go one mode further",
			s, r.where.shown())}
	}
	fmt.Fprintf(r.err, "headgate: %v\nheadgate: the record in %s shows that it was done\n", s, r.place.dataDir)
	return r.report(outcome{Way: wayAPI, ModeReply: api.ModeReply{Recorded: true, Changes: changes}})
}

// seen waits until the record shows changes that match, for a bounded time.
func (r *orderRun) seen(ctx context.Context, match func(control.Change) bool) []api.ModeChange {
	ctx, cancel := context.WithTimeout(ctx, confirmTime)
	defer cancel()
	again := time.NewTicker(lookAgain)
	defer again.Stop()
	for {
		page, err := r.host.audit(ctx, r.place.dataDir, api.ChangeQuery{Kind: api.KindMode, Limit: lookAt})
		if found := matching(page.Items, match); err == nil && len(found) > 0 {
			return found
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// matching returns the changes that match, oldest first.
func matching(newestFirst []control.Change, match func(control.Change) bool) []api.ModeChange {
	var found []api.ModeChange
	for i := len(newestFirst) - 1; i >= 0; i-- {
		if match(newestFirst[i]) {
			found = append(found, api.ModeChange{Change: api.ChangeOf(newestFirst[i])})
		}
	}
	return found
}

// name is the command's own.
func (r *orderRun) name() string {
	switch r.order().Action {
	case control.Rollback, control.Restore:
		return string(r.order().Action)
	default:
		return "observe"
	}
}
