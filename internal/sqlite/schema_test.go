package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"headgate/alerts"
	"headgate/engine"
	"headgate/proxy/admission"
	"headgate/runbooks/control"
)

// later are the program's migrations and one more, as a later version has them.
func later(t *testing.T, next string) fs.FS {
	t.Helper()
	files := fstest.MapFS{}
	names, err := fs.Glob(embedded(), "*.sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		text, err := fs.ReadFile(embedded(), name)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = &fstest.MapFile{Data: text}
	}
	files[fmt.Sprintf("%04d_next.sql", len(names)+1)] = &fstest.MapFile{Data: []byte("-- +goose Up\n" + next)}
	return files
}

// current is the version that the program knows.
func current(t testing.TB) int64 {
	t.Helper()
	v, err := target(embedded())
	if err != nil {
		t.Fatal(err)
	}
	return v
}

const addColumn = "ALTER TABLE modes ADD COLUMN note TEXT NOT NULL DEFAULT '';\nCREATE TABLE more (a TEXT);\n"

// fromDump makes a database from a text in testdata, as sqlite3's .dump writes it.
func fromDump(t *testing.T, name string) (dir string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	path := filepath.Join(dir, databaseName)
	if err := prepareFile(path); err != nil {
		t.Fatal(err)
	}
	execute(t, path, string(text))
	return dir
}

// TestSchema1: a record of version 1 opens with every version from there on.
func TestSchema1(t *testing.T) {
	for name, files := range map[string]fs.FS{"this version": embedded(), "a later one": later(t, addColumn)} {
		t.Run(name, func(t *testing.T) {
			s, err := openWith(t.Context(), options(fromDump(t, "schema1.sql")), files)
			if err != nil {
				t.Fatal(err)
			}
			defer closed(t, s)
			changes := all(t, s)
			if len(changes) != 3 || changes[0].Reason != "queue age pages" || changes[0].Running != 4 || changes[2].Action != control.First {
				t.Errorf("changes %+v", changes)
			}
			standings, err := s.Standings(t.Context())
			if err != nil || len(standings) != 2 || standings[0].Mode != admission.PassThrough || standings[0].Before != admission.Observe {
				t.Errorf("standings %+v, %v", standings, err)
			}
			requests, err := s.Requests(t.Context(), 0)
			if err != nil || len(requests) != 1 || requests[0].Number != 2 || requests[0].Order.Action != control.Restore {
				t.Errorf("requests %+v, %v", requests, err)
			}
			record(t, s, 2, some("default", admission.Enforce))
			saveBatch(t, s, trouble("i-1"), planPost)
			checkStory(t, story(t, s, "i-1"))
		})
	}
}

// TestSchema2: the same for version 2, which has incidents.
func TestSchema2(t *testing.T) {
	for name, files := range map[string]fs.FS{"this version": embedded(), "a later one": later(t, addColumn)} {
		t.Run(name, func(t *testing.T) {
			s, err := openWith(t.Context(), options(fromDump(t, "schema2.sql")), files)
			if err != nil {
				t.Fatal(err)
			}
			defer closed(t, s)
			const open, over = "019ca1b0-0000-7000-8000-00000000000a", "019ca1b0-0000-7000-8000-000000000009"
			saved := load(t, s)
			if len(saved.Incidents) != 1 || saved.Incidents[0].ID != open || saved.Incidents[0].Value != 31.5 || saved.Incidents[0].AckedBy != "anna" {
				t.Errorf("incidents %+v", saved.Incidents)
			}
			if diff := cmp.Diff([]engine.State{fullState("queue_age", open)}, saved.States); diff != "" || len(saved.Silences) != 1 {
				t.Errorf("%d silences, states (-want +got):\n%s", len(saved.Silences), diff)
			}
			st := story(t, s, over)
			if ref, err := s.Outbox().Root(t.Context(), over, alerts.ToPage); err != nil || ref != st.Deliveries[0].Ref || ref.TS != "1772366400.000100" {
				t.Errorf("the message stands at %v, %v, and was sent to %v", ref, err, st.Deliveries[0].Ref)
			}
			ds, err := s.Outbox().Pending(t.Context(), 10)
			if err != nil || len(ds) != 3 || !ds[2].Note.Ping || ds[2].Note.Incident.Feel != "answers are late" {
				t.Errorf("%+v, %v", ds, err)
			}
			sloIs(t, s, "default", noon, 90, 3)
			if changes := all(t, s); len(changes) != 3 {
				t.Errorf("%d changes of version 1 are left", len(changes))
			}
			saveBatch(t, s, trouble("i-1"), planPost)
		})
	}
}

