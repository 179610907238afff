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
		return frozen(ctx, conn)
	})
}

func frozen(ctx context.Context, q queryer) (drill.Freeze, error) {
	all, err := query(ctx, q, len(freezeTable.columns), readFreeze, freezeTable.selects()+"WHERE name = ?", theOne)
	if err != nil || len(all) == 0 {
		return drill.Freeze{}, err
	}
	return all[0], nil
}

// SetFreeze implements drill.Store.
func (d *Drills) SetFreeze(ctx context.Context, f drill.Freeze) error {
	return d.store.write(ctx, "record whether drills are frozen", func(ctx context.Context, tx *sql.Tx) error {
		_, err := d.ledger(tx).write(ctx, freezeTable.put(), []any{theOne, bit(f.On), short(f.By), clean(f.Reason, maxReason), ms(f.Since)})
		return err
	})
}

// Dues implements drill.Dues.
func (d *Drills) Dues(ctx context.Context) (map[string]drill.Due, error) {
	all, err := read(ctx, d.store, "read when drills are due", func(ctx context.Context, conn *sql.Conn) ([]drill.Due, error) {
		all, err := query(ctx, conn, len(dueTable.columns), readDue, dueTable.selects()+"ORDER BY drill LIMIT ?", maxDues+1)
		if len(all) > maxDues {
			return nil, fmt.Errorf("%w: drill_dues has more than %d schedules", ErrCorrupt, maxDues)
		}
		return all, err
	})
	if err != nil {
		return nil, err
	}
	dues := make(map[string]drill.Due, len(all))
	for _, due := range all {
		dues[due.Drill] = due
	}
	return dues, nil
}

// SetDue implements drill.Dues.
func (d *Drills) SetDue(ctx context.Context, due drill.Due) error {
	if !isName(due.Drill) || short(due.Schedule) != due.Schedule || short(due.Zone) != due.Zone {
		return errors.New("record when a drill is due: its ID, schedule and zone must be names")
	}
	return d.store.write(ctx, "record when a drill is due", func(ctx context.Context, tx *sql.Tx) error {
		_, err := d.ledger(tx).write(ctx, dueTable.put(), []any{due.Drill, due.Schedule, due.Zone, ms(due.Next)})
		return err
	})
}

// DropDue implements drill.Dues.
func (d *Drills) DropDue(ctx context.Context, id string) error {
	return d.store.write(ctx, "forget when a drill was due", func(ctx context.Context, tx *sql.Tx) error {
		_, err := d.ledger(tx).exec(ctx, "DELETE FROM drill_dues WHERE drill = ?", id)
		return err
	})
}
