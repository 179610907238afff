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
		drills, err := namesakes(ctx, conn, q.Drill)
		if err != nil {
			return h, err
		}
		if h.Days, err = daysOf(ctx, conn, drills, q); err != nil {
			return drill.History{}, err
		}
		h.Latest, err = latestOf(ctx, conn, drills)
		if err != nil {
			return drill.History{}, err
		}
		return h, nil
	})
}

// among completes a condition that a drill is one of some; none means all.
func among(drills []string) (text string, args []any) {
	if len(drills) == 0 {
		return "", nil
	}
	for _, id := range drills {
		args = append(args, id)
	}
	return " AND drill IN (" + strings.Repeat("?, ", len(drills)-1) + "?)", args
}

// span is the first and the last day of a query, within their bounds.
func span(q drill.HistoryQuery) (first, last int64) {
	const length = int64(24 * time.Hour / time.Millisecond)
	first, last = day(q.Since), maxTime
	if !q.Until.IsZero() {
		last = day(q.Until)
		first = max(first, last-drill.MaxDays*length)
	}
	return first, last
}

func daysOf(ctx context.Context, q queryer, drills []string, f drill.HistoryQuery) ([]drill.Day, error) {
	first, last := span(f)
	text, args := among(drills)
	rows, err := query(ctx, q, 7, readDay, `SELECT day_ms, drill, verdict, runs, judged, margin, tightest FROM drill_days
WHERE day_ms >= ? AND day_ms <= ?`+text+" ORDER BY day_ms DESC, drill DESC, verdict DESC LIMIT ?",
		append(append([]any{first, last}, args...), maxDayRows)...)
	if err != nil {
		return nil, err
	}
	slices.Reverse(rows)
	var days []drill.Day
	for _, r := range rows {
		if n := len(days); n > 0 && days[n-1].Day.Equal(r.Day) && days[n-1].Drill == r.Drill {
			days[n-1] = sum(days[n-1], r)
			continue
		}
		days = append(days, r)
	}
	return days, nil
}

// readDay reads what the runs with one verdict came to.
func readDay(v []any) (drill.Day, error) {
	f := fields{table: "drill_days"}
	d := drill.Day{
		Day: f.time("day_ms", v[0]), Drill: f.named("drill", v[1]),
		Verdicts: map[drill.Verdict]int{drill.Verdict(f.word("verdict", v[2])): f.count("runs", v[3])},
		Judged:   f.count("judged", v[4]), Margin: f.finite("margin", v[5]), Tightest: f.finite("tightest", v[6]),
	}
	return d, f.bad
}

// sum adds up what is of one day and one drill.
func sum(a, b drill.Day) drill.Day {
	switch {
	case a.Judged == 0:
		a.Tightest = b.Tightest
	case b.Judged > 0:
		a.Tightest = min(a.Tightest, b.Tightest)
	}
	a.Judged, a.Margin = a.Judged+b.Judged, a.Margin+b.Margin
	for v, n := range b.Verdicts {
		a.Verdicts[v] += n
	}
	return a
}

func latestOf(ctx context.Context, q queryer, drills []string) ([]drill.Latest, error) {
	text, args := among(drills)
	all, err := query(ctx, q, len(latestTable.columns), readLatest,
		latestTable.selects()+"WHERE drill >= ''"+text+" ORDER BY drill LIMIT ?", append(args, maxDrills+1)...)
	if len(all) > maxDrills {
		return nil, fmt.Errorf("%w: drill_latest has more than %d drills", ErrCorrupt, maxDrills)
	}
	return all, err
}

// Latest returns how each drill stands that was ever seen, by ID.
func (d *Drills) Latest(ctx context.Context) ([]drill.Latest, error) {
	return read(ctx, d.store, "read how drills stand", func(ctx context.Context, conn *sql.Conn) ([]drill.Latest, error) {
		return latestOf(ctx, conn, nil)
	})
}

const firstDues = `
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
			f := fields{table: "drill_runs"}
			return first{f.named("drill", v[0]), f.when("at_ms", v[1])}, f.bad
		}, firstDues, string(drill.ByHand), maxDrills)
	})
	dues := make(map[string]time.Time, len(all))
	for _, f := range all {
		if !f.at.IsZero() {
			dues[f.drill] = f.at
		}
	}
	return dues, err
}