// TestSchema3: the same for version 3, which has entries of the audit, guards and
// pauses.
func TestSchema3(t *testing.T) {
	for name, files := range map[string]fs.FS{"this version": embedded(), "a later one": later(t, addColumn)} {
		t.Run(name, func(t *testing.T) {
			s, err := openWith(t.Context(), options(fromDump(t, "schema3.sql")), files)
			if err != nil {
				t.Fatal(err)
			}
			defer closed(t, s)
			a, err := s.Audit(t.Context(), AuditFilter{})
			if err != nil || len(a.Changes) != 3 || len(a.Entries) != 1 {
				t.Fatalf("audit %+v, %v", a, err)
			}
			if e := a.Entries[0]; e.Ending != control.Withheld || e.Inputs["mode"] != "passthrough" || e.Subject != "019ca1b0-0000-7000-8000-00000000000a" {
				t.Errorf("entry %+v", e)
			}
			guards, err := s.Guards(t.Context())
			if err != nil || len(guards) != 1 || guards[0].State != control.Cooldown || len(guards[0].Flips) != 2 || guards[0].LatchedBy != "anna" {
				t.Errorf("guards %+v, %v", guards, err)
			}
			note(t, s, noted(control.KindPress, "default"))
		})
	}
}

// TestNewer: a record from a later version is refused, and left as it is.
func TestNewer(t *testing.T) {
	dir := t.TempDir()
	s, err := openWith(t.Context(), options(dir), later(t, addColumn))
	if err != nil {
		t.Fatal(err)
	}
	record(t, s, 0, some("p", admission.Observe))
	closed(t, s)
	path := filepath.Join(dir, databaseName)
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, opened := Open(t.Context(), options(dir))
	_, left := LeaveRequest(t.Context(), dir, control.Order{Action: control.Rollback})
	_, _, audit := ReadChanges(t.Context(), dir, ChangeFilter{})
	for name, err := range map[string]error{"open": opened, "leave": left, "read": audit} {
		if !errors.Is(err, ErrNewer) {
			t.Errorf("%s: %v, want ErrNewer", name, err)
			continue
		}
		has(t, err.Error(), fmt.Sprintf("version %d", current(t)+1), fmt.Sprintf("knows %d", current(t)), "backup")
	}
	after, err := os.ReadFile(path)
	if err != nil || string(after) != string(before) {
		t.Errorf("the file was changed (%v)", err)
	}
	if _, running, err := Running(dir); running || err != nil {
		t.Errorf("the lock is held after a refusal: %v, %v", running, err)
	}
}

// TestOlder: a command does not migrate, since a service may be running.
func TestOlder(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, databaseName)
	if err := prepareFile(path); err != nil {
		t.Fatal(err)
	}
	if _, err := LeaveRequest(t.Context(), dir, control.Order{Action: control.Rollback}); !errors.Is(err, ErrOlder) {
		t.Errorf("leave: %v, want ErrOlder", err)
	}
	if _, _, err := ReadChanges(t.Context(), dir, ChangeFilter{}); !errors.Is(err, ErrOlder) {
		t.Errorf("read: %v, want ErrOlder", err)
	}
	closed(t, openIn(t, dir))
	if _, err := LeaveRequest(t.Context(), dir, control.Order{Action: control.Rollback}); err != nil {
		t.Errorf("after a start: %v", err)
	}
}

// TestBrokenMigration: a step that fails leaves the version before it, whole, and
// the next attempt does it again.
func TestBrokenMigration(t *testing.T) {
	dir, _ := made(t)
	_, err := openWith(t.Context(), options(dir), later(t, addColumn+"INSERT INTO more VALUES (no_such_column);\n"))
	if err == nil {
		t.Fatal("a broken migration passed")
	}
	has(t, err.Error(), fmt.Sprintf("from version %d to %d", current(t), current(t)+1))
	s := openIn(t, dir) // the old program goes on
	if c := all(t, s); len(c) != 2 {
		t.Errorf("%d changes, want 2", len(c))
	}
	closed(t, s)
	s, err = openWith(t.Context(), options(dir), later(t, addColumn))
	if err != nil {
		t.Fatal(err)
	}
	if c := all(t, s); len(c) != 2 {
		t.Errorf("%d changes, want 2", len(c))
	}
	closed(t, s)
}

