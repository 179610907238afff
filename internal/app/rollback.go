package app

import (
	"context"
	"fmt"
	"time"

	"headgate/alerts"
	"headgate/internal/config"
	"headgate/internal/format"
	"headgate/proxy/admission"
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
	d := a.notifiers.routes.NewNotice(newID(), name, r.Pool, reminderText(r), r.At)
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
	a.monitor.dispatchUnrecorded([]alerts.Delivery{a.notifiers.routes.NewNotice(newID(), c.ID, c.Pool, words, time.Now().UTC().Truncate(time.Millisecond))})
}

// reminderText say since when a gate is out, by whom, why, and what the queue does.
func reminderText(r control.Reminder) string {
	s := fmt.Sprintf("Pool %s has been in pass-through for %s, since %s by %s", r.Pool, time.Duration(r.Hour)*time.Hour,
		r.Since.UTC().Format("2006-01-02 15:04:05 UTC"), r.Actor)
	if r.Reason != "" {
		s += " (" + r.Reason + ")"
	}
	s += fmt.Sprintf(". Nothing is refused meanwhile: %d wait, the oldest for %s; %d of %d in flight. To put the gate back: headgate restore --pool %s",
		r.Queued, r.Oldest.Round(time.Second), r.InFlight, r.Workers, r.Pool)
	if r.RestoreMode == admission.Observe {
		s += " (to observe, as before)"
	}
	return s
}
