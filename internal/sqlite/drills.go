package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"headgate/runbooks/drill"
)

// interruptedReason is the reason of a run that was found without its process.
const interruptedReason = "the process ended under it"

// Drills implements drill.Store and drill.DueTimeStore, and sums up the history. It is
// safe for concurrent use.
type Drills struct{ store *Store }

// Drills returns the memory of drills.
func (s *Store) Drills() *Drills { return &Drills{store: s} }

// Claim implements drill.Store. It may be repeated with the same run while that
// goes on. A run whose lease has run out is closed as interrupted.
func (d *Drills) Claim(ctx context.Context, now time.Time, r drill.Run, lease time.Duration) (fence int64, err error) {
	const doing = "claim a run of a drill"
	r.Status, r.Verdict = drill.Claimed, ""
	spec, err := encodeSpec(r.Spec)
	if err := errors.Join(err, validateRun(r)); err != nil {
		return 0, fmt.Errorf("%s: %w", doing, err)
	}
	if lease <= 0 {
		return 0, fmt.Errorf("%s: its lease must be above 0", doing)
	}
	err = d.store.writeTx(ctx, doing, func(ctx context.Context, tx *sql.Tx) (err error) {
		fence, err = d.newTxWriter(tx).claim(ctx, now, r, spec, lease)
		return err
	})
	if err != nil {
		return 0, err
	}
	return fence, nil
}

// Save implements drill.Store.
func (d *Drills) Save(ctx context.Context, now time.Time, r drill.Run) error {
	if err := validateRun(r); err != nil {
		return fmt.Errorf("record a run of a drill: %w", err)
	}
	return d.store.writeTx(ctx, "record a run of a drill", func(ctx context.Context, tx *sql.Tx) error {
		return d.newTxWriter(tx).saveFenced(ctx, now, r)
	})
}

// RecordNotRun implements drill.Store. ErrClaimed: there is a run of that occurrence.
func (d *Drills) RecordNotRun(ctx context.Context, r drill.Run) error {
	spec, err := encodeSpec(r.Spec)
	if err := errors.Join(err, validateRun(r)); err != nil {
		return fmt.Errorf("record a drill that did not run: %w", err)
	}
	if r.Status != drill.Ended {
		return errors.New("record a drill that did not run: its status must be ended")
	}
	return d.store.writeTx(ctx, "record a drill that did not run", func(ctx context.Context, tx *sql.Tx) error {
		return d.newTxWriter(tx).recordEnded(ctx, r, spec)
	})
}

// CloseInterrupted implements drill.Store. This process holds the data directory, so that
// all others are gone. Without a directory only those are whose lease has run out.
func (d *Drills) CloseInterrupted(ctx context.Context, now time.Time) (closed []drill.Run, err error) {
	err = d.store.writeTx(ctx, "close the runs that were interrupted", func(ctx context.Context, tx *sql.Tx) (err error) {
		closed, err = d.newTxWriter(tx).interrupt(ctx, now, d.store.lockFile != nil)
		return err
	})
	if err != nil {
		return nil, err
	}
	return closed, nil
}

// drillTxWriter is a ledger for drills.
type drillTxWriter struct {
	*txWriter
	session string
}

func (d *Drills) newTxWriter(tx *sql.Tx) drillTxWriter {
	return drillTxWriter{d.store.newTxWriter(tx), d.store.session}
}

func (l drillTxWriter) claim(ctx context.Context, now time.Time, r drill.Run, spec string, lease time.Duration) (int64, error) {
	lock, err := l.loadLock(ctx)
	if err != nil {
		return 0, err
	}
	if lock.run == r.ID && lock.run != "" {
		return lock.fence, nil // an attempt of unknown outcome is repeated
	}
	if err := l.checkUnclaimed(ctx, r); err != nil {
		return 0, err
	}
	freeze, err := loadFreeze(ctx, l.tx)
	if err != nil {
		return 0, err
	}
	if freeze.On {
		return 0, drill.ErrFrozen
	}
	if lock.run != "" && now.Before(lock.until) {
		return 0, &drill.BusyError{Run: lock.run, Drill: lock.drill, Since: lock.since}
	}
	if lock.run != "" {
		if _, err := l.closeRun(ctx, now, lock.run, "its lease ran out: it was not heard of any more"); err != nil {
			return 0, err
		}
	}
	r.Fence = lock.fence + 1
	if err := l.insertRun(ctx, runRow{Run: r, at: now, session: l.session}, spec); err != nil {
		return 0, err
	}
	lock = drillLock{run: r.ID, drill: r.Name, since: now, until: now.Add(lease), lease: lease, fence: r.Fence}
	_, err = l.writeRow(ctx, lockTable.upsertSQL(), lock.values())
	return r.Fence, err
}

// checkUnclaimed returns drill.ErrClaimed if there is a run with that ID, or of that
// occurrence.
func (l drillTxWriter) checkUnclaimed(ctx context.Context, r drill.Run) error {
	ids, err := query(ctx, l.tx, 1, func(v []any) (any, error) { return v[0], nil },
		"SELECT id FROM drill_runs WHERE id = ? UNION ALL SELECT id FROM drill_runs WHERE drill = ? AND scheduled_ms = ? AND scheduled_ms > 0 LIMIT 1",
		r.ID, r.Drill, ms(r.Scheduled))
	if err == nil && len(ids) > 0 {
		err = drill.ErrClaimed
	}
	return err
}

