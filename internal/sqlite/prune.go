package sqlite

import (
	"context"
	"database/sql"
	"time"
)

// pruneBatch is how many rows of a kind one transaction deletes, so that those who
// write in between do not wait for long.
const pruneBatch = 100

// selectEnded finds incidents that are over and done with: none that is open, due,
// remembered by a rule, or has something left to send.
const selectEnded = `SELECT id FROM incidents WHERE ended_ms > 0 AND ended_ms < ? AND due = 0
AND id NOT IN (SELECT incident FROM rule_states)
AND NOT EXISTS (SELECT 1 FROM deliveries d WHERE d.incident = incidents.id AND d.state IN ('queued', 'sending', 'retry', 'uncertain'))
ORDER BY ended_ms LIMIT ?`

// selectOrphans finds incidents of which only deliveries are there, none of them
// young or pending. What was told from memory before a process ended leaves such.
const selectOrphans = `SELECT incident FROM deliveries WHERE NOT EXISTS (SELECT 1 FROM incidents i WHERE i.id = deliveries.incident)
GROUP BY incident HAVING max(created_ms) < ? AND sum(CASE WHEN state IN ('queued', 'sending', 'retry', 'uncertain') THEN 1 ELSE 0 END) = 0
LIMIT ?`

// deleteIncident returns what deletes an incident, and all that belongs to it.
func deleteIncidentSQL() []string {
	return []string{
		"DELETE FROM incident_events WHERE incident = ?", "DELETE FROM deliveries WHERE incident = ?",
		"DELETE FROM delivery_roots WHERE incident = ?", "DELETE FROM incidents WHERE id = ?",
	}
}

const deleteSilences = `DELETE FROM silences WHERE id IN (SELECT id FROM silences WHERE lifted = 1 AND until_ms < ? ORDER BY id LIMIT ?)`

// deleteHours deletes whole hours.
const deleteHours = `DELETE FROM slo_hours WHERE (pool, hour_ms, run) IN (SELECT pool, hour_ms, run FROM slo_hours WHERE hour_ms < ? LIMIT ?)`

// Prune deletes what is older than a time: incidents that ended before it, with
// their events and deliveries, silences that are over, counts of objectives, runs of
// drills and the sums of their days. What is open or has yet to be sent stays,
// however old, and so does a drill's latest pass. It works in small steps, and
// returns how many incidents it has deleted, also with an error.
func (s *Store) Prune(ctx context.Context, before time.Time) (incidents int, err error) {
	for {
		var done, others int
		err := s.writeTx(ctx, "delete what is old", func(ctx context.Context, tx *sql.Tx) (err error) {
			done, others, err = s.newTxWriter(tx).prune(ctx, before)
			return err
		})
		if err != nil {
			return incidents, err
		}
		incidents += done
		if done+others == 0 {
			return incidents, nil
		}
	}
}

// prune makes one step, and returns how many incidents and other things it has
// deleted.
func (l *txWriter) prune(ctx context.Context, before time.Time) (incidents, others int, err error) {
	if incidents, err = l.deleteMatching(ctx, selectEnded, ms(before)); err != nil {
		return 0, 0, err
	}
	if others, err = l.deleteMatching(ctx, selectOrphans, ms(before)); err != nil {
		return 0, 0, err
	}
	runs, err := l.pruneRuns(ctx, ms(before))
	if err != nil {
		return 0, 0, err
	}
	others += runs
	for text, before := range map[string]int64{deleteSilences: ms(before), deleteHours: startOfHourMS(before), deleteDays: startOfDayMS(before)} {
		some, err := l.exec(ctx, text, before, pruneBatch)
		if err != nil {
			return 0, 0, err
		}
		others += int(btoi(some))
	}
	return incidents, others, nil
}

// deleteMatching deletes the incidents that a statement finds.
func (l *txWriter) deleteMatching(ctx context.Context, text string, before int64) (int, error) {
	ids, err := query(ctx, l.tx, 1, func(v []any) (any, error) { return v[0], nil }, text, before, pruneBatch)
	if err != nil {
		return 0, err
	}
	dropped := 0
	for _, id := range ids {
		gone, err := l.deleteIncident(ctx, id)
		if err != nil {
			return 0, err
		}
		dropped += int(btoi(gone)) // what cannot be deleted must not be counted for ever
	}
	return dropped, nil
}

// deleteIncident deletes an incident, and returns whether there was anything of it.
func (l *txWriter) deleteIncident(ctx context.Context, id any) (gone bool, err error) {
	for _, drop := range deleteIncidentSQL() {
		some, err := l.exec(ctx, drop, id)
		if err != nil {
			return gone, err
		}
		gone = gone || some
	}
	return gone, nil
}
