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
// young or pending. What was sent from memory before a process ended leaves such.
const selectOrphans = `SELECT incident FROM deliveries WHERE NOT EXISTS (SELECT 1 FROM incidents i WHERE i.id = deliveries.incident)
GROUP BY incident HAVING max(created_ms) < ? AND sum(CASE WHEN state IN ('queued', 'sending', 'retry', 'uncertain') THEN 1 ELSE 0 END) = 0
LIMIT ?`

// selectOldRuns finds runs that ended. The last pass of each drill stays, however
// old: "last passed N days ago" must not become "never".
const selectOldRuns = `SELECT id FROM drill_runs WHERE at_ms < ? AND status = 'ended'
AND id NOT IN (SELECT passed FROM drill_latest) ORDER BY at_ms, id LIMIT ?`

// Statements that delete an incident, and a run of a drill, with all that belongs to it.
var (
	deleteIncident = []string{
		"DELETE FROM incident_events WHERE incident = ?", "DELETE FROM deliveries WHERE incident = ?",
		"DELETE FROM delivery_roots WHERE incident = ?", "DELETE FROM incidents WHERE id = ?",
	}
	deleteRun = []string{
		"DELETE FROM drill_parts WHERE run = ?", "DELETE FROM drill_series WHERE run = ?", "DELETE FROM drill_runs WHERE id = ?",
	}
)

const deleteSilences = `DELETE FROM silences WHERE id IN (SELECT id FROM silences WHERE lifted = 1 AND until_ms < ? ORDER BY id LIMIT ?)`

// deleteHours deletes whole hours.
const deleteHours = `DELETE FROM slo_hours WHERE (pool, hour_ms, run) IN (SELECT pool, hour_ms, run FROM slo_hours WHERE hour_ms < ? LIMIT ?)`

// deleteDays deletes whole days.
const deleteDays = `DELETE FROM drill_days WHERE (day_ms, drill, verdict) IN (SELECT day_ms, drill, verdict FROM drill_days WHERE day_ms < ? LIMIT ?)`

// Prune deletes what is older than a time: incidents that ended before it, with
// their events and deliveries, silences that are over, counts of objectives, runs of
// drills and the sums of their days. What is open or has yet to be sent stays,
// however old, and so does a drill's latest pass. It works in small steps, and
// returns how many incidents it has deleted, also with an error.
func (s *Store) Prune(ctx context.Context, before time.Time) (incidents int, err error) {
	for {
		done, err := write(ctx, s, "delete what is old", func(w *txWriter) pruned { return w.prune(before) })
		incidents += done.incidents
		if err != nil || done == (pruned{}) {
			return incidents, err
		}
	}
}

// pruned is how many incidents and other things one step has deleted.
type pruned struct{ incidents, others int }

// prune makes one step.
func (w *txWriter) prune(before time.Time) (done pruned) {
	done.incidents = w.deleteMatching(selectEnded, ms(before), deleteIncident)
	done.others = w.deleteMatching(selectOrphans, ms(before), deleteIncident)
	done.others += w.deleteMatching(selectOldRuns, ms(before), deleteRun)
	for text, before := range map[string]int64{
		deleteSilences: ms(before), deleteHours: startOfHourMS(before), deleteDays: startOfDayMS(before),
	} {
		done.others += int(btoi(w.exec(text, before, pruneBatch)))
	}
	return done
}

// deleteMatching deletes what a statement finds, and returns of how many something was deleted.
// What cannot be deleted is not counted, or each step would count it again.
func (w *txWriter) deleteMatching(find string, before int64, deletions []string) (deleted int) {
	for _, id := range query(&w.reader, table{}, firstValue, find, before, pruneBatch) {
		some := false
		for _, text := range deletions {
			some = w.exec(text, id) || some
		}
		deleted += int(btoi(some))
	}
	return deleted
}

// firstValue returns the first value of a row, whatever it is.
func firstValue(r *row) any { return r.values[0] }
