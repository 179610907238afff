package sqlite

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"headgate/runbooks/drill"
)

// maxDrillsPerName bounds the drills that have had one name.
const maxDrillsPerName = 20

// Run implements drill.Store.
func (d *Drills) Run(ctx context.Context, id string) (drill.Run, error) {
	return read(ctx, d.store, "read a run of a drill", runLoader(id))
}

// ReadRun is Drills.Run for a command.
func ReadRun(ctx context.Context, dir, id string) (drill.Run, error) {
	return readFromDir(ctx, dir, "read a run of a drill", runLoader(id))
}

func runLoader(id string) func(*reader) drill.Run {
	return func(r *reader) drill.Run {
		if !validID(id) {
			r.fail(drill.ErrNoRun)
		}
		return loadRun(r, id).Run
	}
}

// Runs implements drill.Store. control.ErrUnknownCursor: After is not a key that came with a page.
func (d *Drills) Runs(ctx context.Context, q drill.Query) (runs []drill.Run, next string, err error) {
	l, err := read(ctx, d.store, "read the runs of drills", pageLoader(q))
	return l.items, l.next, err
}

// ReadRuns is Drills.Runs for a command: it reads a data directory, whether or not
// a service runs there. ErrNoRecord: there is no record.
func ReadRuns(ctx context.Context, dir string, q drill.Query) (runs []drill.Run, next string, err error) {
	l, err := readFromDir(ctx, dir, "read the runs of drills", pageLoader(q))
	return l.items, l.next, err
}

// pageLoader reads a page of runs. Each statement is answered by one index alone, in its
// order, and reads no more than a page; what they find is merged.
func pageLoader(q drill.Query) func(*reader) list[drill.Run] {
	return func(r *reader) list[drill.Run] {
		p := newPage(r, q.Since, q.After, q.Limit)
		var found []pageKey
		for _, where := range conditions(drillIDsByName(r, q.Drill), q) {
			text, args := p.runStatement(where, q.Until)
			found = append(found, query(r, runTable, func(r *row) pageKey { return pageKey{r.time("at_ms"), r.id("id")} }, text, args...)...)
		}
		slices.SortFunc(found, func(a, b pageKey) int { return b.compare(a) })
		keys := truncatePage(p, found, func(k pageKey) pageKey { return k })
		return list[drill.Run]{loadRuns(r, keys.items), keys.next}
	}
}

// drillIDsByName returns the IDs that a filter means, none for all drills.
func drillIDsByName(r *reader, given string) []string {
	if given == "" {
		return nil
	}
	ids := query(r, nameTable, func(r *row) string { return r.keyName("drill") },
		"SELECT drill FROM drill_names WHERE name = ? ORDER BY drill LIMIT ?", given, maxDrillsPerName)
	if !slices.Contains(ids, given) {
		ids = append(ids, given)
	}
	return ids
}

// condition is a condition that one index answers.
type condition struct {
	text string
	args []any
}

// conditions returns conditions that exclude each other, and together mean a query.
func conditions(drills []string, f drill.Query) []condition {
	out := []condition{{}}
	if len(drills) > 0 {
		out = expandConditions(out, "drill", drills)
	}
	if len(f.Verdicts) == 0 && len(f.Triggers) == 0 && !f.Running {
		return out
	}
	return expandConditions(expandConditions(out, "verdict", allowedVerdicts(f)), "cause", filterKnown(f.Triggers, triggers))
}

// allowedVerdicts returns the verdicts that a query allows; the empty one is that of
// runs that have not ended.
func allowedVerdicts(f drill.Query) []drill.Verdict {
	switch {
	case f.Running && len(f.Verdicts) > 0:
		return nil
	case f.Running:
		return []drill.Verdict{""}
	case len(f.Verdicts) == 0:
		return append(drill.Verdicts(), "")
	}
	return filterKnown(f.Verdicts, drill.Verdicts())
}

