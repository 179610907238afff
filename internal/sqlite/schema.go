package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"

	"github.com/pressly/goose/v3"
	driver "modernc.org/sqlite"
	codes "modernc.org/sqlite/lib"

	"headgate/migrations"
)

// versionTable is where goose notes which migrations were made.
const versionTable = goose.DefaultTablename

// maxObjects bounds what is read of a file's structure.
const maxObjects = 1000

// schema is what a list of migrations builds.
type schema struct {
	migrations fs.FS
	version    int64
	objects    map[string]schemaObject // by name
}

// schemaObject is a table, index, trigger or view as SQLite remembers it.
type schemaObject struct{ kind, name, table, text string }

// programSchema returns the schema of the program's migrations, which it builds once.
var programSchema = sync.OnceValues(func() (*schema, error) { return newSchema(migrations.FS) })

// newSchema builds a schema in memory.
func newSchema(files fs.FS) (_ *schema, err error) {
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	db.SetMaxOpenConns(1)
	s := &schema{migrations: files}
	if s.version, err = s.migrate(context.Background(), db); err != nil {
		return nil, fmt.Errorf("build the structure to compare with: %w", err)
	}
	s.objects, err = schemaObjects(context.Background(), db)
	return s, err
}

// migrate brings a database up to date and returns its version. The caller has it to itself:
// goose has no lock for SQLite, and two processes at once would corrupt it. Each step is one
// transaction, so that an interrupted one is repeated.
func (s *schema) migrate(ctx context.Context, db *sql.DB) (version int64, err error) {
	p, err := goose.NewProvider(goose.DialectSQLite3, db, s.migrations, goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return 0, err
	}
	if _, err := p.Up(ctx); err != nil {
		return 0, err
	}
	return p.GetDBVersion(ctx)
}

// schemaVersion returns how far the migrations of a database have come, 0 for an empty
// one. A database of something else is refused.
func schemaVersion(ctx context.Context, db *sql.DB) (int64, error) {
	have, err := schemaObjects(ctx, db)
	if err != nil {
		return 0, err
	}
	if have[versionTable].kind != "table" {
		if len(have) > 0 {
			return 0, fmt.Errorf("%w: the file is the database of another program", ErrCorrupt)
		}
		return 0, nil
	}
	var v any
	if err := db.QueryRowContext(ctx, "SELECT max(version_id) FROM "+versionTable).Scan(&v); err != nil {
		return 0, migrationErr(err)
	}
	if n, ok := v.(int64); ok && n >= 0 {
		return n, nil
	}
	return 0, fmt.Errorf("%w: its version is invalid", ErrCorrupt)
}

// check compares a database with the schema: ErrNewer, ErrOlder or ErrCorrupt. More tables and
// indexes do no harm, but a view or trigger could change what the program writes.
func (s *schema) check(ctx context.Context, db *sql.DB) error {
	version, err := schemaVersion(ctx, db)
	switch {
	case err != nil:
		return err
	case version > s.version:
		return fmt.Errorf("%w (the record has version %d, this headgate supports up to %d)", ErrNewer, version, s.version)
	case version < s.version:
		return fmt.Errorf("%w (the record has version %d, this headgate needs %d)", ErrOlder, version, s.version)
	}
	got, err := schemaObjects(ctx, db)
	if err != nil {
		return err
	}
	for name, want := range s.objects {
		if g, ok := got[name]; !ok || (g != want && name != versionTable) {
			return fmt.Errorf("%w: %s %s is missing or not as headgate made it", ErrCorrupt, want.kind, name)
		}
	}
	for name, g := range got {
		if _, ours := s.objects[name]; !ours && g.kind != "table" && g.kind != "index" {
			return fmt.Errorf("%w: it has a view or trigger that headgate has not made", ErrCorrupt)
		}
	}
	return nil
}

// schemaObjects lists a database's structure by name.
func schemaObjects(ctx context.Context, db *sql.DB) (map[string]schemaObject, error) {
	return readConn(ctx, db, func(r *reader) map[string]schemaObject {
		out := map[string]schemaObject{}
		for _, o := range queryAtMost(r, maxObjects, table{name: "sqlite_schema"}, func(r *row) schemaObject {
			return schemaObject{r.raw("type"), r.raw("name"), r.raw("tbl_name"), normalizeSQL(r.raw("sql"))}
		}, "SELECT type, name, tbl_name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\' LIMIT ?") {
			out[o.name] = o
		}
		return out
	})
}

// normalizeSQL makes statements alike that differ in spaces and quotes only, as they
// may when SQLite has rewritten them for an ALTER TABLE.
func normalizeSQL(s string) string {
	return strings.Join(strings.Fields(strings.ReplaceAll(s, `"`, " ")), " ")
}

// migrationErr says what it means when a migration fails on what it finds, rather
// than on the disk: that the file is not what its version says.
func migrationErr(err error) error {
	var e *driver.Error
	if errors.As(err, &e) && (e.Code()&0xff == codes.SQLITE_ERROR || e.Code()&0xff == codes.SQLITE_CONSTRAINT) {
		return fmt.Errorf("%w: what is in it does not fit its version", ErrCorrupt)
	}
	return err
}
