package rollbacktest

import (
	"database/sql"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	_ "modernc.org/sqlite" // the driver, to lock the gate's database from another process

	"headgate/e2e/harness"
	"headgate/internal/testkit"
)

// OpenDatabase opens the database of a folder from this process.
func OpenDatabase(t testing.TB, dir string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(harness.DataDir(dir), "headgate.db")+"?_pragma=busy_timeout(30000)")
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1) // the lock and its release must use the same connection
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

// LockDatabase locks the database of a folder against writes until unlock is called.
func LockDatabase(t testing.TB, dir string) (unlock func()) {
	t.Helper()
	db := OpenDatabase(t, dir)
	ExecSQL(t, db, "BEGIN EXCLUSIVE")
	return func() {
		t.Helper()
		ExecSQL(t, db, "ROLLBACK")
	}
}

// FillDisk fills the file system of a folder until free is called.
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

// IdleConns are connections that are opened and never used.
type IdleConns struct {
	address string
	mu      sync.Mutex
	conns   []net.Conn
}

// NewIdleConns returns an empty set of connections to a listener.
func NewIdleConns(address string) *IdleConns { return &IdleConns{address: address} }

// Open opens up to n more connections, writes the bytes into each, and returns how many
// succeeded. It may be called from several goroutines.
func (h *IdleConns) Open(n int, written ...byte) (made int) {
	for range n {
		c, err := net.DialTimeout("tcp", h.address, testkit.Timeout(5*time.Second))
		if err != nil {
			return made
		}
		h.mu.Lock()
		h.conns = append(h.conns, c)
		h.mu.Unlock()
		if _, err := c.Write(written); err != nil {
			return made
		}
		made++
	}
	return made
}

// ClosedByPeer returns how many connections the peer has closed. It does not wait for
// further closes.
func (h *IdleConns) ClosedByPeer() (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	buf := make([]byte, 4096)
	for _, c := range h.conns {
		_ = c.SetReadDeadline(time.Now().Add(time.Millisecond))
		for {
			_, err := c.Read(buf)
			if err == nil {
				continue
			}
			if e, ok := err.(net.Error); !ok || !e.Timeout() {
				n++
			}
			break
		}
	}
	return n
}

// Close closes all connections.
func (h *IdleConns) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.conns {
		_ = c.Close()
	}
	h.conns = nil
}
