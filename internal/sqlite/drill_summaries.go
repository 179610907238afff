package sqlite

import (
	"context"
	"time"

	"headgate/runbooks/drill"
)

// upsertDay adds a run to its day.
const upsertDay = `
INSERT INTO drill_days (day_ms, drill, verdict, runs, judged, margin, tightest, writer) VALUES (?, ?, ?, 1, ?, ?, ?, ?)
ON CONFLICT (day_ms, drill, verdict) DO UPDATE SET runs = runs + 1, margin = margin + excluded.margin,
tightest = CASE WHEN judged = 0 THEN excluded.tightest WHEN excluded.judged = 0 THEN tightest ELSE min(tightest, excluded.tightest) END,
judged = judged + excluded.judged, writer = excluded.writer`

// updateSummaries takes a run that has just ended into what is kept of days and drills:
// the history must not have to count runs to draw a year.
func (l drillTxWriter) updateSummaries(ctx context.Context, r runRow) error {
	judged, margin := int64(0), 0.0
	if h, ok := r.Tightest(); ok {
		judged, margin = 1, clampMargin(h.Margin)
	}
	if _, err := l.writeRow(ctx, upsertDay, []any{startOfDayMS(r.at), r.Drill, string(r.Verdict), judged, margin, margin}); err != nil {
		return err
	}
	all, err := query(ctx, l.tx, len(latestTable.columns), decodeLatest, latestTable.selectSQL()+"WHERE drill = ?", r.Drill)
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
	if r.Verdict == drill.Passed && !r.at.Before(latest.PassedAt) {
		latest.PassedRun, latest.PassedAt = r.ID, r.at
	}
	_, err = l.writeRow(ctx, latestTable.upsertSQL(), []any{
		r.Drill, cleanName(latest.Name), latest.Run, string(latest.Verdict), ms(latest.At), latest.PassedRun, ms(latest.PassedAt),
	})
	return err
}

// clampMargin keeps one wild margin from drowning all others of its day.
func clampMargin(margin float64) float64 { return min(max(finiteOrZero(margin), -1000), 1000) }

// startOfDayMS returns the beginning of the day, in UTC, that a time is in.
func startOfDayMS(t time.Time) int64 {
	const length = int64(24 * time.Hour / time.Millisecond)
	at := ms(t)
	return at - at%length
}