// TestPartial: files that a start which was broken off can leave are completed,
// and files whose structure is not ours are refused.
func TestPartial(t *testing.T) {
	goose := `CREATE TABLE goose_db_version (id INTEGER PRIMARY KEY AUTOINCREMENT, version_id INTEGER NOT NULL,
		is_applied INTEGER NOT NULL, tstamp TIMESTAMP DEFAULT (datetime('now')))`
	zero := "INSERT INTO goose_db_version (version_id, is_applied) VALUES (0, 1)"
	for name, tt := range map[string]struct {
		statements []string
		want       error
	}{
		"empty":                {nil, nil},
		"version table":        {[]string{goose, zero}, nil},
		"tables of another":    {[]string{"CREATE TABLE users (name TEXT)"}, ErrCorrupt},
		"half the tables":      {[]string{goose, zero, "CREATE TABLE modes (pool TEXT)"}, ErrCorrupt},
		"a version that lies":  {[]string{goose, zero, "INSERT INTO goose_db_version (version_id, is_applied) VALUES (1, 1)"}, ErrCorrupt},
		"a version in words":   {[]string{goose, "INSERT INTO goose_db_version (version_id, is_applied) VALUES ('one', 1)"}, ErrCorrupt},
		"a negative version":   {[]string{goose, "INSERT INTO goose_db_version (version_id, is_applied) VALUES (-5, 1)"}, ErrCorrupt},
		"no version at all":    {[]string{goose}, ErrCorrupt},
		"a view for a table":   {[]string{"CREATE VIEW goose_db_version AS SELECT 0 AS version_id, 1 AS is_applied"}, ErrCorrupt},
		"an enormous version":  {[]string{goose, "INSERT INTO goose_db_version (version_id, is_applied) VALUES (9223372036854775807, 1)"}, ErrNewer},
		"other version column": {[]string{"CREATE TABLE goose_db_version (a, b)"}, ErrCorrupt},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, databaseName)
			if err := prepareFile(path); err != nil {
				t.Fatal(err)
			}
			execute(t, path, tt.statements...)
			s, err := Open(t.Context(), options(dir))
			if err == nil {
				defer closed(t, s)
				record(t, s, 0, some("p", admission.Observe))
			}
			if !errors.Is(err, tt.want) {
				t.Errorf("%v, want %v", err, tt.want)
			}
		})
	}
}

// TestForeignStructure: what could change what the program writes is refused.
func TestForeignStructure(t *testing.T) {
	for statement, want := range map[string]error{
		"CREATE TABLE notes (a TEXT)":                                                         nil,
		"CREATE INDEX more ON mode_changes (actor)":                                           nil,
		"CREATE VIEW latest AS SELECT * FROM modes":                                           ErrCorrupt,
		"CREATE TRIGGER t AFTER INSERT ON mode_requests BEGIN DELETE FROM mode_requests; END": ErrCorrupt,
		"DROP TRIGGER mode_changes_keep_delete":                                               ErrCorrupt,
		"DROP INDEX mode_changes_by_time":                                                     ErrCorrupt,
		"DROP TABLE progress":                                                                 ErrCorrupt,
		"DROP TABLE delivery_roots":                                                           ErrCorrupt,
		"DROP INDEX deliveries_pending":                                                       ErrCorrupt,
		"CREATE TRIGGER t AFTER INSERT ON incident_events BEGIN DELETE FROM deliveries; END":  ErrCorrupt,
		"ALTER TABLE modes ADD COLUMN extra TEXT":                                             ErrCorrupt,
		"DROP TABLE progress; CREATE VIEW progress AS SELECT 'mode_requests' AS name, 9000 AS value, 'w' AS writer":  ErrCorrupt,
		"DROP INDEX mode_changes_by_pool; CREATE INDEX mode_changes_by_pool ON mode_changes (reason, actor, writer)": ErrCorrupt,
	} {
		dir, path := made(t)
		execute(t, path, statement)
		if s, err := Open(t.Context(), options(dir)); !errors.Is(err, want) {
			t.Errorf("open after %s: %v, want %v", statement, err, want)
		} else if err == nil {
			closed(t, s)
		}
		if _, err := LeaveRequest(t.Context(), dir, control.Order{Action: control.Rollback}); !errors.Is(err, want) {
			t.Errorf("leave after %s: %v, want %v", statement, err, want)
		}
	}
}

// TestAppendOnly: the audit can be added to, and nothing else.
func TestAppendOnly(t *testing.T) {
	s := openIn(t, t.TempDir())
	c := some("p", admission.Observe)
	record(t, s, 0, c)
	values := "SELECT id, at_ms, pool, action, from_mode, to_mode, before, 'mallory', via, reason, running, queued, dropped, request, writer FROM mode_changes"
	for _, statement := range []string{
		"UPDATE mode_changes SET actor = 'mallory'",
		"UPDATE mode_changes SET id = 'other'",
		"DELETE FROM mode_changes",
		"DELETE FROM mode_changes WHERE pool = 'p'",
		"INSERT OR REPLACE INTO mode_changes " + values,
		"INSERT OR REPLACE INTO mode_changes (rowid, id, at_ms, pool, action, from_mode, to_mode, before, actor, via, reason, running, queued, dropped, request, writer) " +
			"SELECT rowid, 'other', at_ms, pool, action, from_mode, to_mode, before, 'mallory', via, reason, running, queued, dropped, request, writer FROM mode_changes",
		"INSERT INTO mode_changes " + values + " WHERE true ON CONFLICT (id) DO UPDATE SET actor = 'mallory'",
	} {
		if _, err := s.writer.ExecContext(context.Background(), statement); err == nil {
			t.Errorf("passed: %s", statement)
		}
	}
	if got := all(t, s); len(got) != 1 || got[0] != c {
		t.Errorf("the audit became %+v", got)
	}
}
