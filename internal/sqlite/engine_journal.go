package sqlite

import (
	"context"
	"database/sql"
	"fmt"

	"headgate/alerts"
	"headgate/engine"
)

// maxLoaded bounds what a start takes over of each kind: states, incidents, silences.
const maxLoaded = 10_000

// EngineJournal implements engine.Journal: it records what has happened together
// with what is to be sent about it. It is safe for concurrent use.
type EngineJournal struct {
	store *Store
	plan  alerts.PlanFunc
}

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
// of later events than the incident: of such that were told from memory, and lost
// when the process ended. Their numbers must not be given again, or what is sent
// about the next events would be taken for sent.
func selectLoadedSQL() string {
	return "SELECT i.*, (SELECT max(d.seq) FROM deliveries d WHERE d.incident = i.id) FROM (" +
		incidentTable.selectSQL() + `WHERE id IN (
			SELECT id FROM incidents WHERE ended_ms = 0 UNION SELECT id FROM incidents WHERE due = 1 UNION SELECT incident FROM rule_states)
		ORDER BY opened_ms, id LIMIT ?) i ORDER BY opened_ms, id`
}

// Load implements engine.Journal: incidents come in the order of their opening.
// ErrCorrupt: there is more than can ever have been, or what makes no sense.
func (j EngineJournal) Load(ctx context.Context) (engine.SavedState, error) {
	return read(ctx, j.store, "read the incidents", func(ctx context.Context, conn *sql.Conn) (saved engine.SavedState, err error) {
		if saved.States, err = loadRows(ctx, conn, stateTable, decodeState, stateTable.selectSQL()+"ORDER BY pool, rule LIMIT ?"); err != nil {
			return engine.SavedState{}, err
		}
		if saved.Incidents, err = loadRows(ctx, conn, incidentTable, decodeLoadedIncident, selectLoadedSQL(), "delivered"); err != nil {
			return engine.SavedState{}, err
		}
		saved.Silences, err = loadRows(ctx, conn, silenceTable, decodeSilence, silenceTable.selectSQL()+"WHERE lifted = 0 ORDER BY from_ms, id LIMIT ?")
		if err != nil {
			return engine.SavedState{}, err
		}
		return saved, nil
	})
}

// loadRows reads rows of a table, with more columns after those of the table.
func loadRows[T any](ctx context.Context, q queryer, t table, from func([]any) (T, error), text string, more ...string) ([]T, error) {
	out, err := query(ctx, q, len(t.columns)+len(more), from, text, maxLoaded+1)
	if len(out) > maxLoaded {
		return nil, fmt.Errorf("%w: %s has more than %d that are not over", ErrCorrupt, t.name, maxLoaded)
	}
	return out, err
}

func decodeLoadedIncident(v []any) (engine.Incident, error) {
	last := len(v) - 1
	i, err := decodeIncident(v[:last])
	if err != nil || v[last] == nil {
		return i, err
	}
	f := rowDecoder{table: deliveryTable.name}
	i.Seq = max(i.Seq, f.count("seq", v[last]))
	return i, f.err
}
