package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"sync/atomic"

	"headgate/alerts"
)

const (
	maxPending = 10_000 // deliveries read in one go
	// spare is how many deliveries that make no sense a read passes over.
	spare = 100
)

const dropRoot = `DELETE FROM delivery_roots WHERE incident = ? AND destination = ?`

const readRoot = `SELECT channel, ts FROM delivery_roots WHERE incident = ? AND destination = ?`

// readPending repeats the condition of the index deliveries_pending, which alone
// answers it.
func readPending() string {
	return deliveryTable.selects() + `WHERE state IN ('queued', 'sending', 'retry', 'uncertain')
ORDER BY created_ms, incident, seq, id LIMIT ?`
}

// Outbox implements alerts.Outbox. It is safe for concurrent use.
type Outbox struct {
	store *Store
	log   *slog.Logger
	odd   atomic.Int64 // deliveries that the latest read has passed over
}

// Outbox returns the deliverer's memory.
func (s *Store) Outbox() *Outbox { return &Outbox{store: s, log: s.log} }

// maybe is a delivery, if its row makes sense.
type maybe struct {
	alerts.Delivery
	bad error
}

// Pending implements alerts.Outbox. One row that makes no sense must not keep all
// others from being sent: it is passed over, and the log says so.
func (o *Outbox) Pending(ctx context.Context, limit int) ([]alerts.Delivery, error) {
	limit = min(max(limit, 0), maxPending)
	rows, err := read(ctx, o.store, "read the deliveries", func(ctx context.Context, conn *sql.Conn) ([]maybe, error) {
		return query(ctx, conn, len(deliveryTable.columns), func(v []any) (maybe, error) {
			d, err := deliveryRow(v)
			return maybe{d, err}, nil
		}, readPending(), limit+spare)
	})
	if err != nil {
		return nil, err
	}
	return o.sound(rows, limit), nil
}

// sound returns the deliveries that make sense.
func (o *Outbox) sound(rows []maybe, limit int) (ds []alerts.Delivery) {
	var odd int64
	var bad error
	for _, m := range rows {
		switch {
		case m.bad != nil:
			odd, bad = odd+1, m.bad
		case len(ds) < limit:
			ds = append(ds, m.Delivery)
		}
	}
	if before := o.odd.Swap(odd); odd > before {
		o.log.Error("deliveries in the record are passed over", "count", odd, "error", bad)
	}
	return ds
}

// Save implements alerts.Outbox.
func (o *Outbox) Save(ctx context.Context, c alerts.Changes) error {
	if err := writableChanges(c); err != nil {
		return fmt.Errorf("record deliveries: %w", err)
	}
	return o.store.write(ctx, "record deliveries", func(ctx context.Context, tx *sql.Tx) error {
		return o.store.ledger(tx).changes(ctx, c)
	})
}

// changes writes changes of deliveries.
func (l *ledger) changes(ctx context.Context, c alerts.Changes) error {
	if err := writableChanges(c); err != nil {
		return err
	}
	if err := l.deliveries(ctx, deliveryTable.add(), c.Add); err != nil {
		return err
	}
	if err := l.deliveries(ctx, deliveryTable.put("id", "created_ms"), c.Update); err != nil {
		return err
	}
	for _, r := range c.Roots {
		if err := l.root(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

func (l *ledger) deliveries(ctx context.Context, text string, ds []alerts.Delivery) error {
	for _, d := range ds {
		values, err := deliveryValues(d)
		if err != nil {
			return err
		}
		if _, err := l.write(ctx, text, values); err != nil {
			return err
		}
	}
	return nil
}

func (l *ledger) root(ctx context.Context, r alerts.Root) error {
	if r.Ref == (alerts.Ref{}) {
		_, err := l.exec(ctx, dropRoot, r.Incident, string(r.Destination))
		return err
	}
	_, err := l.write(ctx, rootTable.put(), rootValues(r))
	return err
}

// Root implements alerts.Outbox.
func (o *Outbox) Root(ctx context.Context, incident string, to alerts.Destination) (alerts.Ref, error) {
	return read(ctx, o.store, "read where a message stands", func(ctx context.Context, conn *sql.Conn) (alerts.Ref, error) {
		refs, err := query(ctx, conn, 2, refRow, readRoot, incident, string(to))
		if err != nil || len(refs) == 0 {
			return alerts.Ref{}, err
		}
		return refs[0], nil
	})
}