// filterKnown returns those of all words that were asked for, all if none was.
func filterKnown[T comparable](asked, all []T) (out []T) {
	for _, w := range all {
		if len(asked) == 0 || slices.Contains(asked, w) {
			out = append(out, w)
		}
	}
	return out
}

// expandConditions returns each condition with each value of a column.
func expandConditions[T ~string](all []condition, column string, values []T) (out []condition) {
	for _, w := range all {
		for _, v := range values {
			out = append(out, condition{w.text + column + " = ? AND ", append(slices.Clone(w.args), string(v))})
		}
	}
	return out
}

// runStatement reads where runs stand. At most one upper bound is left in it: of
// two, SQLite might take the wrong one to look things up by.
func (p page) runStatement(w condition, until time.Time) (string, []any) {
	text, args := "SELECT at_ms, id FROM drill_runs WHERE "+w.text+"at_ms >= ?", append(slices.Clone(w.args), max(p.sinceMS(), 0))
	if !until.IsZero() {
		before := page{since: until}.sinceMS()
		at := int64(maxTime)
		if p.after.id != "" {
			at = p.after.at.UnixMilli()
		}
		if before <= at {
			p.after = pageKey{}
			text, args = text+" AND at_ms < ?", append(args, before)
		}
	}
	return p.statement(text, "at_ms", args...)
}

// loadRuns reads the runs with some keys, in their order, without their series, messages
// and rollbacks. What is not there any more is left out.
func loadRuns(r *reader, keys []pageKey) []drill.Run {
	if len(keys) == 0 {
		return nil
	}
	ids := make([]any, len(keys))
	for n, k := range keys {
		ids[n] = k.id
	}
	among := "IN (" + strings.Repeat("?, ", len(ids)-1) + "?)"
	byID := make(map[string]*drill.Run, len(keys))
	for _, run := range query(r, runTable, decodeRun, runTable.selectSQL()+"WHERE id "+among, ids...) {
		byID[run.ID] = &run.Run
	}
	queryEach(r, partTable, func(r *row) { decodePart(r, byID[r.id("run")]) },
		partTable.selectSQL()+"WHERE run "+among+" AND part = 'spec'", ids...)
	runs := make([]drill.Run, 0, len(keys))
	for _, k := range keys {
		if run := byID[k.id]; run != nil {
			runs = append(runs, *run)
		}
	}
	return runs
}

// RunsByID returns runs by their IDs, at most MaxLimit, without their series, messages
// and rollbacks. What is not there any more is left out.
func (d *Drills) RunsByID(ctx context.Context, ids []string) ([]drill.Run, error) {
	keys := make([]pageKey, 0, len(ids))
	for _, id := range ids[:min(len(ids), MaxLimit)] {
		if validID(id) {
			keys = append(keys, pageKey{id: id})
		}
	}
	return read(ctx, d.store, "read the runs of drills", func(r *reader) []drill.Run { return loadRuns(r, keys) })
}

const (
	maxDayRows = 200_000 // days times drills times verdicts
	maxDrills  = 10_000  // ever seen
)

var latestTable = table{name: "drill_latest", key: []string{"drill"}, columns: []string{
	"drill", "name", "run", "verdict", "at_ms", "passed", "passed_ms",
}}

func decodeLatest(r *row) drill.Latest {
	return drill.Latest{
		Drill: r.keyName("drill"), Name: r.name("name"), Run: r.id("run"), Verdict: drill.Verdict(r.word("verdict")),
		At: r.time("at_ms"), PassedRun: r.optionalID("passed"), PassedAt: r.optionalTime("passed_ms"),
	}
}

