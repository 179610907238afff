package sqlite

import (
	"context"
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
	for _, i := range b.Incidents {
		errs = append(errs, checkID("the ID of an incident", i.ID), checkWord("the resolution of an incident", string(i.Resolution)))
	}
	for _, e := range b.Events {
		errs = append(errs, checkID("the ID of an event", e.ID), checkID("the incident of an event", e.Incident),
			checkWord("the kind of an event", string(e.Kind)))
	}
	for _, s := range b.Silences {
		errs = append(errs, checkID("the ID of a silence", s.ID))
	}
	for _, s := range b.States {
		if s.Incident != "" {
			errs = append(errs, checkID("the incident of a state", s.Incident))
		}
		if s.Phase > engine.Recovering {
			errs = append(errs, errors.New("no such phase"))
		}
	}
	return errors.Join(errs...)
}

func checkWord(what, s string) error {
	if !isWord(s) {
		return fmt.Errorf("%s must be a word of at most %d small letters, is %.40q", what, maxWord, s)
	}
	return nil
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
	return s.writeTx(ctx, doing, func(w *txWriter) {
		if added := w.saveBatch(b); plan != nil && len(added.Events) > 0 {
			w.savePlanned(added, plan)
		}
	})
}

// saveBatch writes a batch, and returns it with those events only that were not there.
func (w *txWriter) saveBatch(b engine.Batch) (added engine.Batch) {
	for _, s := range b.States {
		w.saveState(s)
	}
	for _, i := range b.Incidents {
		writeBody(w, incidentTable.upsertSQL(), i, i.ID, cleanName(i.Key.Rule), cleanName(i.Key.Pool),
			ms(i.Opened), ms(i.Ended), btoi(i.PendingUnmute))
	}
	for _, s := range b.Silences {
		w.writeRow(silenceTable.upsertSQL(), s.ID, cleanName(s.Rule), cleanName(s.Pool), ms(s.From), ms(s.Until),
			cleanName(s.By), clean(s.Reason, maxReason), btoi(s.EndHandled))
	}
	added, added.Events = b, nil
	for _, e := range b.Events {
		if writeBody(w, eventTable.insertIgnoreSQL(), e, e.Incident, clampCount(e.Seq), string(e.Kind), ms(e.At), cleanName(e.By)) {
			added.Events = append(added.Events, e)
		}
	}
	return added
}

// saveState writes a state, or deletes one that says nothing.
func (w *txWriter) saveState(s engine.State) {
	rule, pool := cleanName(s.Key.Rule), cleanName(s.Key.Pool)
	if s.Blank() {
		w.exec("DELETE FROM rule_states WHERE rule = ? AND pool = ?", rule, pool)
		return
	}
	s.FlapTimes = s.FlapTimes[max(0, len(s.FlapTimes)-maxItems):]
	writeBody(w, stateTable.upsertSQL(), s, rule, pool, s.Incident)
}

// savePlanned adds the deliveries of new events.
func (w *txWriter) savePlanned(b engine.Batch, plan alerts.PlanFunc) {
	first := make(map[string]int)
	for _, e := range b.Events {
		if seq, ok := first[e.Incident]; !ok || e.Seq < seq {
			first[e.Incident] = e.Seq
		}
	}
	c := alerts.Changes{Add: plan(b, alerts.TxView{Posted: func(incident string) []alerts.Destination {
		return w.postedTo(incident, first[incident])
	}})}
	if err := validateOutboxChanges(c); err != nil {
		w.fail(err)
	}
	w.saveOutboxChanges(c)
}

// postedTo reads where an incident has a message. What was sent about events that
// are only now being recorded does not count, unless it was sent elsewhere than
// planned: it was sent from memory while the record could not be written, planned
// without knowledge, and to be planned again it must find the same.
func (w *txWriter) postedTo(incident string, before int) []alerts.Destination {
	return query(&w.reader, deliveryTable, func(r *row) alerts.Destination { return oneOf(r, "destination", destinations) },
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
	return read(ctx, j.store, "read the incidents", func(r *reader) engine.SavedState {
		return engine.SavedState{
			States: queryAtMost(r, maxLoaded, stateTable, decodeState, stateTable.selectSQL()+"ORDER BY pool, rule LIMIT ?"),
			Incidents: queryAtMost(r, maxLoaded, incidentTable, func(r *row) engine.Incident {
				i := decodeIncident(r)
				i.Seq = max(i.Seq, r.count("delivered"))
				return i
			}, selectLoadedSQL()),
			Silences: queryAtMost(r, maxLoaded, silenceTable, decodeSilence,
				silenceTable.selectSQL()+"WHERE lifted = 0 ORDER BY from_ms, id LIMIT ?"),
		}
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
	l, err := read(ctx, s, "read the incidents", func(r *reader) list[engine.Incident] {
		p := newPage(r, f.Since, f.After, f.Limit)
		text, args := f.statement(p)
		return truncatePage(p, query(r, incidentTable, decodeIncident, text, args...),
			func(i engine.Incident) pageKey { return pageKey{i.Opened, i.ID} })
	})
	return l.items, l.next, err
}

// statement is answered in the order of one of two indexes. Pool and rule are
// looked for along it: there are not so many incidents.
func (f IncidentFilter) statement(p page) (text string, args []any) {
	text, args = incidentTable.selectSQL()+"WHERE opened_ms >= ?", []any{p.sinceMS()}
	if f.Open {
		text += " AND ended_ms = 0"
	}
	if f.Pool != "" {
		text, args = text+" AND pool = ?", append(args, f.Pool)
	}
	if f.Rule != "" {
		text, args = text+" AND rule = ?", append(args, f.Rule)
	}
	return p.statement(text, "opened_ms", args...)
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
	return read(ctx, s, "read an incident", func(r *reader) IncidentHistory {
		i, found := queryOne(r, incidentTable, decodeIncident, incidentTable.selectSQL()+"WHERE id = ?", id)
		if !found {
			r.fail(ErrNoIncident)
		}
		h := IncidentHistory{
			Incident:   i,
			Events:     query(r, eventTable, decodeEvent, selectEventsSQL(), id, maxHistory),
			Deliveries: query(r, deliveryTable, decodeDelivery, selectDeliveriesSQL(), id, maxHistory),
		}
		slices.Reverse(h.Events)
		slices.Reverse(h.Deliveries)
		return h
	})
}

func selectEventsSQL() string {
	return eventTable.selectSQL() + "WHERE incident = ? ORDER BY seq DESC LIMIT ?"
}

func selectDeliveriesSQL() string {
	return deliveryTable.selectSQL() + "WHERE incident = ? ORDER BY seq DESC, kind DESC, destination DESC LIMIT ?"
}
