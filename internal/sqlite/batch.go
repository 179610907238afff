package sqlite

import (
	"context"
	"database/sql"
	"fmt"

	"headgate/alerts"
	"headgate/engine"
)

// deleteState forgets a state that says nothing.
const deleteState = `DELETE FROM rule_states WHERE rule = ? AND pool = ?`

// selectPosted reads where an incident has a message. What was sent about events that
// are only now being recorded does not count, unless it was sent elsewhere than
// planned: it went out of memory while the record could not be written, planned
// without knowledge, and to be planned again it must find the same.
const selectPosted = `SELECT DISTINCT destination FROM deliveries
WHERE incident = ? AND state <> 'dropped' AND (seq < ? OR diverted = 1) LIMIT 4`

// SaveBatch writes what one step of the engine has changed, and what plan says is
// to be sent about the events in it, in one transaction. When it returns nil, all
// of it survives loss of power; otherwise none of it is there, or with ErrBusy all
// or none. An event that is there already is left alone, and nothing is planned
// for it, so that an attempt may be repeated. Plan may be nil.
func (s *Store) SaveBatch(ctx context.Context, b engine.Batch, plan alerts.PlanFunc) error {
	if err := validateBatch(b); err != nil {
		return fmt.Errorf("record incidents: %w", err)
	}
	return s.writeTx(ctx, "record incidents", func(ctx context.Context, tx *sql.Tx) error {
		l := s.newTxWriter(tx)
		added, err := l.saveBatch(ctx, b)
		if err != nil || plan == nil || len(added.Events) == 0 {
			return err
		}
		return l.savePlanned(ctx, added, plan)
	})
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
		if _, err := l.writeRow(ctx, incidentTable.upsertSQL(), incidentValues(i)); err != nil {
			return added, err
		}
	}
	for _, s := range b.Silences {
		if _, err := l.writeRow(ctx, silenceTable.upsertSQL(), silenceValues(s)); err != nil {
			return added, err
		}
	}
	for _, e := range b.Events {
		isNew, err := l.writeRow(ctx, eventTable.insertIgnoreSQL(), eventValues(e))
		if err != nil {
			return added, err
		}
		if isNew {
			added.Events = append(added.Events, e)
		}
	}
	return added, nil
}

func (l *txWriter) saveState(ctx context.Context, s engine.State) error {
	if s.Blank() {
		_, err := l.exec(ctx, deleteState, cleanName(s.Key.Rule), cleanName(s.Key.Pool))
		return err
	}
	_, err := l.writeRow(ctx, stateTable.upsertSQL(), stateValues(s))
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
		if err != nil && failed == nil {
			failed = err
		}
		return to
	}})
	if failed != nil {
		return failed
	}
	return l.saveOutboxChanges(ctx, alerts.Changes{Add: ds})
}

func (l *txWriter) postedTo(ctx context.Context, incident string, before int) ([]alerts.Destination, error) {
	return query(ctx, l.tx, 1, func(v []any) (alerts.Destination, error) {
		f := rowDecoder{table: deliveryTable.name}
		to := alerts.Destination(f.oneOf("destination", v[0], destinations()))
		return to, f.err
	}, selectPosted, incident, before)
}
