package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"headgate/alerts"
	"headgate/engine"
)

const (
	// maxLoaded bounds what a start takes over of each kind: states, incidents, silences.
	maxLoaded = 10_000
	// maxHistory bounds what is read of one incident's events, and of its deliveries.
	maxHistory = 1000
)

// The columns beside body are those that are searched; they count when they differ from it.
var (
	incidentTable = table{name: "incidents", key: []string{"id"}, columns: []string{"id", "rule", "pool", "opened_ms", "ended_ms", "due", "body"}}
	eventTable    = table{name: "incident_events", key: []string{"incident", "seq"}, columns: []string{"incident", "seq", "kind", "at_ms", "actor", "body"}}
	stateTable    = table{name: "rule_states", key: []string{"rule", "pool"}, columns: []string{"rule", "pool", "incident", "body"}}
	silenceTable  = table{name: "silences", key: []string{"id"}, columns: []string{
		"id", "rule", "pool", "from_ms", "until_ms", "actor", "reason", "lifted",
	}}
)

func decodeIncident(r *row) engine.Incident {
	i := decodeBody[engine.Incident](r, "body")
	if i.ID != r.id("id") || !isWord(string(i.Resolution)) {
		r.fail("body")
	}
	i.Key = engine.Key{Rule: r.name("rule"), Pool: r.name("pool")}
	i.Opened, i.Ended, i.PendingUnmute = r.optionalTime("opened_ms"), r.optionalTime("ended_ms"), r.flag("due")
	return i
}

func decodeEvent(r *row) engine.Event {
	e := decodeBody[engine.Event](r, "body")
	if e.Incident != r.name("incident") || e.Seq != r.count("seq") || !validID(e.ID) {
		r.fail("body")
	}
	e.Kind, e.At, e.By = engine.EventKind(r.word("kind")), r.optionalTime("at_ms"), r.name("actor")
	return e
}

func decodeState(r *row) engine.State {
	s := decodeBody[engine.State](r, "body")
	if s.Rule != r.name("rule") || s.Pool != r.name("pool") {
		r.fail("body")
	}
	s.Incident = r.optionalID("incident")
	return s
}

func decodeSilence(r *row) engine.Silence {
	return engine.Silence{
		ID: r.id("id"), Rule: r.name("rule"), Pool: r.name("pool"), From: r.optionalTime("from_ms"), Until: r.optionalTime("until_ms"),
		By: r.name("actor"), Reason: r.text("reason", maxReason), EndHandled: r.flag("lifted"),
	}
}

// validateBatch refuses what could not be read back. Only a mistake in the program
// makes such a batch.
func validateBatch(b engine.Batch) error {
	var errs []error
	check := func(what, id string) {
		if !validID(id) {
			errs = append(errs, fmt.Errorf("the ID of %s must be 1 to %d letters, digits and dashes", what, maxID))
		}
	}
	word := func(what, s string) {
		if !isWord(s) {
			errs = append(errs, fmt.Errorf("%s must be a word of at most %d small letters, is %.40q", what, maxWord, s))
		}
	}
	for _, i := range b.Incidents {
		check("an incident", i.ID)
		word("why an incident has ended", string(i.Resolution))
	}
	for _, e := range b.Events {
		check("an event", e.ID)
		check("an event's incident", e.Incident)
		word("the kind of an event", string(e.Kind))
	}
	for _, s := range b.Silences {
		check("a silence", s.ID)
	}
	for _, s := range b.States {
		if s.Incident != "" {
			check("a state's incident", s.Incident)
		}
		if s.Phase > engine.Recovering {
			errs = append(errs, errors.New("no such phase"))
		}
	}
	return errors.Join(errs...)
}

// SaveBatch writes what one step of the engine has changed, and what plan says is
// to be sent about the events in it, in one transaction. When it returns nil, all
// of it survives loss of power; otherwise none of it is there, or with ErrBusy all
// or none. An event that is there already is left alone, and nothing is planned
// for it, so that an attempt may be repeated. Plan may be nil.
func (s *Store) SaveBatch(ctx context.Context, b engine.Batch, plan alerts.PlanFunc) error {
	const doing = "record incidents"
	if err := validateBatch(b); err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return s.writeTx(ctx, doing, func(ctx context.Context, w *txWriter) error {
		added, err := w.saveBatch(ctx, b)
		if err != nil || plan == nil || len(added.Events) == 0 {
			return err
		}
		return w.savePlanned(ctx, added, plan)
	})
}

