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
	"headgate/migrations"
	"headgate/proxy/admission"
	"headgate/runbooks/control"
)

// withNextMigration are the program's migrations and one more, as a later version has them.
func withNextMigration(t *testing.T, next string) *schema {
	t.Helper()
	files := fstest.MapFS{}
	names, err := fs.Glob(migrations.FS, "*.sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		text, err := fs.ReadFile(migrations.FS, name)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = &fstest.MapFile{Data: text}
	}
	files[fmt.Sprintf("%04d_next.sql", len(names)+1)] = &fstest.MapFile{Data: []byte("-- +goose Up\n" + next)}
	later, err := newSchema(files)
	if err != nil {
		t.Fatal(err)
	}
	return later
}

// currentSchema is the schema that the program knows.
func currentSchema(t testing.TB) *schema {
	t.Helper()
	s, err := programSchema()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func currentVersion(t testing.TB) int64 { return currentSchema(t).version }

const addColumn = "ALTER TABLE modes ADD COLUMN note TEXT NOT NULL DEFAULT '';\nCREATE TABLE more (a TEXT);\n"

// restoreDump makes a database from a text in testdata, as sqlite3's .dump writes it.
func restoreDump(t *testing.T, name string) (dir string) {
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
	execSQL(t, path, string(text))
	return dir
}

// TestSchema1: a record of version 1 opens with every version from there on.
func TestSchema1(t *testing.T) {
	for name, schema := range map[string]*schema{"this version": currentSchema(t), "a later one": withNextMigration(t, addColumn)} {
		t.Run(name, func(t *testing.T) {
			s, err := openWith(t.Context(), testOptions(restoreDump(t, "schema1.sql")), schema)
			if err != nil {
				t.Fatal(err)
			}
			defer closeStore(t, s)
			changes := allModeChanges(t, s)
			if len(changes) != 3 || changes[0].Reason != "queue age pages" || changes[0].Running != 4 || changes[2].Action != control.InitialMode {
				t.Errorf("changes %+v", changes)
			}
			standings, err := s.ModeStates(t.Context())
			if err != nil || len(standings) != 2 || standings[0].Mode != admission.PassThrough || standings[0].RestoreMode != admission.Observe {
				t.Errorf("standings %+v, %v", standings, err)
			}
			requests, err := s.QueuedRequests(t.Context(), 0)
			if err != nil || len(requests) != 1 || requests[0].Number != 2 || requests[0].Mode.Action != control.Restore {
				t.Errorf("requests %+v, %v", requests, err)
			}
			mustRecord(t, s, 2, newModeChange("default", admission.Enforce))
			saveBatch(t, s, newIncidentBatch("i-1"), planPost)
			checkHistory(t, mustLoadIncident(t, s, "i-1"))
		})
	}
}

// TestSchema2: the same for version 2, which has incidents.
func TestSchema2(t *testing.T) {
	for name, schema := range map[string]*schema{"this version": currentSchema(t), "a later one": withNextMigration(t, addColumn)} {
		t.Run(name, func(t *testing.T) {
			s, err := openWith(t.Context(), testOptions(restoreDump(t, "schema2.sql")), schema)
			if err != nil {
				t.Fatal(err)
			}
			defer closeStore(t, s)
			const open, over = "019ca1b0-0000-7000-8000-00000000000a", "019ca1b0-0000-7000-8000-000000000009"
			saved := mustLoad(t, s)
			if len(saved.Incidents) != 1 || saved.Incidents[0].ID != open || saved.Incidents[0].Value != 31.5 || saved.Incidents[0].AckedBy != "anna" {
				t.Errorf("incidents %+v", saved.Incidents)
			}
			if diff := cmp.Diff([]engine.State{fullState("queue_age", open)}, saved.States); diff != "" || len(saved.Silences) != 1 {
				t.Errorf("%d silences, states (-want +got):\n%s", len(saved.Silences), diff)
			}
			st := mustLoadIncident(t, s, over)
			if ref, err := s.Outbox().Thread(t.Context(), over, alerts.ToPage); err != nil || ref != st.Deliveries[0].Ref || ref.TS != "1772366400.000100" {
				t.Errorf("the message stands at %v, %v, and was sent to %v", ref, err, st.Deliveries[0].Ref)
			}
			ds, err := s.Outbox().Pending(t.Context(), 10)
			if err != nil || len(ds) != 3 || !ds[2].Notification.Ping || ds[2].Notification.Incident.Impact != "answers are late" {
				t.Errorf("%+v, %v", ds, err)
			}
			wantSLO(t, s, "default", noon, 90, 3)
			if changes := allModeChanges(t, s); len(changes) != 3 {
				t.Errorf("%d changes of version 1 are left", len(changes))
			}
			saveBatch(t, s, newIncidentBatch("i-1"), planPost)
		})
	}
}

// TestSchema3: the same for version 3, which has entries of the audit, guards and
// pauses.
func TestSchema3(t *testing.T) {
	for name, schema := range map[string]*schema{"this version": currentSchema(t), "a later one": withNextMigration(t, addColumn)} {
		t.Run(name, func(t *testing.T) {
			s, err := openWith(t.Context(), testOptions(restoreDump(t, "schema3.sql")), schema)
			if err != nil {
				t.Fatal(err)
			}
			defer closeStore(t, s)
			a, err := s.Audit(t.Context(), control.AuditQuery{})
			if err != nil || len(changesOf(a)) != 3 || len(entriesOf(a)) != 1 {
				t.Fatalf("audit %+v, %v", a, err)
			}
			if e := entriesOf(a)[0]; e.Result != control.Withheld || e.Inputs["mode"] != "passthrough" || e.Subject != "019ca1b0-0000-7000-8000-00000000000a" {
				t.Errorf("entry %+v", e)
			}
			guards, err := s.RollbackStates(t.Context())
			if err != nil || len(guards) != 1 || guards[0].Phase != control.Cooldown || len(guards[0].Rollbacks) != 2 || guards[0].HoldActor != "anna" {
				t.Errorf("guards %+v, %v", guards, err)
			}
			mustAppendEntry(t, s, newAuditEntry(control.KindInteraction, "default"))
		})
	}
}

// TestNewer: a record from a later version is refused, and left as it is.
func TestNewer(t *testing.T) {
	dir := t.TempDir()
	s, err := openWith(t.Context(), testOptions(dir), withNextMigration(t, addColumn))
	if err != nil {
		t.Fatal(err)
	}
	mustRecord(t, s, 0, newModeChange("p", admission.Observe))
	closeStore(t, s)
	path := filepath.Join(dir, databaseName)
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, opened := Open(t.Context(), testOptions(dir))
	_, left := QueueRequest(t.Context(), dir, control.ModeRequest{Action: control.Rollback})
	_, _, audit := ReadModeChanges(t.Context(), dir, control.AuditQuery{})
	for name, err := range map[string]error{"open": opened, "leave": left, "read": audit} {
		if !errors.Is(err, ErrNewer) {
			t.Errorf("%s: %v, want ErrNewer", name, err)
			continue
		}
		wantContains(t, err.Error(), fmt.Sprintf("version %d", currentVersion(t)+1), fmt.Sprintf("supports up to %d", currentVersion(t)), "backup")
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
	if _, err := QueueRequest(t.Context(), dir, control.ModeRequest{Action: control.Rollback}); !errors.Is(err, ErrOlder) {
		t.Errorf("leave: %v, want ErrOlder", err)
	}
	if _, _, err := ReadModeChanges(t.Context(), dir, control.AuditQuery{}); !errors.Is(err, ErrOlder) {
		t.Errorf("read: %v, want ErrOlder", err)
	}
	closeStore(t, openTestStore(t, dir))
	if _, err := QueueRequest(t.Context(), dir, control.ModeRequest{Action: control.Rollback}); err != nil {
		t.Errorf("after a start: %v", err)
	}
}

// TestBrokenMigration: a step that fails leaves the version before it, whole, and
// the next attempt does it again.
func TestBrokenMigration(t *testing.T) {
	dir, _ := newRecordDir(t)
	_, err := openWith(t.Context(), testOptions(dir), withNextMigration(t, addColumn+"INSERT INTO more SELECT json(reason) FROM mode_changes;\n"))
	if err == nil {
		t.Fatal("a broken migration passed")
	}
	wantContains(t, err.Error(), fmt.Sprintf("from version %d to %d", currentVersion(t), currentVersion(t)+1))
	s := openTestStore(t, dir) // the old program goes on
	if c := allModeChanges(t, s); len(c) != 2 {
		t.Errorf("%d changes, want 2", len(c))
	}
	closeStore(t, s)
	s, err = openWith(t.Context(), testOptions(dir), withNextMigration(t, addColumn))
	if err != nil {
		t.Fatal(err)
	}
	if c := allModeChanges(t, s); len(c) != 2 {
		t.Errorf("%d changes, want 2", len(c))
	}
	closeStore(t, s)
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
			execSQL(t, path, tt.statements...)
			s, err := Open(t.Context(), testOptions(dir))
			if err == nil {
				defer closeStore(t, s)
				mustRecord(t, s, 0, newModeChange("p", admission.Observe))
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
		dir, path := newRecordDir(t)
		execSQL(t, path, statement)
		if s, err := Open(t.Context(), testOptions(dir)); !errors.Is(err, want) {
			t.Errorf("open after %s: %v, want %v", statement, err, want)
		} else if err == nil {
			closeStore(t, s)
		}
		if _, err := QueueRequest(t.Context(), dir, control.ModeRequest{Action: control.Rollback}); !errors.Is(err, want) {
			t.Errorf("leave after %s: %v, want %v", statement, err, want)
		}
	}
}

// TestAppendOnly: the audit can be added to, and nothing else.
func TestAppendOnly(t *testing.T) {
	s := openTestStore(t, t.TempDir())
	c := newModeChange("p", admission.Observe)
	mustRecord(t, s, 0, c)
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
	if got := allModeChanges(t, s); len(got) != 1 || got[0] != c {
		t.Errorf("the audit became %+v", got)
	}
}
