package sqlite

import (
	"context"
	"time"

	"headgate/runbooks/drill"
)

// addToDay adds a run to its day.
const addToDay = `
INSERT INTO drill_days (day_ms, drill, verdict, runs, judged, margin, tightest, writer) VALUES (?, ?, ?, 1, ?, ?, ?, ?)
ON CONFLICT (day_ms, drill, verdict) DO UPDATE SET runs = runs + 1, margin = margin + excluded.margin,
tightest = CASE WHEN judged = 0 THEN excluded.tightest WHEN excluded.judged = 0 THEN tightest ELSE min(tightest, excluded.tightest) END,
judged = judged + excluded.judged, writer = excluded.writer`

// account takes a run that has just ended into what is kept of days and drills:
// the history must not have to count runs to draw a year.
func (l drillLedger) account(ctx context.Context, r runRow) error {
	judged, margin := int64(0), 0.0
	if h, ok := r.Tightest(); ok {
		judged, margin = 1, bounded(h.Margin)
	}
	if _, err := l.write(ctx, addToDay, []any{day(r.at), r.Drill, string(r.Verdict), judged, margin, margin}); err != nil {
		return err
	}
	all, err := query(ctx, l.tx, len(latestTable.columns), readLatest, latestTable.selects()+"WHERE drill = ?", r.Drill)
	if err != nil {
		return err
	}
	var latest drill.Latest
	if len(all) > 0 {
		latest = all[0]
	}
	if len(all) == 0 || !r.at.Before(latest.At) {
		latest.Name, latest.Run, latest.Verdict, latest.At = r.Name, r.ID, r.Verdict, r.at
	}
	if r.Verdict == drill.Passed && !r.at.Before(latest.PassAt) {
		latest.Passed, latest.PassAt = r.ID, r.at
	}
	_, err = l.write(ctx, latestTable.put(), []any{
		r.Drill, short(latest.Name), latest.Run, string(latest.Verdict), ms(latest.At), latest.Passed, ms(latest.PassAt),
	})
	return err
}

// bounded keeps one wild margin from drowning all others of its day.
func bounded(margin float64) float64 { return min(max(finite(margin), -1000), 1000) }

// day returns the beginning of the day, in UTC, that a time is in.
func day(t time.Time) int64 {
	const length = int64(24 * time.Hour / time.Millisecond)
	at := ms(t)
	return at - at%length
}
