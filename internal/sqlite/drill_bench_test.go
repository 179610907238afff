package sqlite

import (
	"fmt"
	"testing"

	"headgate/runbooks/drill"
)

// insertManyRuns fills a record with runs of ten drills.
func insertManyRuns(tb testing.TB, s *Store, runs int) {
	tb.Helper()
	spec, err := encodeSpec(fullSpec("burst"))
	if err != nil {
		tb.Fatal(err)
	}
	run := withProgress(newManualRun("r-1", "burst"), 0)
	run.Spec, run.Reverts, run.Messages = drill.Spec{}, nil, nil
	body, err := encodeBody(run)
	if err != nil {
		tb.Fatal(err)
	}
	n := fmt.Sprintf("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d) ", runs)
	for _, statement := range []struct {
		text string
		args []any
	}{
		{`INSERT INTO drill_runs ` + n + `SELECT 'r-' || i, 1700000000000 + i * 300000, 'd' || (i % 10), 0, 'ended',
CASE WHEN i % 50 = 0 THEN 'failed' ELSE 'passed' END, 'schedule', i, 'o', replace(?, '"r-1"', '"r-' || i || '"'), 'w' FROM n`, []any{body}},
		{`INSERT INTO drill_parts ` + n + `SELECT 'r-' || i, 'spec', ?, 'w' FROM n`, []any{spec}},
		{`INSERT INTO drill_days SELECT at_ms - at_ms % 86400000, drill, verdict, count(*), count(*), 1, 0.1, 'w' FROM drill_runs GROUP BY 1, 2, 3`, nil},
		{`INSERT INTO drill_latest SELECT drill, drill, max(id), 'passed', max(at_ms), max(id), max(at_ms), 'w' FROM drill_runs GROUP BY drill`, nil},
	} {
		if _, err := s.writer.ExecContext(tb.Context(), statement.text, statement.args...); err != nil {
			tb.Fatalf("%.60s: %v", statement.text, err)
		}
	}
}

// BenchmarkRuns reads a page of the history, and a year, out of 100,000 runs, or 2,000 with
// -short.
func BenchmarkRuns(b *testing.B) {
	s := openTestStore(b, b.TempDir())
	runs := 100_000
	if testing.Short() {
		runs = 2000
	}
	insertManyRuns(b, s, runs)
	for name, q := range map[string]drill.Query{
		"first page":    {Limit: 50},
		"failed":        {Limit: 50, Verdicts: []drill.Verdict{drill.Failed, drill.Aborted}},
		"none to find":  {Limit: 50, Drill: "d3", Verdicts: []drill.Verdict{drill.Missed}},
		"by many":       {Limit: 50, Drill: "d3", Verdicts: drill.Verdicts(), Triggers: triggers},
		"in the middle": {Limit: 50, After: "1715000000000.r-1"},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, _, err := s.Drills().Runs(b.Context(), q); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("year", func(b *testing.B) {
		for b.Loop() {
			if h, err := s.Drills().History(b.Context(), drill.HistoryQuery{}); err != nil || len(h.Days) == 0 {
				b.Fatal(err)
			}
		}
	})
}
