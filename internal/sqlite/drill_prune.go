package sqlite

import "context"

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
	ids, err := query(ctx, l.tx, 1, func(v []any) (any, error) { return v[0], nil }, selectOldRuns, before, pruneBatch)
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
		gone += int(btoi(some)) // what cannot be deleted must not be counted for ever
	}
	return gone, nil
}
