package sqlite

import (
	"context"
	"database/sql"
	"slices"
	"time"

	"headgate/alerts"
	"headgate/engine"
)

// maxHistory bounds what is read of one incident's events, and of its deliveries.
const maxHistory = 1000

// IncidentFilter chooses incidents. The zero value means the newest ones.
type IncidentFilter struct {
	Open  bool      // only those that are open
	Pool  string    // only those of this pool; empty: all
	Rule  string    // only those of this rule; empty: all
	Since time.Time // only those opened at or after it; zero: all
	After string    // go on after this key, which came with the page before
	Limit int       // at most so many: 0 means DefaultLimit, more than MaxLimit means MaxLimit
}

// Incidents returns incidents, those opened last first, and the key of the next
// page, empty on the last. ErrPageKey: After is not such a key.
func (s *Store) Incidents(ctx context.Context, f IncidentFilter) (found []engine.Incident, next string, err error) {
	found, err = read(ctx, s, "read the incidents", func(ctx context.Context, conn *sql.Conn) ([]engine.Incident, error) {
		text, args, err := f.statement()
		if err != nil {
			return nil, err
		}
		return query(ctx, conn, len(incidentTable.columns), decodeIncident, text, args...)
	})
	found, next = truncatePage(f.page(), found, func(i engine.Incident) string { return pageKey(i.Opened, i.ID) })
	return found, next, err
}

func (f IncidentFilter) page() page { return page{since: f.Since, after: f.After, limit: f.Limit} }

// statement is answered in the order of one of two indexes. Pool and rule are
// looked for along it: there are not so many incidents.
func (f IncidentFilter) statement() (text string, args []any, err error) {
	text, args = incidentTable.selectSQL()+"WHERE opened_ms >= ?", []any{f.page().sinceMS()}
	if f.Open {
		text += " AND ended_ms = 0"
	}
	if f.Pool != "" {
		text, args = text+" AND pool = ?", append(args, f.Pool)
	}
	if f.Rule != "" {
		text, args = text+" AND rule = ?", append(args, f.Rule)
	}
	return f.page().statement(text, "opened_ms", args...)
}

// IncidentHistory is all that is recorded of an incident: events and deliveries in the order
// of their sequence, the latest thousand of each.
type IncidentHistory struct {
	Incident   engine.Incident
	Events     []engine.Event
	Deliveries []alerts.Delivery
}

// IncidentHistory returns one incident with all that belongs to it. ErrNoIncident: there is
// none with that ID.
func (s *Store) IncidentHistory(ctx context.Context, id string) (IncidentHistory, error) {
	if !validID(id) {
		return IncidentHistory{}, ErrNoIncident
	}
	return read(ctx, s, "read an incident", func(ctx context.Context, conn *sql.Conn) (IncidentHistory, error) {
		found, err := query(ctx, conn, len(incidentTable.columns), decodeIncident, incidentTable.selectSQL()+"WHERE id = ?", id)
		if err != nil {
			return IncidentHistory{}, err
		}
		if len(found) == 0 {
			return IncidentHistory{}, ErrNoIncident
		}
		st := IncidentHistory{Incident: found[0]}
		if st.Events, err = selectTail(ctx, conn, eventTable, decodeEvent, selectEventsSQL(), id); err != nil {
			return IncidentHistory{}, err
		}
		st.Deliveries, err = selectTail(ctx, conn, deliveryTable, decodeDelivery, selectDeliveriesSQL(), id)
		if err != nil {
			return IncidentHistory{}, err
		}
		return st, nil
	})
}

func selectEventsSQL() string {
	return eventTable.selectSQL() + "WHERE incident = ? ORDER BY seq DESC LIMIT ?"
}

func selectDeliveriesSQL() string {
	return deliveryTable.selectSQL() + "WHERE incident = ? ORDER BY seq DESC, kind DESC, destination DESC LIMIT ?"
}

// selectTail reads the last rows of an incident, and returns them first to last.
func selectTail[T any](ctx context.Context, q queryer, t table, from func([]any) (T, error), text, id string) ([]T, error) {
	out, err := query(ctx, q, len(t.columns), from, text, id, maxHistory)
	slices.Reverse(out)
	return out, err
}

// SilenceFilter chooses silences. The zero value means the newest ones.
type SilenceFilter struct {
	Active bool   // only those whose end has not been dealt with
	After  string // go on after this key, which came with the page before
	Limit  int    // at most so many: 0 means DefaultLimit, more than MaxLimit means MaxLimit
}

// Silences returns silences, those that begin last first, and the key of the next
// page, empty on the last. ErrPageKey: After is not such a key.
func (s *Store) Silences(ctx context.Context, f SilenceFilter) (found []engine.Silence, next string, err error) {
	found, err = read(ctx, s, "read the silences", func(ctx context.Context, conn *sql.Conn) ([]engine.Silence, error) {
		text, args, err := f.statement()
		if err != nil {
			return nil, err
		}
		return query(ctx, conn, len(silenceTable.columns), decodeSilence, text, args...)
	})
	found, next = truncatePage(f.page(), found, func(s engine.Silence) string { return pageKey(s.From, s.ID) })
	return found, next, err
}

func (f SilenceFilter) page() page { return page{after: f.After, limit: f.Limit} }

func (f SilenceFilter) statement() (string, []any, error) {
	text := silenceTable.selectSQL() + "WHERE from_ms >= 0"
	if f.Active {
		text += " AND lifted = 0"
	}
	return f.page().statement(text, "from_ms")
}
