package sqlite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"headgate/engine"
)

var sloTable = table{name: "slo_hours", key: []string{"pool", "hour_ms", "run"}, columns: []string{"pool", "hour_ms", "run", "good", "bad"}}

// upsertSLOSQL keeps the higher numbers, whichever comes last.
func upsertSLOSQL() string {
	return sloTable.upsertSQL() + " WHERE excluded.good >= slo_hours.good AND excluded.bad >= slo_hours.bad"
}

const selectSLO = `SELECT coalesce(sum(good), 0) AS good, coalesce(sum(bad), 0) AS bad FROM slo_hours WHERE pool = ? AND hour_ms >= ?`

// SaveSLO records counts. Those that are lower than what was recorded before are
// passed over, so that attempts may be repeated, in any order. What other
// openings of the record have counted in the same hour adds to it.
func (s *Store) SaveSLO(ctx context.Context, counts []engine.SLOCount) error {
	const doing = "record counts of an objective"
	for _, c := range counts {
		if err := cmp.Or(checkName("the pool", c.Pool), checkCount(c.Good), checkCount(c.Bad)); err != nil {
			return fmt.Errorf("%s: %w", doing, err)
		}
	}
	return s.writeTx(ctx, doing, func(w *txWriter) {
		for _, c := range counts {
			w.writeRow(upsertSLOSQL(), c.Pool, startOfHourMS(c.Hour), s.session, c.Good, c.Bad)
		}
	})
}

// maxCount bounds one count, so that sums of many fit.
const maxCount = 1 << 40

func checkCount(n int64) error {
	if n < 0 || n > maxCount {
		return errors.New("a count must be from 0 to 2^40")
	}
	return nil
}

// startOfHourMS returns the beginning of the hour that a time is in.
func startOfHourMS(t time.Time) int64 {
	const length = int64(time.Hour / time.Millisecond)
	at := min(max(t.UnixMilli(), 0), maxTime)
	return at - at%length
}

// SLO returns what was counted in a pool, the whole of the hour included that
// since is in.
func (s *Store) SLO(ctx context.Context, pool string, since time.Time) (good, bad int64, err error) {
	sums, err := readAll(ctx, s, "read counts of an objective", sloTable, func(r *row) [2]int64 {
		return [2]int64{r.number("good", maxNumber), r.number("bad", maxNumber)}
	}, selectSLO, pool, startOfHourMS(since))
	if err != nil || len(sums) == 0 {
		return 0, 0, err
	}
	return sums[0][0], sums[0][1], nil
}
