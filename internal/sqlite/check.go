package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// checkFile looks at all of a database that is open and lies at path.
func checkFile(ctx context.Context, db *sql.DB, path string) error {
	if err := checkSize(ctx, db, path); err != nil {
		return err
	}
	return checkPages(ctx, db)
}

// checkSize sees to it that the file ends where a page ends. SQLite takes what is
// missing of the last page for zeroes, and a file of less than a page for a new
// database. Only the write-ahead log may hold what the file lacks.
func checkSize(ctx context.Context, db *sql.DB, path string) error {
	log, err := fileSize(path + "-wal")
	if err != nil || log > 0 {
		return err
	}
	file, err := fileSize(path)
	if err != nil {
		return err
	}
	var page int64
	if err := db.QueryRowContext(ctx, "PRAGMA page_size").Scan(&page); err != nil {
		return err
	}
	if page <= 0 || file%page != 0 {
		return fmt.Errorf("%w: its file was cut off", ErrCorrupt)
	}
	return nil
}

// fileSize returns a file's size, 0 if there is none.
func fileSize(path string) (int64, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// checkPages has SQLite look at all pages of a database.
func checkPages(ctx context.Context, db *sql.DB) error {
	var verdict string
	if err := db.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&verdict); err != nil {
		return err
	}
	if verdict != "ok" {
		return fmt.Errorf("%w: the check of its pages says %.120q", ErrCorrupt, verdict)
	}
	return nil
}
