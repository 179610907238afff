package sqlite

import (
	"context"
	"database/sql"
	"fmt"

	"headgate/alerts"
	"headgate/engine"
)

// dropState forgets a state that says nothing.
const dropState = `DELETE FROM rule_states WHERE rule = ? AND pool = ?`

// posted reads where an incident has a message. What was sent about events that
// are only now being recorded does not count, unless it was sent elsewhere than
// planned: it went out of memory while the record could not be written, planned
// without knowledge, and to be planned again it must find the same.
const posted = `SELECT DISTINCT destination FROM deliveries
WHERE incident = ? AND state <> 'dropped' AND (seq < ? OR diverted = 1) LIMIT 4`

// SaveBatch writes what one step of the engine has changed, and what plan says is
// to be sent about the events in it, in one transaction. When it returns nil, all
// of it survives loss of power; otherwise none of it is there, or with ErrBusy all
// or none. An event that is there already is left alone, and nothing is planned
// for it, so that an attempt may be repeated. Plan may be nil.
func (s *Store) SaveBatch(ctx context.Context, b engine.Batch, plan alerts.PlanFunc) error {
	if err := writableBatch(b); err != nil {
		return fmt.Errorf("record incidents: %w", err)
	}
	return s.write(ctx, "record incidents", func(ctx context.Context, tx *sql.Tx) error {
		l := s.ledger(tx)
		added, err := l.batch(ctx, b)
		if err != nil || plan == nil || len(added.Events) == 0 {
			return err
		}
		return l.planned(ctx, added, plan)
	})
}

// batch writes a batch, and returns it with those events only that were not there.
func (l *ledger) batch(ctx context.Context, b engine.Batch) (engine.Batch, error) {
	added := b
	added.Events = nil
	for _, s := range b.States {
		if err := l.state(ctx, s); err != nil {
			return added, err
		}
	}
	for _, i := range b.Incidents {
		if _, err := l.write(ctx, incidentTable.put(), incidentValues(i)); err != nil {
			return added, err
		}
	}
	for _, s := range b.Silences {
		if _, err := l.write(ctx, silenceTable.put(), silenceValues(s)); err != nil {
			return added, err
		}
	}
	for _, e := range b.Events {
		isNew, err := l.write(ctx, eventTable.add(), eventValues(e))
		if err != nil {
			return added, err
		}
		if isNew {
			added.Events = append(added.Events, e)
		}
	}
	return added, nil
}

func (l *ledger) state(ctx context.Context, s engine.State) error {
	if s.Blank() {
		_, err := l.exec(ctx, dropState, short(s.Key.Rule), short(s.Key.Pool))
		return err
	}
	_, err := l.write(ctx, stateTable.put(), stateValues(s))
	return err
}

// planned adds the deliveries of new events.
func (l *ledger) planned(ctx context.Context, b engine.Batch, plan alerts.PlanFunc) error {
	first := make(map[string]int)
	for _, e := range b.Events {
		if seq, ok := first[e.Incident]; !ok || e.Seq < seq {
			first[e.Incident] = e.Seq
		}
	}
	var failed error
	ds := plan(b, alerts.Known{Posted: func(incident string) []alerts.Destination {
		to, err := l.posted(ctx, incident, first[incident])
		if err != nil && failed == nil {
			failed = err
		}
		return to
	}})
	if failed != nil {
		return failed
	}
	return l.changes(ctx, alerts.Changes{Add: ds})
}

func (l *ledger) posted(ctx context.Context, incident string, before int) ([]alerts.Destination, error) {
	return query(ctx, l.tx, 1, func(v []any) (alerts.Destination, error) {
		f := fields{table: deliveryTable.name}
		to := alerts.Destination(f.one("destination", v[0], destinations()))
		return to, f.bad
	}, posted, incident, before)
}
