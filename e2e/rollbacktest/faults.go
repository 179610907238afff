package rollbacktest

import (
	"database/sql"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"

	_ "modernc.org/sqlite" // the driver, to get in the gate's way from another process
)

// OpenDatabase opens the database of a folder as a stranger would.
func OpenDatabase(t testing.TB, dir string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(DataDir(dir), "headgate.db")+"?_pragma=busy_timeout(30000)")
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1) // or a lock would be on one connection and its end on another
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// ExecSQL runs statements.
func ExecSQL(t testing.TB, db *sql.DB, statements ...string) {
	t.Helper()
	for _, s := range statements {
		if _, err := db.ExecContext(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

// LockDatabase keeps everybody else from writing into a folder's database, until free is
// called.
func LockDatabase(t testing.TB, dir string) (free func()) {
	t.Helper()
	db := OpenDatabase(t, dir)
	ExecSQL(t, db, "BEGIN EXCLUSIVE")
	return func() {
		t.Helper()
		ExecSQL(t, db, "ROLLBACK")
	}
}

// FillDisk takes all room that the file system of a folder has left, until free is
// called.
func FillDisk(t testing.TB, dir string) (free func()) {
	t.Helper()
	path := filepath.Join(dir, "ballast")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	for block := make([]byte, 64<<10); len(block) > 0; {
		if _, err := f.Write(block); err != nil {
			block = block[:len(block)/2]
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

// SilentListener is the URL of a listener that takes connections and never says a word.
func SilentListener(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	group.Go(func() {
		for {
			c, err := l.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err == nil {
				group.Go(func() {
					_, _ = io.Copy(io.Discard, c) // until the other side has had enough
					_ = c.Close()
				})
			}
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		group.Wait()
	})
	return "http://" + l.Addr().String()
}

// UnusedURL is the URL of an address where nobody listens.
func UnusedURL(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return "http://" + l.Addr().String()
}
