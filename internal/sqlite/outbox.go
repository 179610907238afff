package sqlite

import (
	"cmp"
	"context"
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
	err := cmp.Or(checkName("the incident of a delivery", d.Incident), checkOneOf("the kind of a delivery", d.Kind, deliveryKinds),
		checkOneOf("a destination", d.Destination, destinations), checkOneOf("the state of a delivery", d.State, deliveryStates))
	if err == nil && d.ID != "" {
		err = checkID("the ID of a delivery", d.ID)
	}
	if err == nil && d.Seq != clampCount(d.Seq) {
		err = fmt.Errorf("no such sequence of a delivery: %d", d.Seq)
	}
	return err
}

func validateOutboxChanges(c alerts.Changes) error {
	var errs []error
	for _, d := range slices.Concat(c.Add, c.Update) {
		errs = append(errs, validateDelivery(d))
	}
	for _, t := range c.Threads {
		errs = append(errs, checkName("the incident of a thread", t.Incident), checkOneOf("a destination", t.Destination, destinations))
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
	rows, err := readAll(ctx, o.store, "read the deliveries", deliveryTable, func(r *row) deliveryOrErr {
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
	return o.store.writeTx(ctx, doing, func(w *txWriter) { w.saveOutboxChanges(c) })
}

// saveOutboxChanges writes changes of deliveries, which are valid.
func (w *txWriter) saveOutboxChanges(c alerts.Changes) {
	w.saveDeliveries(deliveryTable.insertIgnoreSQL(), c.Add)
	w.saveDeliveries(deliveryTable.upsertSQL("id", "created_ms"), c.Update)
	for _, t := range c.Threads {
		if t.Ref == (alerts.Ref{}) {
			w.exec("DELETE FROM delivery_roots WHERE incident = ? AND destination = ?", t.Incident, string(t.Destination))
			continue
		}
		w.writeRow(threadTable.upsertSQL(), t.Incident, string(t.Destination), cleanName(t.Ref.Channel), cleanName(t.Ref.TS))
	}
}

func (w *txWriter) saveDeliveries(text string, ds []alerts.Delivery) {
	for _, d := range ds {
		writeBody(w, text, d, d.ID, d.Incident, d.Seq, string(d.Kind), string(d.Destination), ms(d.Created), string(d.State),
			btoi(d.Notification.FallbackReason != ""))
	}
}

func selectThread() string { return threadTable.selectSQL() + "WHERE incident = ? AND destination = ?" }

// Thread implements alerts.Outbox.
func (o *Outbox) Thread(ctx context.Context, incident string, to alerts.Destination) (alerts.Ref, error) {
	return read(ctx, o.store, "read the thread of an incident", func(r *reader) alerts.Ref {
		ref, _ := queryOne(r, threadTable, func(r *row) alerts.Ref {
			return alerts.Ref{Channel: r.name("channel"), TS: r.name("ts")}
		}, selectThread(), incident, string(to))
		return ref
	})
}