// writeBody writes a row whose last column is the body of v.
func writeBody[T any](ctx context.Context, l *txWriter, text string, v T, values ...any) (bool, error) {
	body, err := encodeBody(v)
	if err != nil {
		return false, err
	}
	return l.writeRow(ctx, text, append(values, body)...)
}

// saveBatch writes a batch, and returns it with those events only that were not there.
func (l *txWriter) saveBatch(ctx context.Context, b engine.Batch) (engine.Batch, error) {
	added := b
	added.Events = nil
	for _, s := range b.States {
		if err := l.saveState(ctx, s); err != nil {
			return added, err
		}
	}
	for _, i := range b.Incidents {
		if _, err := writeBody(ctx, l, incidentTable.upsertSQL(), i, i.ID, cleanName(i.Key.Rule), cleanName(i.Key.Pool),
			ms(i.Opened), ms(i.Ended), btoi(i.PendingUnmute)); err != nil {
			return added, err
		}
	}
	for _, s := range b.Silences {
		if _, err := l.writeRow(ctx, silenceTable.upsertSQL(), s.ID, cleanName(s.Rule), cleanName(s.Pool), ms(s.From), ms(s.Until),
			cleanName(s.By), clean(s.Reason, maxReason), btoi(s.EndHandled)); err != nil {
			return added, err
		}
	}
	for _, e := range b.Events {
		isNew, err := writeBody(ctx, l, eventTable.insertIgnoreSQL(), e, e.Incident, clampCount(e.Seq), string(e.Kind), ms(e.At), cleanName(e.By))
		if err != nil {
			return added, err
		}
		if isNew {
			added.Events = append(added.Events, e)
		}
	}
	return added, nil
}

// saveState writes a state, or deletes one that says nothing.
func (l *txWriter) saveState(ctx context.Context, s engine.State) (err error) {
	rule, pool := cleanName(s.Key.Rule), cleanName(s.Key.Pool)
	if s.Blank() {
		_, err = l.exec(ctx, "DELETE FROM rule_states WHERE rule = ? AND pool = ?", rule, pool)
		return err
	}
	s.FlapTimes = s.FlapTimes[max(0, len(s.FlapTimes)-maxItems):]
	_, err = writeBody(ctx, l, stateTable.upsertSQL(), s, rule, pool, s.Incident)
	return err
}

// savePlanned adds the deliveries of new events.
func (l *txWriter) savePlanned(ctx context.Context, b engine.Batch, plan alerts.PlanFunc) error {
	first := make(map[string]int)
	for _, e := range b.Events {
		if seq, ok := first[e.Incident]; !ok || e.Seq < seq {
			first[e.Incident] = e.Seq
		}
	}
	var failed error
	ds := plan(b, alerts.TxView{Posted: func(incident string) []alerts.Destination {
		to, err := l.postedTo(ctx, incident, first[incident])
		failed = errors.Join(failed, err)
		return to
	}})
	if failed != nil {
		return failed
	}
	return l.saveOutboxChanges(ctx, alerts.Changes{Add: ds})
}

// postedTo reads where an incident has a message. What was sent about events that
// are only now being recorded does not count, unless it was sent elsewhere than
// planned: it was sent from memory while the record could not be written, planned
// without knowledge, and to be planned again it must find the same.
func (l *txWriter) postedTo(ctx context.Context, incident string, before int) ([]alerts.Destination, error) {
	return query(ctx, l.tx, deliveryTable.name, func(r *row) alerts.Destination { return oneOf(r, "destination", destinations) },
		`SELECT DISTINCT destination FROM deliveries WHERE incident = ? AND state <> 'dropped' AND (seq < ? OR diverted = 1) LIMIT 4`, incident, before)
}

// EngineJournal implements engine.Journal: it records what has happened together
// with what is to be sent about it. It is safe for concurrent use.
type EngineJournal struct {
	store *Store
	plan  alerts.PlanFunc
}

var _ engine.Journal = EngineJournal{}

// EngineJournal returns the engine's memory. Plan says what is to be sent about
// events; nil: nothing is.
func (s *Store) EngineJournal(plan alerts.PlanFunc) EngineJournal {
	return EngineJournal{store: s, plan: plan}
}

// Save implements engine.Journal.
func (j EngineJournal) Save(ctx context.Context, b engine.Batch) error {
	return j.store.SaveBatch(ctx, b, j.plan)
}

