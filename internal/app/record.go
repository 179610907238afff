package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"headgate/alerts"
	"headgate/internal/config"
	"headgate/internal/lifecycle"
	"headgate/internal/sqlite"
	"headgate/runbooks/control"
)

// record is what survives restarts, and what changes it: the store, and the modes, pauses and automatic rollback of
// pools, with the audit of it all.
type record struct {
	store        *sqlite.Store
	modes        *control.Controller
	pauses       *control.Pauses
	audit        *control.AuditLog
	control      *control.Service
	autoRollback *control.AutoRollback // nil without monitoring
	writers      *lifecycle.Task       // of modes, pauses and audit
}

// openRecord opens the record, puts the pools into the modes that it holds, and begins to record changes.
func (a *App) openRecord() error {
	ctx, cancel := context.WithTimeout(context.Background(), storeOpenTimeout)
	defer cancel()
	cfg := a.config()
	o := sqlite.Options{
		Dir: cfg.DataDir, Writer: writerID(), Log: a.opts.component("record"), Listen: cfg.Admin.Listen,
	}
	open := sqlite.Open
	if a.opts.ephemeral {
		a.opts.log.Warn("record kept in memory only: a restart loses modes and audit")
		open = sqlite.Ephemeral
	}
	store, err := open(ctx, o)
	if err != nil {
		return fmt.Errorf("record in %s: %w", cfg.DataDir, err)
	}
	r := &record{store: store}
	if err := a.loadControl(ctx, r, o.Writer, cfg); err != nil {
		return errors.Join(err, store.Close())
	}
	a.record = r
	if err := r.modes.ProcessRequests(ctx); err != nil {
		a.opts.log.Warn("queued requests not read", "error", err)
	}
	r.writers = lifecycle.Go(func(ctx context.Context) {
		var running sync.WaitGroup
		for _, run := range []func(context.Context){r.modes.Run, r.pauses.Run, r.audit.Run} {
			running.Go(func() { run(ctx) })
		}
		running.Wait()
	})
	return nil
}

// loadControl builds the control service over the recorded state. Automatic rollback follows every change from then on.
func (a *App) loadControl(ctx context.Context, r *record, writer string, cfg *config.Config) (err error) {
	r.audit = control.NewAuditLog(control.AuditLogConfig{
		Store: r.store, Writer: writer, Log: a.opts.component("audit"), Metrics: a.metrics.control,
	})
	c := control.Config{Journal: r.store, Writer: writer, Log: a.opts.component("modes"), Metrics: a.metrics.control}
	if !a.opts.withoutMonitoring {
		g := control.AutoRollbackConfig{
			Settings: autoRollbackSettings(cfg.Rollback), Journal: r.store, Audit: r.audit,
			Log: a.opts.component("rollback"), Metrics: a.metrics.control,
		}
		if a.notifiers.Enabled() {
			g.Remind, g.OnUnrecorded = a.enqueueReminder, a.notifyUnrecordedRollback
		}
		if r.autoRollback, err = control.NewAutoRollback(g); err != nil {
			return err
		}
		c.OnApplied, c.OnRecorded = r.autoRollback.OnApplied, r.autoRollback.OnRecorded
	}
	r.modes = control.NewController(c)
	if err := r.modes.Load(ctx); err != nil {
		return err
	}
	for _, p := range a.Pools() {
		r.modes.Add(time.Now(), p.Name, p.Gate)
	}
	r.pauses = control.NewPauses(r.store, r.modes, c.Log, a.metrics.control)
	if err := r.pauses.Load(ctx, time.Now()); err != nil {
		return err
	}
	r.control = control.NewService(r.modes, r.pauses, r.audit, c.Log)
	if r.autoRollback == nil {
		return nil
	}
	r.control.SetAutoRollback(r.autoRollback)
	return r.autoRollback.Load(ctx, r.modes)
}

// close writes what is not recorded yet, within the bounds of the writers, and closes the store.
func (r *record) close(ctx context.Context) error {
	if r == nil {
		return nil
	}
	return errors.Join(r.writers.Stop(context.WithoutCancel(ctx)), r.store.Close())
}

// autoRollbackSettings returns the settings of automatic rollback.
func autoRollbackSettings(c config.Rollback) control.AutoRollbackSettings {
	return control.AutoRollbackSettings{Auto: c.Auto, MaxPerDay: c.MaxPerDay, Cooldown: c.Cooldown, ManualHold: c.ManualHold}
}

// enqueueReminder adds a reminder to the outbox. The outbox holds each reminder once.
func (a *App) enqueueReminder(ctx context.Context, r control.Reminder) error {
	id := fmt.Sprintf("%s-h%d", r.ChangeID, r.Hour)
	return a.enqueueNotice(ctx, a.notifiers.Routes.NewNotice(newID(), id, r.Pool, r.String(), r.At, false))
}

// enqueueNotice adds a notice to the outbox and wakes the dispatcher.
func (a *App) enqueueNotice(ctx context.Context, notice alerts.Delivery) error {
	if err := a.record.store.Outbox().Save(ctx, alerts.Changes{Add: []alerts.Delivery{notice}}); err != nil {
		return err
	}
	a.monitor.dispatcher.Wake()
	return nil
}

// notifyUnrecordedRollback announces a rollback that cannot be recorded, bypassing the record.
func (a *App) notifyUnrecordedRollback(c control.ModeChange) {
	at := time.Now().UTC().Truncate(time.Millisecond)
	notice := a.notifiers.Routes.NewNotice(newID(), c.ID, c.Pool, c.UnrecordedRollbackText(), at, false)
	a.monitor.dispatcher.SubmitUnrecorded([]alerts.Delivery{notice})
}

// writerID names this process in the record.
func writerID() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s:%d", host, os.Getpid())
}
