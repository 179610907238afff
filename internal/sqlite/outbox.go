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
	// maxUnreadable is how many deliveries that make no sense a read passes over.
	maxUnreadable = 100
)

const deleteThread = `DELETE FROM delivery_roots WHERE incident = ? AND destination = ?`

const selectThread = `SELECT channel, ts FROM delivery_roots WHERE incident = ? AND destination = ?`

// selectPending repeats the condition of the index deliveries_pending, which alone
// answers it.
func selectPending() string {
	return deliveryTable.selectSQL() + `WHERE state IN ('queued', 'sending', 'retry', 'uncertain')
ORDER BY created_ms, incident, seq, id LIMIT ?`
}

// Outbox implements alerts.Outbox. It is safe for concurrent use.
type Outbox struct {
	store      *Store
	log        *slog.Logger
	unreadable atomic.Int64 // deliveries that the latest read has passed over
}

// Outbox returns the deliverer's memory.
func (s *Store) Outbox() *Outbox { return &Outbox{store: s, log: s.log} }

// deliveryOrErr is a delivery, if its row makes sense.
type deliveryOrErr struct {
	alerts.Delivery
	err error
}

// Pending implements alerts.Outbox. One row that makes no sense must not keep all
// others from being sent: it is passed over, and the log says so.
func (o *Outbox) Pending(ctx context.Context, limit int) ([]alerts.Delivery, error) {
	limit = min(max(limit, 0), maxPending)
	rows, err := read(ctx, o.store, "read the deliveries", func(ctx context.Context, conn *sql.Conn) ([]deliveryOrErr, error) {
		return query(ctx, conn, len(deliveryTable.columns), func(v []any) (deliveryOrErr, error) {
			d, err := decodeDelivery(v)
			return deliveryOrErr{d, err}, nil
		}, selectPending(), limit+maxUnreadable)
	})
	if err != nil {
		return nil, err
	}
	return o.readable(rows, limit), nil
}

// readable returns the deliveries that make sense.
func (o *Outbox) readable(rows []deliveryOrErr, limit int) (ds []alerts.Delivery) {
	var odd int64
	var bad error
	for _, m := range rows {
		switch {
		case m.err != nil:
			odd, bad = odd+1, m.err
		case len(ds) < limit:
			ds = append(ds, m.Delivery)
		}
	}
	if before := o.unreadable.Swap(odd); odd > before {
		o.log.Error("deliveries in the record are passed over", "count", odd, "error", bad)
	}
	return ds
}

// Save implements alerts.Outbox.
func (o *Outbox) Save(ctx context.Context, c alerts.Changes) error {
	if err := validateOutboxChanges(c); err != nil {
		return fmt.Errorf("record deliveries: %w", err)
	}
	return o.store.writeTx(ctx, "record deliveries", func(ctx context.Context, tx *sql.Tx) error {
		return o.store.newTxWriter(tx).saveOutboxChanges(ctx, c)
	})
}

// saveOutboxChanges writes changes of deliveries.
func (l *txWriter) saveOutboxChanges(ctx context.Context, c alerts.Changes) error {
	if err := validateOutboxChanges(c); err != nil {
		return err
	}
	if err := l.saveDeliveries(ctx, deliveryTable.insertIgnoreSQL(), c.Add); err != nil {
		return err
	}
	if err := l.saveDeliveries(ctx, deliveryTable.upsertSQL("id", "created_ms"), c.Update); err != nil {
		return err
	}
	for _, r := range c.Threads {
		if err := l.saveThread(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

func (l *txWriter) saveDeliveries(ctx context.Context, text string, ds []alerts.Delivery) error {
	for _, d := range ds {
		values, err := deliveryValues(d)
		if err != nil {
			return err
		}
		if _, err := l.writeRow(ctx, text, values); err != nil {
			return err
		}
	}
	return nil
}

func (l *txWriter) saveThread(ctx context.Context, r alerts.Thread) error {
	if r.Ref == (alerts.Ref{}) {
		_, err := l.exec(ctx, deleteThread, r.Incident, string(r.Destination))
		return err
	}
	_, err := l.writeRow(ctx, threadTable.upsertSQL(), threadValues(r))
	return err
}

// Thread implements alerts.Outbox.
func (o *Outbox) Thread(ctx context.Context, incident string, to alerts.Destination) (alerts.Ref, error) {
	return read(ctx, o.store, "read where a message stands", func(ctx context.Context, conn *sql.Conn) (alerts.Ref, error) {
		refs, err := query(ctx, conn, 2, decodeRef, selectThread, incident, string(to))
		if err != nil || len(refs) == 0 {
			return alerts.Ref{}, err
		}
		return refs[0], nil
	})
}
