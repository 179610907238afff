package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"headgate/proxy/admission"
	"headgate/runbooks/control"
)

// TestPaging: pages hold every change once, newest first, also where several have
// the same time, and also when new ones come in between.
func TestPaging(t *testing.T) {
	s := openTestStore(t, t.TempDir())
	at := time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)
	var changes []control.ModeChange
	for i := range 57 {
		c := newModeChange([]string{"a", "b", "c"}[i%3], admission.Observe)
		c.ID, c.At = fmt.Sprintf("id-%03d", i), at.Add(time.Duration(i/10)*time.Second) // ten at a time
		changes = append(changes, c)
	}
	mustRecord(t, s, 0, changes...)
	for _, tt := range []struct {
		filter control.AuditQuery
		want   int
	}{
		{control.AuditQuery{Limit: 1}, 57}, {control.AuditQuery{Limit: 7}, 57}, {control.AuditQuery{Limit: 57}, 57}, {control.AuditQuery{}, 57},
		{control.AuditQuery{Limit: -3}, 57}, {control.AuditQuery{Limit: 1 << 40}, 57},
		{control.AuditQuery{Limit: 5, Pool: "b"}, 19}, {control.AuditQuery{Limit: 5, Pool: "no such"}, 0}, {control.AuditQuery{Pool: "' OR 1=1 --"}, 0},
		{control.AuditQuery{Limit: 4, Since: at.Add(4 * time.Second)}, 17}, {control.AuditQuery{Limit: 4, Since: at.Add(4*time.Second + 1)}, 7},
		{control.AuditQuery{Limit: 4, Since: at.Add(time.Hour)}, 0}, {control.AuditQuery{Limit: 3, Since: at.Add(5 * time.Second), Pool: "a"}, 2},
		{control.AuditQuery{Since: time.Date(-400, 1, 1, 0, 0, 0, 0, time.UTC)}, 57},
	} {
		if seen := pageModeChanges(t, s, tt.filter, nil); seen != tt.want {
			t.Errorf("%+v: %d changes, want %d", tt.filter, seen, tt.want)
		}
	}
	newer := func() { mustRecord(t, s, 0, newModeChange("d", admission.Observe)) }
	if seen := pageModeChanges(t, s, control.AuditQuery{Limit: 5}, newer); seen != 57 {
		t.Errorf("with new ones in between: %d changes, want the 57 that were there", seen)
	}
}

// pageModeChanges goes through all pages, calls between after each, and counts the changes.
func pageModeChanges(t *testing.T, s *Store, f control.AuditQuery, between func()) (seen int) {
	t.Helper()
	for last := ""; ; {
		changes, next, err := s.ModeChanges(t.Context(), f)
		if err != nil {
			t.Fatalf("%+v: %v", f, err)
		}
		if len(changes) > (page{limit: f.Limit}).size() || next != "" && len(changes) != (page{limit: f.Limit}).size() {
			t.Errorf("%+v: a page of %d, next %q", f, len(changes), next)
		}
		for _, c := range changes {
			if last != "" && c.ID >= last {
				t.Fatalf("%+v: %s comes after %s", f, c.ID, last)
			}
			last = c.ID
		}
		if seen += len(changes); next == "" {
			return seen
		}
		if f.After = next; between != nil {
			between()
		}
	}
}

// TestKeys: only keys that a page gave out are taken.
func TestKeys(t *testing.T) {
	dir := t.TempDir()
	s := openTestStore(t, dir)
	for _, key := range []string{
		"x", ".", "1.", ".a", "1", "-1.a", "+1.a", "01.a", "1.a.b", "1.a b", "1.é", "99999999999999999999.a", "1." + strings.Repeat("a", 65), "1.a\x00",
	} {
		if _, _, err := s.ModeChanges(t.Context(), control.AuditQuery{After: key}); !errors.Is(err, control.ErrUnknownCursor) {
			t.Errorf("%q: %v, want ErrKey", key, err)
		}
		if _, _, err := ReadModeChanges(t.Context(), dir, control.AuditQuery{After: key}); !errors.Is(err, control.ErrUnknownCursor) {
			t.Errorf("%q, as a command: %v, want ErrKey", key, err)
		}
	}
	if page, next, err := s.ModeChanges(t.Context(), control.AuditQuery{After: "0.a"}); err != nil || len(page) != 0 || next != "" {
		t.Errorf("before the first: %v, %q, %v", page, next, err)
	}
}

