package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"headgate/internal/sqlite"
	"headgate/runbooks/control"
	"headgate/web/api"
)

// storeOpenTimeout bounds the opening of the record, its check and its migration.
const storeOpenTimeout = 2 * time.Minute

// openStore opens the record and puts the pools under the modes that it knows.
func (a *App) openStore() error {
	ctx, cancel := context.WithTimeout(context.Background(), storeOpenTimeout)
	defer cancel()
	o := sqlite.Options{
		Dir: a.cfg.DataDir, Writer: writerID(), Log: a.log.With("component", "record"), Listen: a.cfg.Admin.Listen,
	}
	open := sqlite.Open
	if a.ephemeral {
		a.log.Warn("the record is in memory only: a restart forgets modes and audit")
		open = sqlite.Ephemeral
	}
	store, err := open(ctx, o)
	if err != nil {
		return fmt.Errorf("record in %s: %w", a.cfg.DataDir, err)
	}
	a.store = store
	a.auditor = control.NewAuditLog(control.AuditLogConfig{
		Store: store, Writer: o.Writer, Log: a.log.With("component", "audit"), Metrics: a.modeMetrics,
	})
	if err := a.loadControlState(ctx, o.Writer); err != nil {
		return errors.Join(err, store.Close())
	}
	if err := a.modes.ProcessRequests(ctx); err != nil {
		a.log.Warn("requests that were left in the record are not seen", "error", err)
	}
	return nil
}

// loadControlState puts the pools under the modes that the record knows, and has the guard
// hear of every change from then on.
func (a *App) loadControlState(ctx context.Context, writer string) error {
	c := control.Config{Journal: a.store, Writer: writer, Log: a.log.With("component", "modes"), Metrics: a.modeMetrics}
	if !a.withoutMonitoring {
		if err := a.newAutoRollback(); err != nil {
			return err
		}
		c.OnApplied, c.OnRecorded = a.autoRollback.OnApplied, a.autoRollback.OnRecorded
	}
	a.modes = control.NewController(c)
	if err := a.modes.Load(ctx); err != nil {
		return err
	}
	for _, p := range a.pools {
		a.modes.Add(time.Now(), p.Name, p.Gate)
	}
	a.pauses = control.NewPauses(a.store, a.modes, c.Log, a.modeMetrics)
	if err := a.pauses.Load(ctx, time.Now()); err != nil {
		return err
	}
	a.control = control.NewService(a.modes, a.pauses, a.auditor, c.Log)
	if a.autoRollback == nil {
		return nil
	}
	a.control.SetAutoRollback(a.autoRollback)
	return a.autoRollback.Load(ctx, a.modes)
}

// startStoreWriters records until closeStore is called.
func (a *App) startStoreWriters() {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for _, run := range []func(context.Context){a.modes.Run, a.pauses.Run, a.auditor.Run} {
		running.Go(func() { run(ctx) })
	}
	a.closeStore = func() error {
		cancel()
		running.Wait()
		return a.store.Close()
	}
}

// writerID names this process in the record.
func writerID() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s:%d", host, os.Getpid())
}

// auditReader shows the record to the admin API.
type auditReader struct{ store *sqlite.Store }

// Audit returns a page of the audit.
func (a auditReader) Audit(ctx context.Context, q control.AuditQuery) (control.AuditPage, error) {
	return auditPage(a.store.Audit(ctx, auditFilter(q)))
}

func auditFilter(q control.AuditQuery) sqlite.AuditFilter {
	return sqlite.AuditFilter{Since: q.Since, Pool: q.Pool, Kind: string(q.Kind), After: q.After, Limit: q.Limit}
}

func auditPage(p sqlite.AuditPage, err error) (control.AuditPage, error) {
	if errors.Is(err, sqlite.ErrPageKey) {
		err = api.ErrUnknownCursor
	}
	return control.NewAuditPage(p.Changes, p.Entries, p.Next), err
}
