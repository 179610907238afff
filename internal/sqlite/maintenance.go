package sqlite

import (
	"context"
	"time"
)

// checkpointEvery is how often the -wal file is emptied. SQLite moves its content
// into the database by itself, but lets the file keep its size.
const checkpointEvery = 5 * time.Minute

// maintain empties the -wal file now and then until the Store is closed.
func (s *Store) maintain() {
	defer s.background.Done()
	for sleepCtx(s.ctx, checkpointEvery) {
		if err := s.checkpoint(s.ctx); err != nil && s.ctx.Err() == nil {
			s.log.Warn("the write-ahead log of the record was not emptied; trying again later", "error", err)
		}
	}
}

// checkpoint empties the -wal file. One who reads meanwhile may keep it from
// that, which is no error.
func (s *Store) checkpoint(ctx context.Context) error {
	ctx, cancel := s.withLimit(ctx, callLimit)
	defer cancel()
	_, err := runBounded(ctx, s.writeSlot, func() (struct{}, error) {
		var blocked, pages, moved int
		return struct{}{}, s.writer.QueryRowContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&blocked, &pages, &moved)
	})
	if isBusy(err) {
		return nil
	}
	return s.wrapCallErr("empty the write-ahead log", err)
}

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
		err := s.writeTx(ctx, "delete what is old", func(ctx context.Context, w *txWriter) (err error) {
			done, others, err = w.prune(ctx, before)
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
	ids, err := query(ctx, l.tx, incidentTable.name, firstValue, text, before, pruneBatch)
	if err != nil {
		return 0, err
	}
	dropped := 0
	for _, id := range ids {
		gone, err := l.deleteIncident(ctx, id)
		if err != nil {
			return 0, err
		}
		dropped += int(btoi(gone)) // what cannot be deleted must not be counted again in each round
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

// selectOldRuns finds runs that ended. The last pass of each drill stays, however
// old: "last passed N days ago" must not become "never".
const selectOldRuns = `SELECT id FROM drill_runs WHERE at_ms < ? AND status = 'ended'
AND id NOT IN (SELECT passed FROM drill_latest) ORDER BY at_ms, id LIMIT ?`

// deleteDays deletes whole days.
const deleteDays = `DELETE FROM drill_days WHERE (day_ms, drill, verdict) IN (SELECT day_ms, drill, verdict FROM drill_days WHERE day_ms < ? LIMIT ?)`

// deleteRunSQL returns what deletes a run, and all that belongs to it.
func deleteRunSQL() []string {
	return []string{"DELETE FROM drill_parts WHERE run = ?", "DELETE FROM drill_series WHERE run = ?", "DELETE FROM drill_runs WHERE id = ?"}
}

// pruneRuns makes one step, and returns how many things it has deleted.
func (l *txWriter) pruneRuns(ctx context.Context, before int64) (gone int, err error) {
	ids, err := query(ctx, l.tx, runTable.name, firstValue, selectOldRuns, before, pruneBatch)
	if err != nil {
		return 0, err
	}
	for _, id := range ids {
		some := false
		for _, drop := range deleteRunSQL() {
			one, err := l.exec(ctx, drop, id)
			if err != nil {
				return gone, err
			}
			some = some || one
		}
		gone += int(btoi(some)) // what cannot be deleted must not be counted again in each round
	}
	return gone, nil
}

// firstValue returns the only value of a row, whatever it is.
func firstValue(r *row) any { return r.values[0] }
