package app

import (
	"context"
	"fmt"
	"time"

	"headgate/alerts"
	"headgate/internal/config"
	"headgate/proxy/admission"
	"headgate/runbooks/control"
	"headgate/web/api"
)

// guardConfig is what headgate may do by itself.
func guardConfig(c config.Rollback) control.GuardConfig {
	return control.GuardConfig{Auto: c.Auto, MaxPerDay: c.MaxPerDay, Cooldown: c.Cooldown, HumanLatch: c.HumanLatch}
}

// newGuard makes the part that rolls back by itself, and tells of changes of mode.
func (a *App) newGuard() (err error) {
	c := control.KeeperConfig{
		Rules: guardConfig(a.cfg.Rollback), Journal: a.store, Audit: a.auditor,
		Log: a.log.With("component", "rollback"), Metrics: a.modeMetrics,
	}
	if a.telling.anybody() {
		c.Remind, c.Unrecorded = a.remind, a.unrecordedFlip
	}
	a.guard, err = control.NewKeeper(c)
	return err
}

// remind puts a reminder into the outbox, which has it once.
func (a *App) remind(ctx context.Context, r control.Reminder) error {
	name := fmt.Sprintf("%s-h%d", r.Change, r.Hour)
	d := a.telling.routes.Notice(newID(), name, r.Pool, reminderWords(r), r.At)
	if err := a.store.Outbox().Save(ctx, alerts.Changes{Add: []alerts.Delivery{d}}); err != nil {
		return err
	}
	a.watch.kick()
	return nil
}

// unrecordedFlip tells of a rollback that the record does not take, past the record.
func (a *App) unrecordedFlip(c control.Change) {
	words := fmt.Sprintf("Pool %s was rolled back automatically at %s: %s. That cannot be recorded: a restart would forget it, and put the gate back. "+
		"To put it back by hand: headgate restore --pool %s", c.Pool, clock(c.At), c.Reason, c.Pool)
	a.watch.unrecorded([]alerts.Delivery{a.telling.routes.Notice(newID(), c.ID, c.Pool, words, time.Now().UTC().Truncate(time.Millisecond))})
}

// reminderWords say since when a gate is out, by whom, why, and what the queue does.
func reminderWords(r control.Reminder) string {
	s := fmt.Sprintf("Pool %s has been in pass-through for %s, since %s by %s", r.Pool, time.Duration(r.Hour)*time.Hour,
		r.Since.UTC().Format("2006-01-02 15:04:05 UTC"), r.By)
	if r.Reason != "" {
		s += " (" + r.Reason + ")"
	}
	s += fmt.Sprintf(". Nothing is refused meanwhile: %d wait, the oldest for %s; %d of %d in flight. To put the gate back: headgate restore --pool %s",
		r.Queued, r.Oldest.Round(time.Second), r.InFlight, r.Workers, r.Pool)
	if r.Before == admission.Observe {
		s += " (to observe, as before)"
	}
	return s
}

// guardStatus says how automatic rollback stands in a pool, nil if there is none.
func (a *App) guardStatus(now time.Time, pool string) *api.GuardStatus {
	if a.guard == nil {
		return nil
	}
	g, flips := a.guard.Guard(pool)
	s := &api.GuardStatus{State: string(g.State), FlipsToday: flips, Why: a.guard.Why(pool)}
	if now.Before(g.LatchedUntil) {
		until := api.Stamp(g.LatchedUntil)
		s.LatchedUntil = &until
	}
	return s
}

// pauseStatus says how a pool is paused, nil if it is not.
func (a *App) pauseStatus(now time.Time, pool string) *api.PauseStatus {
	p, paused := a.pauses.Of(now, pool)
	if !paused {
		return nil
	}
	return &api.PauseStatus{Since: api.Stamp(p.Since), Until: api.Stamp(p.Until), By: p.By, Reason: p.Reason}
}
