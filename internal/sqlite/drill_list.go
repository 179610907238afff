package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"slices"
	"strings"
	"time"

	"headgate/runbooks/drill"
)

// maxDrillsPerName bounds the drills that have had one name.
const maxDrillsPerName = 20

// Run implements drill.Store.
func (d *Drills) Run(ctx context.Context, id string) (drill.Run, error) {
	if !validID(id) {
		return drill.Run{}, drill.ErrNoRun
	}
	return read(ctx, d.store, "read a run of a drill", func(ctx context.Context, conn *sql.Conn) (drill.Run, error) {
		row, err := loadRun(ctx, conn, id)
		if err != nil {
			return drill.Run{}, err
		}
		return row.Run, nil
	})
}

// loadRunRow reads a run without its parts.
func loadRunRow(ctx context.Context, q queryer, id string) (runRow, error) {
	rows, err := query(ctx, q, len(runTable.columns), decodeRun, runTable.selectSQL()+"WHERE id = ?", id)
	if err != nil {
		return runRow{}, err
	}
	if len(rows) == 0 {
		return runRow{}, drill.ErrNoRun
	}
	return rows[0], nil
}

// loadRun reads a run with all of it.
func loadRun(ctx context.Context, q queryer, id string) (runRow, error) {
	row, err := loadRunRow(ctx, q, id)
	if err != nil {
		return runRow{}, err
	}
	all, err := query(ctx, q, 3, decodePart, partTable.selectSQL()+"WHERE run = ?", id)
	if err != nil {
		return runRow{}, err
	}
	for _, p := range all {
		if err := p.applyTo(&row.Run); err != nil {
			return runRow{}, err
		}
	}
	row.Series, err = loadSeries(ctx, q, id)
	return row, err
}

// Runs implements drill.Store. ErrPageKey: After is not a key that came with a page.
func (d *Drills) Runs(ctx context.Context, q drill.Query) (runs []drill.Run, next string, err error) {
	runs, err = read(ctx, d.store, "read the runs of drills", func(ctx context.Context, conn *sql.Conn) ([]drill.Run, error) {
		var places []runKey
		if places, next, err = selectRunKeys(ctx, conn, q); err != nil {
			return nil, err
		}
		return loadRuns(ctx, conn, places)
	})
	if err != nil {
		return nil, "", err
	}
	return runs, next, nil
}

// runKey is where a run stands in the history.
type runKey struct {
	at time.Time
	id string
}

func decodeRunKey(v []any) (runKey, error) {
	f := rowDecoder{table: runTable.name}
	p := runKey{f.time("at_ms", v[0]), f.id("id", v[1])}
	return p, f.err
}

// selectRunKeys finds the runs of a page. Each statement is answered by one index
// alone, in its order, and reads no more than a page; what they find is merged.
func selectRunKeys(ctx context.Context, q queryer, f drill.Query) (found []runKey, next string, err error) {
	drills, err := drillIDsByName(ctx, q, f.Drill)
	if err != nil {
		return nil, "", err
	}
	p := page{since: f.Since, after: f.After, limit: f.Limit}
	for _, where := range conditions(drills, f) {
		text, args, err := p.runStatement(where, f.Until)
		if err != nil {
			return nil, "", err
		}
		some, err := query(ctx, q, 2, decodeRunKey, text, args...)
		if err != nil {
			return nil, "", err
		}
		found = append(found, some...)
	}
	slices.SortFunc(found, func(a, b runKey) int { return cmp.Or(b.at.Compare(a.at), cmp.Compare(b.id, a.id)) })
	found, next = truncatePage(p, found, func(r runKey) string { return pageKey(r.at, r.id) })
	return found, next, nil
}

// drillIDsByName returns the IDs that a filter means, none for all drills.
func drillIDsByName(ctx context.Context, q queryer, given string) ([]string, error) {
	if given == "" {
		return nil, nil
	}
	ids, err := query(ctx, q, 1, func(v []any) (string, error) {
		f := rowDecoder{table: nameTable.name}
		id := f.keyName("drill", v[0])
		return id, f.err
	}, "SELECT drill FROM drill_names WHERE name = ? ORDER BY drill LIMIT ?", given, maxDrillsPerName)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(ids, given) {
		ids = append(ids, given)
	}
	return ids, nil
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
	return expandConditions(expandConditions(out, "verdict", allowedVerdicts(f)), "cause", filterKnown(f.Triggers, triggers()))
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
func (p page) runStatement(w condition, until time.Time) (string, []any, error) {
	text, args := "SELECT at_ms, id FROM drill_runs WHERE "+w.text+"at_ms >= ?", append(slices.Clone(w.args), max(p.sinceMS(), 0))
	if !until.IsZero() {
		before := page{since: until}.sinceMS()
		at := int64(maxTime)
		if p.after != "" {
			var err error
			if at, _, err = parsePageKey(p.after); err != nil {
				return "", nil, err
			}
		}
		if before <= at {
			p.after = ""
			text, args = text+" AND at_ms < ?", append(args, before)
		}
	}
	return p.statement(text, "at_ms", args...)
}

// loadRuns reads the runs that stand in some places, in their order.
func loadRuns(ctx context.Context, q queryer, places []runKey) ([]drill.Run, error) {
	if len(places) == 0 {
		return nil, nil
	}
	ids := make([]any, len(places))
	for n, p := range places {
		ids[n] = p.id
	}
	among := "IN (" + strings.Repeat("?, ", len(ids)-1) + "?)"
	rows, err := query(ctx, q, len(runTable.columns), decodeRun, runTable.selectSQL()+"WHERE id "+among, ids...)
	if err != nil {
		return nil, err
	}
	byID := make(map[string]*drill.Run, len(rows))
	for n := range rows {
		byID[rows[n].ID] = &rows[n].Run
	}
	if _, err := query(ctx, q, 3, func(v []any) (struct{}, error) {
		p, err := decodePart(v)
		if r := byID[p.run]; err == nil && r != nil {
			err = p.applyTo(r)
		}
		return struct{}{}, err
	}, partTable.selectSQL()+"WHERE run "+among+" AND part IN ('spec', 'phases', 'hypotheses')", ids...); err != nil {
		return nil, err
	}
	runs := make([]drill.Run, 0, len(places))
	for _, p := range places {
		if r := byID[p.id]; r != nil { // it may have been deleted meanwhile
			runs = append(runs, *r)
		}
	}
	return runs, nil
}

// RunsByID returns runs by their IDs, at most MaxLimit, without their series,
// messages and undone steps. What is not there any more is left out.
func (d *Drills) RunsByID(ctx context.Context, ids []string) ([]drill.Run, error) {
	places := make([]runKey, 0, len(ids))
	for _, id := range ids[:min(len(ids), MaxLimit)] {
		if validID(id) {
			places = append(places, runKey{id: id})
		}
	}
	return read(ctx, d.store, "read the runs of drills", func(ctx context.Context, conn *sql.Conn) ([]drill.Run, error) {
		return loadRuns(ctx, conn, places)
	})
}
