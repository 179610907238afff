package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"headgate/runbooks/drill"
)

// maxDues bounds the schedules that are kept.
const maxDues = 10_000

// Frozen implements drill.Store.
func (d *Drills) Frozen(ctx context.Context) (drill.Freeze, error) {
	return read(ctx, d.store, "read whether drills are frozen", func(ctx context.Context, conn *sql.Conn) (drill.Freeze, error) {
		return loadFreeze(ctx, conn)
	})
}

func loadFreeze(ctx context.Context, q queryer) (drill.Freeze, error) {
	all, err := query(ctx, q, len(freezeTable.columns), decodeFreeze, freezeTable.selectSQL()+"WHERE name = ?", singletonKey)
	if err != nil || len(all) == 0 {
		return drill.Freeze{}, err
	}
	return all[0], nil
}

// SetFreeze implements drill.Store.
func (d *Drills) SetFreeze(ctx context.Context, f drill.Freeze) error {
	return d.store.writeTx(ctx, "record whether drills are frozen", func(ctx context.Context, tx *sql.Tx) error {
		_, err := d.newTxWriter(tx).writeRow(ctx, freezeTable.upsertSQL(), []any{singletonKey, btoi(f.On), cleanName(f.Actor), clean(f.Reason, maxReason), ms(f.Since)})
		return err
	})
}

// DueTimes implements drill.DueTimeStore.
func (d *Drills) DueTimes(ctx context.Context) (map[string]drill.DueTime, error) {
	all, err := read(ctx, d.store, "read when drills are due", func(ctx context.Context, conn *sql.Conn) ([]drill.DueTime, error) {
		all, err := query(ctx, conn, len(dueTable.columns), decodeDue, dueTable.selectSQL()+"ORDER BY drill LIMIT ?", maxDues+1)
		if len(all) > maxDues {
			return nil, fmt.Errorf("%w: drill_dues has more than %d schedules", ErrCorrupt, maxDues)
		}
		return all, err
	})
	if err != nil {
		return nil, err
	}
	dues := make(map[string]drill.DueTime, len(all))
	for _, due := range all {
		dues[due.Drill] = due
	}
	return dues, nil
}

// SetDueTime implements drill.DueTimeStore.
func (d *Drills) SetDueTime(ctx context.Context, due drill.DueTime) error {
	if !isName(due.Drill) || cleanName(due.Schedule) != due.Schedule || cleanName(due.Zone) != due.Zone {
		return errors.New("record when a drill is due: its ID, schedule and zone must be names")
	}
	return d.store.writeTx(ctx, "record when a drill is due", func(ctx context.Context, tx *sql.Tx) error {
		_, err := d.newTxWriter(tx).writeRow(ctx, dueTable.upsertSQL(), []any{due.Drill, due.Schedule, due.Zone, ms(due.Next)})
		return err
	})
}

// DeleteDueTime implements drill.DueTimeStore.
func (d *Drills) DeleteDueTime(ctx context.Context, id string) error {
	return d.store.writeTx(ctx, "forget when a drill was due", func(ctx context.Context, tx *sql.Tx) error {
		_, err := d.newTxWriter(tx).exec(ctx, "DELETE FROM drill_dues WHERE drill = ?", id)
		return err
	})
}
