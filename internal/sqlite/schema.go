package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/pressly/goose/v3"
	driver "modernc.org/sqlite"
	codes "modernc.org/sqlite/lib"

	"headgate/migrations"
)

// versionTable is where goose notes which migrations were made.
const versionTable = goose.DefaultTablename

// maxObjects bounds what is read of a file's structure.
const maxObjects = 1000

// schemaObject is a table, index, trigger or view as SQLite remembers it.
type schemaObject struct{ kind, name, table, text string }

// gooseProvider returns goose with the given migrations.
func gooseProvider(db *sql.DB, files fs.FS) (*goose.Provider, error) {
	return goose.NewProvider(goose.DialectSQLite3, db, files, goose.WithDisableGlobalRegistry(true))
}

// latestVersion returns the version that the program knows.
func latestVersion(files fs.FS) (int64, error) {
	p, err := gooseProvider(new(sql.DB), files)
	if err != nil {
		return 0, err
	}
	sources := p.ListSources()
	return sources[len(sources)-1].Version, nil
}

// migrate brings a database up to date. The caller has it to itself: goose has
// no lock of its own for SQLite, and two processes at once would corrupt it. Each
// step is one transaction, so that one which breaks off is done again.
func migrate(ctx context.Context, db *sql.DB, files fs.FS) error {
	p, err := gooseProvider(db, files)
	if err != nil {
		return err
	}
	_, err = p.Up(ctx)
	return err
}

// schemaVersion returns how far the migrations of a database have come, 0 for an empty
// one. A database of something else is refused.
func schemaVersion(ctx context.Context, db *sql.DB) (int64, error) {
	conn, err := limitedConn(ctx, db)
	if err != nil {
		return 0, err
	}
	defer func() { _ = conn.Close() }()
	there, err := schemaObjects(ctx, conn)
	if err != nil {
		return 0, err
	}
	if o, ok := there[versionTable]; !ok || o.kind != "table" {
		if len(there) > 0 {
			return 0, fmt.Errorf("%w: the file is the database of another program", ErrCorrupt)
		}
		return 0, nil
	}
	var v any
	if err := conn.QueryRowContext(ctx, "SELECT max(version_id) FROM "+versionTable).Scan(&v); err != nil {
		return 0, migrationErr(err)
	}
	if n, ok := v.(int64); ok && n >= 0 {
		return n, nil
	}
	return 0, fmt.Errorf("%w: its version is invalid", ErrCorrupt)
}

// compareVersions returns ErrNewer or ErrOlder unless a database has the program's version.
func compareVersions(have, want int64) error {
	switch {
	case have > want:
		return fmt.Errorf("%w (the record has version %d, this headgate supports up to %d)", ErrNewer, have, want)
	case have < want:
		return fmt.Errorf("%w (the record has version %d, this headgate needs %d)", ErrOlder, have, want)
	}
	return nil
}

// checkSchema compares a database's structure with what the migrations build. More
// tables and indexes do no harm, but a view or trigger could change what the
// program writes.
func checkSchema(ctx context.Context, db *sql.DB, files fs.FS) error {
	want, err := expectedSchema(ctx, files)
	if err != nil {
		return fmt.Errorf("build the structure to compare with: %w", err)
	}
	conn, err := limitedConn(ctx, db)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	got, err := schemaObjects(ctx, conn)
	if err != nil {
		return err
	}
	for name, w := range want {
		if g, ok := got[name]; !ok || (g != w && name != versionTable) {
			return fmt.Errorf("%w: %s %s is missing or not as headgate made it", ErrCorrupt, w.kind, name)
		}
	}
	for name, g := range got {
		if _, ours := want[name]; !ours && g.kind != "table" && g.kind != "index" {
			return fmt.Errorf("%w: it has a view or trigger that headgate has not made", ErrCorrupt)
		}
	}
	return nil
}

// expectedSchema returns the structure that the migrations build, in memory.
func expectedSchema(ctx context.Context, files fs.FS) (_ map[string]schemaObject, err error) {
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	db.SetMaxOpenConns(1)
	if err := migrate(ctx, db, files); err != nil {
		return nil, err
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	return schemaObjects(ctx, conn)
}

// schemaObjects lists a database's structure by name.
func schemaObjects(ctx context.Context, conn *sql.Conn) (_ map[string]schemaObject, err error) {
	rows, err := conn.QueryContext(ctx,
		"SELECT type, name, tbl_name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\' LIMIT ?", maxObjects+1)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	out := map[string]schemaObject{}
	for rows.Next() {
		values := make([]any, 4)
		if err := rows.Scan(&values[0], &values[1], &values[2], &values[3]); err != nil {
			return nil, err
		}
		r := row{table: "sqlite_schema", columns: []string{"type", "name", "tbl_name", "sql"}, values: values}
		o := schemaObject{r.raw("type"), r.raw("name"), r.raw("tbl_name"), normalizeSQL(r.raw("sql"))}
		if r.err != nil {
			return nil, r.err
		}
		out[o.name] = o
	}
	if len(out) > maxObjects {
		return nil, fmt.Errorf("%w: it has more than %d tables and indexes", ErrCorrupt, maxObjects)
	}
	return out, rows.Err()
}

// normalizeSQL makes statements alike that differ in spaces and quotes only, as they
// may when SQLite has rewritten them for an ALTER TABLE.
func normalizeSQL(s string) string {
	return strings.Join(strings.Fields(strings.ReplaceAll(s, `"`, " ")), " ")
}

// embeddedMigrations are the program's own migrations.
func embeddedMigrations() fs.FS { return migrations.FS }

// migrationErr says what it means when a migration fails on what it finds, rather
// than on the disk: that the file is not what its version says.
func migrationErr(err error) error {
	var e *driver.Error
	if errors.As(err, &e) && (e.Code()&0xff == codes.SQLITE_ERROR || e.Code()&0xff == codes.SQLITE_CONSTRAINT) {
		return fmt.Errorf("%w: what is in it does not fit its version", ErrCorrupt)
	}
	return err
}