// planRows is how many changes there are in TestPlan: a hundred thousand, but fewer
// under the race detector, which makes SQLite ten times slower.
func planRows() int {
	if raceEnabled {
		return 10_000
	}
	return 100_000
}

// TestPlan: a page costs the same at a hundred thousand changes as at ten. The
// statements are answered by the index alone, in its order: nothing is sorted,
// nothing is scanned.
func TestPlan(t *testing.T) {
	s := openTestStore(t, t.TempDir())
	if _, err := s.writer.ExecContext(t.Context(), `INSERT INTO mode_changes
		WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
		SELECT printf('id-%06d', i), i * 1000, 'pool' || (i % 3), 'mode', 'enforce', 'observe', 'enforce', 'a', 'api', 'r', 0, 0, 0, 0, 'w' FROM n`, planRows()); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		filter control.AuditQuery
		want   string
	}{
		{control.AuditQuery{}, "mode_changes_by_time (at_ms>?)"},
		{control.AuditQuery{After: "5.x"}, "mode_changes_by_time (at_ms>? AND (at_ms,id)<(?,?))"},
		{control.AuditQuery{Pool: "p"}, "mode_changes_by_pool (pool=? AND at_ms>?)"},
		{control.AuditQuery{Pool: "p", After: "5.x"}, "mode_changes_by_pool (pool=? AND at_ms>? AND (at_ms,id)<(?,?))"},
	} {
		text, args := newPage(&reader{}, time.Time{}, tt.filter.After, 0).auditStatement(modeChangeTable, tt.filter.Pool, "")
		want := "SEARCH mode_changes USING INDEX " + tt.want
		if steps := explainPlan(t, s.reader, text, args...); !slices.Equal(steps, []string{want}) {
			t.Errorf("%+v: %q, want %q alone", tt.filter, steps, want)
		}
	}
	want := "SEARCH mode_requests USING INTEGER PRIMARY KEY (rowid>?)"
	if steps := explainPlan(t, s.reader, selectRequests(), 0, 100); !slices.Equal(steps, []string{want}) {
		t.Errorf("%q, want %q alone", steps, want)
	}
	f := control.AuditQuery{Limit: 10, After: "5000000.id-005000"}
	page, next, err := s.ModeChanges(t.Context(), f)
	if err != nil || len(page) != 10 || page[0].ID != "id-004999" || next != "4990000.id-004990" {
		t.Errorf("%d changes, next %q, %v", len(page), next, err)
	}
}

// explainPlan returns how SQLite would answer a statement.
func explainPlan(t *testing.T, db *sql.DB, text string, args ...any) (steps []string) {
	t.Helper()
	rows, err := db.QueryContext(context.Background(), "EXPLAIN QUERY PLAN "+text, args...)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var id, parent, unused any
		var step string
		if err := rows.Scan(&id, &parent, &unused, &step); err != nil {
			t.Fatal(err)
		}
		steps = append(steps, step)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return steps
}

// FuzzKey: a key is refused, or it is the one that its parts make.
func FuzzKey(f *testing.F) {
	for _, s := range []string{"", "1.a", "50000000.id-050000", "x", "-1.a", "1.", "9223372036854775807.z"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, key string) {
		k, err := parsePageKey(key)
		if err != nil {
			if !errors.Is(err, control.ErrUnknownCursor) {
				t.Fatal(err)
			}
			return
		}
		if k.String() != key {
			t.Fatalf("%q was read as %q", key, k)
		}
	})
}