// insertRun writes a new run.
func (l drillTxWriter) insertRun(ctx context.Context, r runRow, spec string) error {
	if _, err := l.writeRow(ctx, runTable.insertSQL(), r.values()); err != nil {
		return err
	}
	if _, err := l.writeRow(ctx, partTable.upsertSQL(), []any{r.ID, partSpec, spec}); err != nil {
		return err
	}
	if _, err := l.writeRow(ctx, nameTable.insertIgnoreSQL(), []any{cleanName(r.Name), r.Drill}); err != nil {
		return err
	}
	return l.saveParts(ctx, r.Run)
}

func (l drillTxWriter) saveFenced(ctx context.Context, now time.Time, r drill.Run) error {
	row, err := loadRunRow(ctx, l.tx, r.ID)
	if err != nil {
		return err
	}
	lock, err := l.loadLock(ctx)
	switch {
	case err != nil:
		return err
	case row.Status == drill.Ended && row.Fence == r.Fence && r.Status == drill.Ended && row.Verdict == r.Verdict:
		return nil // an attempt of unknown outcome is repeated
	case row.Status == drill.Ended, lock.run != r.ID, lock.fence != r.Fence:
		return drill.ErrLockLost
	}
	return l.saveRun(ctx, now, runRow{Run: r, at: row.at, session: row.session}, lock)
}

// mustSaveRun writes a run and renews its lock, or gives it back when the run has ended.
func (l drillTxWriter) saveRun(ctx context.Context, now time.Time, r runRow, lock drillLock) error {
	if _, err := l.writeRow(ctx, upsertRunSQL(), r.values()); err != nil {
		return err
	}
	if err := l.saveParts(ctx, r.Run); err != nil {
		return err
	}
	lock.until = now.Add(lock.lease)
	if r.Status == drill.Ended {
		lock = drillLock{fence: lock.fence}
		if err := l.updateSummaries(ctx, r); err != nil {
			return err
		}
	}
	_, err := l.writeRow(ctx, lockTable.upsertSQL(), lock.values())
	return err
}

func (l drillTxWriter) recordEnded(ctx context.Context, r drill.Run, spec string) error {
	row, err := loadRunRow(ctx, l.tx, r.ID)
	switch {
	case err == nil && row.Status == drill.Ended && row.Verdict == r.Verdict && row.Drill == r.Drill:
		return nil // an attempt of unknown outcome is repeated
	case err == nil:
		return drill.ErrClaimed
	case !errors.Is(err, drill.ErrNoRun):
		return err
	}
	if err := l.checkUnclaimed(ctx, r); err != nil {
		return err
	}
	new := runRow{Run: r, at: firstNonZero(r.Started, r.Scheduled, r.Ended), session: l.session}
	if err := l.insertRun(ctx, new, spec); err != nil {
		return err
	}
	return l.updateSummaries(ctx, new)
}

func firstNonZero(times ...time.Time) time.Time {
	for _, t := range times {
		if !t.IsZero() {
			return t
		}
	}
	return time.Time{}
}

const selectUnfinished = `SELECT id, opening FROM drill_runs WHERE status <> 'ended' ORDER BY at_ms, id LIMIT ?`

func (l drillTxWriter) interrupt(ctx context.Context, now time.Time, alone bool) (closed []drill.Run, err error) {
	lock, err := l.loadLock(ctx)
	if err != nil {
		return nil, err
	}
	open, err := query(ctx, l.tx, 2, func(v []any) ([2]string, error) {
		f := rowDecoder{table: runTable.name}
		of := [2]string{f.id("id", v[0]), f.text("opening", v[1], maxName)}
		return of, f.err
	}, selectUnfinished, maxItems)
	if err != nil {
		return nil, err
	}
	for _, of := range open {
		id, opening := of[0], of[1]
		lives := lock.run == id && now.Before(lock.until)
		if opening == l.session || lives && !alone {
			continue
		}
		r, err := l.closeRun(ctx, now, id, interruptedReason)
		if err != nil {
			return nil, err
		}
		closed = append(closed, r)
		if lock.run == id {
			lock = drillLock{fence: lock.fence}
			if _, err := l.writeRow(ctx, lockTable.upsertSQL(), lock.values()); err != nil {
				return nil, err
			}
		}
	}
	return closed, nil
}

// closeRun ends a run as interrupted, and returns it with all of it.
func (l drillTxWriter) closeRun(ctx context.Context, now time.Time, id, why string) (drill.Run, error) {
	row, err := loadRun(ctx, l.tx, id)
	if err != nil || row.Status == drill.Ended {
		return row.Run, err
	}
	row.Status, row.Verdict, row.Reason, row.Ended = drill.Ended, drill.Interrupted, why, now.UTC().Truncate(time.Millisecond)
	for n := range row.Phases {
		if p := &row.Phases[n]; p.Ended.IsZero() {
			p.Ended = row.Ended
		}
	}
	if _, err := l.writeRow(ctx, upsertRunSQL(), row.values()); err != nil {
		return row.Run, err
	}
	if err := l.saveParts(ctx, row.Run); err != nil {
		return row.Run, err
	}
	return row.Run, l.updateSummaries(ctx, row)
}

// loadLock reads the lock; its zero value, when there is none yet, is free.
func (l drillTxWriter) loadLock(ctx context.Context) (drillLock, error) {
	locks, err := query(ctx, l.tx, len(lockTable.columns), decodeLock, lockTable.selectSQL()+"WHERE name = ?", singletonKey)
	if err != nil || len(locks) == 0 {
		return drillLock{}, err
	}
	return locks[0], nil
}
