package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"headgate/runbooks/drill"
)

const (
	maxDayRows = 200_000 // days times drills times verdicts
	maxDrills  = 10_000  // ever seen
)

// History returns sums over days, the oldest of which are left out when there are
// too many, and how each drill stands. It reads sums, not runs.
func (d *Drills) History(ctx context.Context, q drill.HistoryQuery) (drill.History, error) {
	return read(ctx, d.store, "read the history of drills", func(ctx context.Context, conn *sql.Conn) (h drill.History, err error) {
		drills, err := drillIDsByName(ctx, conn, q.Drill)
		if err != nil {
			return h, err
		}
		if h.Days, err = loadDays(ctx, conn, drills, q); err != nil {
			return drill.History{}, err
		}
		h.Latest, err = loadLatest(ctx, conn, drills)
		if err != nil {
			return drill.History{}, err
		}
		return h, nil
	})
}

// inClause completes a condition that a drill is one of some; none means all.
func inClause(drills []string) (text string, args []any) {
	if len(drills) == 0 {
		return "", nil
	}
	for _, id := range drills {
		args = append(args, id)
	}
	return " AND drill IN (" + strings.Repeat("?, ", len(drills)-1) + "?)", args
}

// dayRange is the first and the last day of a query, within their bounds.
func dayRange(q drill.HistoryQuery) (first, last int64) {
	const length = int64(24 * time.Hour / time.Millisecond)
	first, last = startOfDayMS(q.Since), maxTime
	if !q.Until.IsZero() {
		last = startOfDayMS(q.Until)
		first = max(first, last-drill.MaxDays*length)
	}
	return first, last
}

func loadDays(ctx context.Context, q queryer, drills []string, f drill.HistoryQuery) ([]drill.Day, error) {
	first, last := dayRange(f)
	text, args := inClause(drills)
	rows, err := query(ctx, q, 7, decodeDay, `SELECT day_ms, drill, verdict, runs, judged, margin, tightest FROM drill_days
WHERE day_ms >= ? AND day_ms <= ?`+text+" ORDER BY day_ms DESC, drill DESC, verdict DESC LIMIT ?",
		append(append([]any{first, last}, args...), maxDayRows)...)
	if err != nil {
		return nil, err
	}
	slices.Reverse(rows)
	var days []drill.Day
	for _, r := range rows {
		if n := len(days); n > 0 && days[n-1].Day.Equal(r.Day) && days[n-1].Drill == r.Drill {
			days[n-1] = mergeDays(days[n-1], r)
			continue
		}
		days = append(days, r)
	}
	return days, nil
}

// decodeDay reads what the runs with one verdict came to.
func decodeDay(v []any) (drill.Day, error) {
	f := rowDecoder{table: "drill_days"}
	d := drill.Day{
		Day: f.time("day_ms", v[0]), Drill: f.keyName("drill", v[1]),
		Verdicts:   map[drill.Verdict]int{drill.Verdict(f.word("verdict", v[2])): f.count("runs", v[3])},
		WithMargin: f.count("judged", v[4]), MarginSum: f.finite("margin", v[5]), Tightest: f.finite("tightest", v[6]),
	}
	return d, f.err
}

// mergeDays adds up what is of one day and one drill.
func mergeDays(a, b drill.Day) drill.Day {
	switch {
	case a.WithMargin == 0:
		a.Tightest = b.Tightest
	case b.WithMargin > 0:
		a.Tightest = min(a.Tightest, b.Tightest)
	}
	a.WithMargin, a.MarginSum = a.WithMargin+b.WithMargin, a.MarginSum+b.MarginSum
	for v, n := range b.Verdicts {
		a.Verdicts[v] += n
	}
	return a
}

func loadLatest(ctx context.Context, q queryer, drills []string) ([]drill.Latest, error) {
	text, args := inClause(drills)
	all, err := query(ctx, q, len(latestTable.columns), decodeLatest,
		latestTable.selectSQL()+"WHERE drill >= ''"+text+" ORDER BY drill LIMIT ?", append(args, maxDrills+1)...)
	if len(all) > maxDrills {
		return nil, fmt.Errorf("%w: drill_latest has more than %d drills", ErrCorrupt, maxDrills)
	}
	return all, err
}

// Latest returns how each drill stands that was ever seen, by ID.
func (d *Drills) Latest(ctx context.Context) ([]drill.Latest, error) {
	return read(ctx, d.store, "read how drills stand", func(ctx context.Context, conn *sql.Conn) ([]drill.Latest, error) {
		return loadLatest(ctx, conn, nil)
	})
}

const selectFirstDue = `
SELECT drill, COALESCE((SELECT at_ms FROM drill_runs WHERE drill_runs.drill = drill_latest.drill AND cause <> ? ORDER BY at_ms, id LIMIT 1), 0)
FROM drill_latest ORDER BY drill LIMIT ?`

// FirstDue returns when the schedule of each drill was first seen to come, whatever
// came of it, by ID. Drills that were only ever run by hand are not there.
func (d *Drills) FirstDue(ctx context.Context) (map[string]time.Time, error) {
	type first struct {
		drill string
		at    time.Time
	}
	all, err := read(ctx, d.store, "read when drills were first due", func(ctx context.Context, conn *sql.Conn) ([]first, error) {
		return query(ctx, conn, 2, func(v []any) (first, error) {
			f := rowDecoder{table: "drill_runs"}
			return first{f.keyName("drill", v[0]), f.optionalTime("at_ms", v[1])}, f.err
		}, selectFirstDue, string(drill.ByHand), maxDrills)
	})
	dues := make(map[string]time.Time, len(all))
	for _, f := range all {
		if !f.at.IsZero() {
			dues[f.drill] = f.at
		}
	}
	return dues, err
}
