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

// openTime bounds the opening of the record, its check and its migration.
const openTime = 2 * time.Minute

// openRecord opens the record and puts the pools under the modes that it knows.
func (a *App) openRecord() error {
	ctx, cancel := context.WithTimeout(context.Background(), openTime)
	defer cancel()
	o := sqlite.Options{
		Dir: a.cfg.DataDir, Writer: writer(), Log: a.log.With("component", "record"), Listen: a.cfg.Admin.Listen,
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
	a.auditor = control.NewAuditor(control.AuditorConfig{
		Audit: store, Writer: o.Writer, Log: a.log.With("component", "audit"), Metrics: a.modeMetrics,
	})
	if err := a.openModes(ctx, o.Writer); err != nil {
		return errors.Join(err, store.Close())
	}
	if err := a.modes.CarryOut(ctx); err != nil {
		a.log.Warn("requests that were left in the record are not seen", "error", err)
	}
	return nil
}

// openModes puts the pools under the modes that the record knows, and has the guard
// hear of every change from then on.
func (a *App) openModes(ctx context.Context, writer string) error {
	c := control.Config{Journal: a.store, Writer: writer, Log: a.log.With("component", "modes"), Metrics: a.modeMetrics}
	if !a.unwatched {
		if err := a.newGuard(); err != nil {
			return err
		}
		c.Applied, c.Recorded = a.guard.Applied, a.guard.Recorded
	}
	a.modes = control.New(c)
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
	a.actions = control.NewRegistry(a.modes, a.pauses, nil, a.auditor)
	if a.guard == nil {
		return nil
	}
	return a.guard.Load(ctx, a.modes)
}

// keepRecord records until stopRecord is called.
func (a *App) keepRecord() {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for _, run := range []func(context.Context){a.modes.Run, a.pauses.Run, a.auditor.Run} {
		running.Go(func() { run(ctx) })
	}
	a.stopRecord = func() error {
		cancel()
		running.Wait()
		return a.store.Close()
	}
}

// writer names this process in the record.
func writer() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s:%d", host, os.Getpid())
}

// audit shows the record to the admin API.
type audit struct{ store *sqlite.Store }

// Changes implements api.Audit.
func (a audit) Changes(ctx context.Context, q api.ChangeQuery) (api.ChangePage, error) {
	return page(a.store.Audit(ctx, filter(q)))
}

func filter(q api.ChangeQuery) sqlite.AuditFilter {
	return sqlite.AuditFilter{Since: q.Since, Pool: q.Pool, Kind: q.Kind, After: q.After, Limit: q.Limit}
}

func page(a sqlite.Audit, err error) (api.ChangePage, error) {
	if errors.Is(err, sqlite.ErrKey) {
		err = api.ErrUnknownKey
	}
	return api.ChangePage{Items: a.Changes, Entries: a.Entries, Next: a.Next}, err
}
