package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"

	"headgate/alerts"
)

const (
	maxPending = 10_000 // deliveries read in one go
	// maxUnreadable is how many invalid deliveries a read skips.
	maxUnreadable = 100
)

var (
	deliveryTable = table{name: "deliveries", key: []string{"incident", "seq", "kind", "destination"}, columns: []string{
		"id", "incident", "seq", "kind", "destination", "created_ms", "state", "diverted", "body",
	}}
	threadTable = table{name: "delivery_roots", key: []string{"incident", "destination"}, columns: []string{
		"incident", "destination", "channel", "ts",
	}}
)

// Words that deliveries may have; others are refused.
var (
	deliveryKinds  = []alerts.Kind{alerts.Post, alerts.Edit, alerts.Reply}
	destinations   = []alerts.Destination{alerts.ToWarn, alerts.ToPage, alerts.ToDrills, alerts.ToFallback}
	deliveryStates = []alerts.State{
		alerts.Queued, alerts.Sending, alerts.Retry, alerts.Uncertain, alerts.Sent, alerts.Dead, alerts.Dropped,
	}
)

// selectPending repeats the condition of the index deliveries_pending, which alone
// answers it.
func selectPending() string {
	return deliveryTable.selectSQL() + `WHERE state IN ('queued', 'sending', 'retry', 'uncertain')
ORDER BY created_ms, incident, seq, id LIMIT ?`
}

// validateDelivery refuses what could not be read back.
func validateDelivery(d alerts.Delivery) error {
	switch {
	case d.ID != "" && !validID(d.ID):
		return fmt.Errorf("the ID of a delivery must be at most %d letters, digits and dashes", maxID)
	case !isName(d.Incident):
		return fmt.Errorf("the incident of a delivery must be a name of 1 to %d bytes", maxName)
	case d.Seq < 0 || d.Seq != clampCount(d.Seq):
		return fmt.Errorf("no such sequence of a delivery: %d", d.Seq)
	case !slices.Contains(deliveryKinds, d.Kind):
		return fmt.Errorf("no such kind of a delivery: %.40q", d.Kind)
	case !slices.Contains(destinations, d.Destination):
		return fmt.Errorf("no such destination: %.40q", d.Destination)
	case !slices.Contains(deliveryStates, d.State):
		return fmt.Errorf("no such state of a delivery: %.40q", d.State)
	}
	return nil
}

func validateOutboxChanges(c alerts.Changes) error {
	var errs []error
	for _, d := range slices.Concat(c.Add, c.Update) {
		errs = append(errs, validateDelivery(d))
	}
	for _, t := range c.Threads {
		if !isName(t.Incident) || !slices.Contains(destinations, t.Destination) {
			errs = append(errs, fmt.Errorf("the thread of a message has no incident, or no such destination: %.40q", t.Destination))
		}
	}
	return errors.Join(errs...)
}

func decodeDelivery(r *row) alerts.Delivery {
	d := decodeBody[alerts.Delivery](r, "body")
	if d.Incident != r.keyName("incident") || d.Seq != r.count("seq") {
		r.fail("body")
	}
	d.ID = r.optionalID("id")
	d.Kind, d.Destination = oneOf(r, "kind", deliveryKinds), oneOf(r, "destination", destinations)
	d.Created, d.State = r.optionalTime("created_ms"), oneOf(r, "state", deliveryStates)
	r.flag("diverted")
	return d
}

// Outbox implements alerts.Outbox. It is safe for concurrent use.
type Outbox struct {
	store      *Store
	log        *slog.Logger
	unreadable atomic.Int64 // deliveries that the latest read has skipped
}

var _ alerts.Outbox = (*Outbox)(nil)

// Outbox returns the memory of deliveries.
func (s *Store) Outbox() *Outbox { return &Outbox{store: s, log: s.log} }

// deliveryOrErr is a delivery, if its row is valid.
type deliveryOrErr struct {
	alerts.Delivery
	err error
}

// Pending implements alerts.Outbox. An invalid row must not keep the
// others from being sent: it is skipped and logged.
func (o *Outbox) Pending(ctx context.Context, limit int) ([]alerts.Delivery, error) {
	limit = min(max(limit, 0), maxPending)
	rows, err := readAll(ctx, o.store, "read the deliveries", deliveryTable.name, func(r *row) deliveryOrErr {
		d := deliveryOrErr{Delivery: decodeDelivery(r)}
		d.err, r.err = r.err, nil
		return d
	}, selectPending(), limit+maxUnreadable)
	if err != nil {
		return nil, err
	}
	return o.readable(rows, limit), nil
}

// readable returns the valid deliveries.
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
		o.log.Error("unreadable deliveries skipped", "count", odd, "error", bad)
	}
	return ds
}

// Save implements alerts.Outbox.
func (o *Outbox) Save(ctx context.Context, c alerts.Changes) error {
	const doing = "record deliveries"
	if err := validateOutboxChanges(c); err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return o.store.writeTx(ctx, doing, func(ctx context.Context, w *txWriter) error { return w.saveOutboxChanges(ctx, c) })
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
	for _, t := range c.Threads {
		if err := l.saveThread(ctx, t); err != nil {
			return err
		}
	}
	return nil
}

func (l *txWriter) saveDeliveries(ctx context.Context, text string, ds []alerts.Delivery) error {
	for _, d := range ds {
		if _, err := writeBody(ctx, l, text, d, d.ID, d.Incident, d.Seq, string(d.Kind), string(d.Destination), ms(d.Created), string(d.State),
			btoi(d.Notification.FallbackReason != "")); err != nil {
			return err
		}
	}
	return nil
}

func (l *txWriter) saveThread(ctx context.Context, t alerts.Thread) (err error) {
	if t.Ref == (alerts.Ref{}) {
		_, err = l.exec(ctx, "DELETE FROM delivery_roots WHERE incident = ? AND destination = ?", t.Incident, string(t.Destination))
		return err
	}
	_, err = l.writeRow(ctx, threadTable.upsertSQL(), t.Incident, string(t.Destination), cleanName(t.Ref.Channel), cleanName(t.Ref.TS))
	return err
}

func selectThread() string { return threadTable.selectSQL() + "WHERE incident = ? AND destination = ?" }

// Thread implements alerts.Outbox.
func (o *Outbox) Thread(ctx context.Context, incident string, to alerts.Destination) (alerts.Ref, error) {
	return read(ctx, o.store, "read the thread of an incident", func(ctx context.Context, conn *sql.Conn) (alerts.Ref, error) {
		ref, _, err := queryOne(ctx, conn, threadTable.name, func(r *row) alerts.Ref {
			return alerts.Ref{Channel: r.name("channel"), TS: r.name("ts")}
		}, selectThread(), incident, string(to))
		return ref, err
	})
}