// History returns sums over days, the oldest of which are left out when there are
// too many, and how each drill stands. It reads sums, not runs.
func (d *Drills) History(ctx context.Context, q drill.HistoryQuery) (drill.History, error) {
	return read(ctx, d.store, "read the history of drills", func(r *reader) drill.History {
		drills := drillIDsByName(r, q.Drill)
		return drill.History{Days: loadDays(r, drills, q), Latest: loadLatest(r, drills)}
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

func loadDays(r *reader, drills []string, f drill.HistoryQuery) (days []drill.Day) {
	first, last := dayRange(f)
	text, args := inClause(drills)
	rows := query(r, table{name: "drill_days"}, decodeDay, `SELECT day_ms, drill, verdict, runs, judged, margin, tightest FROM drill_days
WHERE day_ms >= ? AND day_ms <= ?`+text+" ORDER BY day_ms DESC, drill DESC, verdict DESC LIMIT ?",
		append(append([]any{first, last}, args...), maxDayRows)...)
	slices.Reverse(rows)
	for _, r := range rows {
		if n := len(days); n > 0 && days[n-1].Day.Equal(r.Day) && days[n-1].Drill == r.Drill {
			days[n-1] = mergeDays(days[n-1], r)
			continue
		}
		days = append(days, r)
	}
	return days
}

// decodeDay reads the sums of the runs with one verdict.
func decodeDay(r *row) drill.Day {
	return drill.Day{
		Day: r.time("day_ms"), Drill: r.keyName("drill"),
		Verdicts:   map[drill.Verdict]int{drill.Verdict(r.word("verdict")): r.count("runs")},
		WithMargin: r.count("judged"), MarginSum: r.finite("margin"), Tightest: r.finite("tightest"),
	}
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

func loadLatest(r *reader, drills []string) []drill.Latest {
	text, args := inClause(drills)
	return queryAtMost(r, maxDrills, latestTable, decodeLatest,
		latestTable.selectSQL()+"WHERE drill >= ''"+text+" ORDER BY drill LIMIT ?", args...)
}

// Latest returns how each drill stands that was ever seen, by ID.
func (d *Drills) Latest(ctx context.Context) ([]drill.Latest, error) {
	return read(ctx, d.store, "read how drills stand", func(r *reader) []drill.Latest { return loadLatest(r, nil) })
}

const selectFirstDue = `
SELECT drill, COALESCE((SELECT at_ms FROM drill_runs WHERE drill_runs.drill = drill_latest.drill AND cause <> ? ORDER BY at_ms, id LIMIT 1), 0) AS at_ms
FROM drill_latest ORDER BY drill LIMIT ?`

// FirstDue returns the first scheduled time that was observed for each drill, whatever
// came of it, by ID. Drills that were only ever run by hand are not there.
func (d *Drills) FirstDue(ctx context.Context) (map[string]time.Time, error) {
	return read(ctx, d.store, "read when drills were first due", func(r *reader) map[string]time.Time {
		dues := map[string]time.Time{}
		queryEach(r, runTable, func(r *row) {
			if id, at := r.keyName("drill"), r.optionalTime("at_ms"); !at.IsZero() {
				dues[id] = at
			}
		}, selectFirstDue, string(drill.ByHand), maxDrills)
		return dues
	})
}

// upsertDay adds a run to its day.
const upsertDay = `
INSERT INTO drill_days (day_ms, drill, verdict, runs, judged, margin, tightest, writer) VALUES (?, ?, ?, 1, ?, ?, ?, ?)
ON CONFLICT (day_ms, drill, verdict) DO UPDATE SET runs = runs + 1, margin = margin + excluded.margin,
tightest = CASE WHEN judged = 0 THEN excluded.tightest WHEN excluded.judged = 0 THEN tightest ELSE min(tightest, excluded.tightest) END,
judged = judged + excluded.judged, writer = excluded.writer`

// updateSummaries takes a run that has just ended into what is kept of days and drills:
// the history must not have to count runs to draw a year.
func (w *txWriter) updateSummaries(r runRow) {
	judged, margin := int64(0), 0.0
	if h, ok := r.Tightest(); ok {
		judged, margin = 1, clampMargin(h.Margin)
	}
	w.writeRow(upsertDay, startOfDayMS(r.at), r.Drill, string(r.Verdict), judged, margin, margin)
	latest, found := queryOne(&w.reader, latestTable, decodeLatest, latestTable.selectSQL()+"WHERE drill = ?", r.Drill)
	if !found || !r.at.Before(latest.At) {
		latest.Name, latest.Run, latest.Verdict, latest.At = r.Name, r.ID, r.Verdict, r.at
	}
	if r.Verdict == drill.Passed && !r.at.Before(latest.PassedAt) {
		latest.PassedRun, latest.PassedAt = r.ID, r.at
	}
	w.writeRow(latestTable.upsertSQL(),
		r.Drill, cleanName(latest.Name), latest.Run, string(latest.Verdict), ms(latest.At), latest.PassedRun, ms(latest.PassedAt))
}

// clampMargin keeps one wild margin from drowning all others of its day.
func clampMargin(margin float64) float64 { return min(max(finiteOrZero(margin), -1000), 1000) }

// startOfDayMS returns the beginning of the day, in UTC, that a time is in.
func startOfDayMS(t time.Time) int64 {
	const length = int64(24 * time.Hour / time.Millisecond)
	at := ms(t)
	return at - at%length
}

// maxDues bounds the schedules that are kept.
const maxDues = 10_000

var (
	freezeTable = table{name: "drill_freeze", key: []string{"name"}, columns: []string{"name", "frozen", "actor", "reason", "since_ms"}}
	dueTable    = table{name: "drill_dues", key: []string{"drill"}, columns: []string{"drill", "schedule", "zone", "next_ms"}}
)

// Frozen implements drill.Store.
func (d *Drills) Frozen(ctx context.Context) (drill.Freeze, error) {
	return read(ctx, d.store, "read whether drills are frozen", loadFreeze)
}

func loadFreeze(r *reader) drill.Freeze {
	f, _ := queryOne(r, freezeTable, func(r *row) drill.Freeze {
		return drill.Freeze{On: r.flag("frozen"), Actor: r.name("actor"), Reason: r.text("reason", maxReason), Since: r.optionalTime("since_ms")}
	}, freezeTable.selectSQL()+"WHERE name = ?", singletonKey)
	return f
}

// SetFreeze implements drill.Store.
func (d *Drills) SetFreeze(ctx context.Context, f drill.Freeze) error {
	return d.store.writeOne(ctx, "record whether drills are frozen", freezeTable.upsertSQL(),
		singletonKey, btoi(f.On), cleanName(f.Actor), clean(f.Reason, maxReason), ms(f.Since))
}

var _ drill.DueTimeStore = (*Drills)(nil)

// DueTimes implements drill.DueTimeStore.
func (d *Drills) DueTimes(ctx context.Context) (map[string]drill.DueTime, error) {
	return read(ctx, d.store, "read when drills are due", func(r *reader) map[string]drill.DueTime {
		dues := map[string]drill.DueTime{}
		for _, due := range queryAtMost(r, maxDues, dueTable, func(r *row) drill.DueTime {
			return drill.DueTime{Drill: r.keyName("drill"), Schedule: r.name("schedule"), Zone: r.name("zone"), Next: r.optionalTime("next_ms")}
		}, dueTable.selectSQL()+"ORDER BY drill LIMIT ?") {
			dues[due.Drill] = due
		}
		return dues
	})
}

// SetDueTime implements drill.DueTimeStore.
func (d *Drills) SetDueTime(ctx context.Context, due drill.DueTime) error {
	if !isName(due.Drill) || cleanName(due.Schedule) != due.Schedule || cleanName(due.Zone) != due.Zone {
		return errors.New("record when a drill is due: its ID, schedule and zone must be names")
	}
	return d.store.writeOne(ctx, "record when a drill is due", dueTable.upsertSQL(), due.Drill, due.Schedule, due.Zone, ms(due.Next))
}

// DeleteDueTime implements drill.DueTimeStore.
func (d *Drills) DeleteDueTime(ctx context.Context, id string) error {
	return d.store.writeTx(ctx, "delete a due time", func(w *txWriter) { w.exec("DELETE FROM drill_dues WHERE drill = ?", id) })
}
