package sqlite

import (
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
	for _, c := range counts {
		if err := validateSLOCount(c); err != nil {
			return fmt.Errorf("record counts of an objective: %w", err)
		}
	}
	return s.writeTx(ctx, "record counts of an objective", func(ctx context.Context, l *txWriter) error {
		for _, c := range counts {
			if _, err := l.writeRow(ctx, upsertSLOSQL(), c.Pool, startOfHourMS(c.Hour), s.session, c.Good, c.Bad); err != nil {
				return err
			}
		}
		return nil
	})
}

// maxCount bounds one count, so that sums of many fit.
const maxCount = 1 << 40

func validateSLOCount(c engine.SLOCount) error {
	switch {
	case !isName(c.Pool):
		return fmt.Errorf("the pool must be a name of at most %d bytes", maxName)
	case c.Good < 0 || c.Good > maxCount || c.Bad < 0 || c.Bad > maxCount:
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
	sums, err := readAll(ctx, s, "read counts of an objective", sloTable.name, func(r *row) [2]int64 {
		return [2]int64{r.number("good", maxNumber), r.number("bad", maxNumber)}
	}, selectSLO, pool, startOfHourMS(since))
	if err != nil || len(sums) == 0 {
		return 0, 0, err
	}
	return sums[0][0], sums[0][1], nil
}
