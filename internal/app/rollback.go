package app

import (
	"context"
	"fmt"
	"time"

	"headgate/alerts"
	"headgate/internal/config"
	"headgate/internal/format"
	"headgate/runbooks/control"
)

// autoRollbackConfig is what headgate may do by itself.
func autoRollbackConfig(c config.Rollback) control.AutoRollbackSettings {
	return control.AutoRollbackSettings{Auto: c.Auto, MaxPerDay: c.MaxPerDay, Cooldown: c.Cooldown, ManualHold: c.ManualHold}
}

// newAutoRollback makes the part that rolls back by itself, and tells of changes of mode.
func (a *App) newAutoRollback() (err error) {
	c := control.AutoRollbackConfig{
		Settings: autoRollbackConfig(a.cfg.Rollback), Journal: a.store, Audit: a.auditor,
		Log: a.log.With("component", "rollback"), Metrics: a.modeMetrics,
	}
	if a.notifiers.enabled() {
		c.Remind, c.OnUnrecorded = a.enqueueReminder, a.notifyUnrecordedRollback
	}
	a.autoRollback, err = control.NewAutoRollback(c)
	return err
}

// enqueueReminder puts a reminder into the outbox, which has it once.
func (a *App) enqueueReminder(ctx context.Context, r control.Reminder) error {
	name := fmt.Sprintf("%s-h%d", r.ChangeID, r.Hour)
	d := a.notifiers.routes.NewNotice(newID(), name, r.Pool, r.String(), r.At, false)
	if err := a.store.Outbox().Save(ctx, alerts.Changes{Add: []alerts.Delivery{d}}); err != nil {
		return err
	}
	a.monitor.wakeDispatcher()
	return nil
}

// notifyUnrecordedRollback tells of a rollback that the record does not take, past the record.
func (a *App) notifyUnrecordedRollback(c control.ModeChange) {
	words := fmt.Sprintf("Pool %s was rolled back automatically at %s: %s. That cannot be recorded: a restart would forget it, and put the gate back. "+
		"To put it back by hand: headgate restore --pool %s", c.Pool, format.Time(c.At), c.Reason, c.Pool)
	a.monitor.dispatchUnrecorded([]alerts.Delivery{a.notifiers.routes.NewNotice(newID(), c.ID, c.Pool, words, time.Now().UTC().Truncate(time.Millisecond), false)})
}