// selectLoadedSQL reads the incidents that the engine goes on with. Deliveries may know
// of later events than the incident: of such that were notified from memory, and lost
// when the process ended. Their numbers must not be given again, or what is sent
// about the next events would be taken for sent.
func selectLoadedSQL() string {
	return "SELECT i.*, coalesce((SELECT max(d.seq) FROM deliveries d WHERE d.incident = i.id), 0) AS delivered FROM (" +
		incidentTable.selectSQL() + `WHERE id IN (
			SELECT id FROM incidents WHERE ended_ms = 0 UNION SELECT id FROM incidents WHERE due = 1 UNION SELECT incident FROM rule_states)
		ORDER BY opened_ms, id LIMIT ?) i ORDER BY opened_ms, id`
}

// Load implements engine.Journal: incidents come in the order of their opening.
// ErrCorrupt: there are more rows than can ever have been written, or invalid ones.
func (j EngineJournal) Load(ctx context.Context) (engine.SavedState, error) {
	return read(ctx, j.store, "read the incidents", func(ctx context.Context, conn *sql.Conn) (saved engine.SavedState, err error) {
		saved.States, err = queryAtMost(ctx, conn, maxLoaded, stateTable.name, decodeState, stateTable.selectSQL()+"ORDER BY pool, rule LIMIT ?")
		if err != nil {
			return engine.SavedState{}, err
		}
		saved.Incidents, err = queryAtMost(ctx, conn, maxLoaded, incidentTable.name, func(r *row) engine.Incident {
			i := decodeIncident(r)
			i.Seq = max(i.Seq, r.count("delivered"))
			return i
		}, selectLoadedSQL())
		if err != nil {
			return engine.SavedState{}, err
		}
		saved.Silences, err = queryAtMost(ctx, conn, maxLoaded, silenceTable.name, decodeSilence,
			silenceTable.selectSQL()+"WHERE lifted = 0 ORDER BY from_ms, id LIMIT ?")
		if err != nil {
			return engine.SavedState{}, err
		}
		return saved, nil
	})
}

// IncidentFilter chooses incidents. The zero value means the newest ones.
type IncidentFilter struct {
	Open  bool      // only those that are open
	Since time.Time // only those opened at or after it; zero: all
	Pool  string    // only those of this pool; empty: all
	Rule  string    // only those of this rule; empty: all
	After string    // go on after this key, which came with the page before
	Limit int       // at most so many: 0 means DefaultLimit, more than MaxLimit means MaxLimit
}

// Incidents returns incidents, those opened last first, and the key of the next
// page, empty on the last. control.ErrUnknownCursor: After is not such a key.
func (s *Store) Incidents(ctx context.Context, f IncidentFilter) (found []engine.Incident, next string, err error) {
	found, err = read(ctx, s, "read the incidents", func(ctx context.Context, conn *sql.Conn) ([]engine.Incident, error) {
		text, args, err := f.statement()
		if err != nil {
			return nil, err
		}
		return query(ctx, conn, incidentTable.name, decodeIncident, text, args...)
	})
	found, next = truncatePage(f.page(), found, func(i engine.Incident) pageKey { return pageKey{i.Opened, i.ID} })
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
	return read(ctx, s, "read an incident", func(ctx context.Context, conn *sql.Conn) (h IncidentHistory, err error) {
		i, found, err := queryOne(ctx, conn, incidentTable.name, decodeIncident, incidentTable.selectSQL()+"WHERE id = ?", id)
		if err == nil && !found {
			err = ErrNoIncident
		}
		if err != nil {
			return IncidentHistory{}, err
		}
		h.Incident = i
		if h.Events, err = query(ctx, conn, eventTable.name, decodeEvent, selectEventsSQL(), id, maxHistory); err != nil {
			return IncidentHistory{}, err
		}
		if h.Deliveries, err = query(ctx, conn, deliveryTable.name, decodeDelivery, selectDeliveriesSQL(), id, maxHistory); err != nil {
			return IncidentHistory{}, err
		}
		slices.Reverse(h.Events)
		slices.Reverse(h.Deliveries)
		return h, nil
	})
}

func selectEventsSQL() string {
	return eventTable.selectSQL() + "WHERE incident = ? ORDER BY seq DESC LIMIT ?"
}

func selectDeliveriesSQL() string {
	return deliveryTable.selectSQL() + "WHERE incident = ? ORDER BY seq DESC, kind DESC, destination DESC LIMIT ?"
}
