package sqlite

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode"
)

const (
	// lockTimeout is how long taking the lock is tried: Running holds it for a
	// moment when it looks.
	lockTimeout = 500 * time.Millisecond
	// maxLockFile bounds what is read from a lock file, in bytes.
	maxLockFile = 4096
)

// LockOwner is the process that holds a data directory. Fields that could not be
// learnt are zero.
type LockOwner struct {
	PID     int       `json:"pid"`
	Host    string    `json:"host"`
	Started time.Time `json:"started"`
	Listen  string    `json:"listen"` // address of the admin listener, as configured
}

// String names the holder in the middle of a sentence.
func (h LockOwner) String() string {
	if h == (LockOwner{}) {
		return "an unknown process"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "process %d on %s", h.PID, h.Host)
	if h.Listen != "" {
		fmt.Fprintf(&b, ", listening on %s", h.Listen)
	}
	fmt.Fprintf(&b, ", since %s", h.Started.UTC().Format(time.RFC3339))
	return b.String()
}

// writeTo puts the holder into its lock file. A reader may come at any moment:
// it takes the first line, so what is left of a longer one does not matter.
func (h LockOwner) writeTo(f *os.File) error {
	line, err := json.Marshal(h)
	if err != nil {
		return err
	}
	line = append(line, '\n')
	if _, err := f.WriteAt(line, 0); err != nil {
		return err
	}
	return f.Truncate(int64(len(line)))
}

// readLockOwner returns the owner that a lock file names, zero when its content is
// invalid: any process may have written there.
func readLockOwner(r io.ReaderAt) LockOwner {
	text, _ := io.ReadAll(io.NewSectionReader(r, 0, maxLockFile))
	line, _, ok := bytes.Cut(text, []byte("\n"))
	var h LockOwner
	if !ok || json.Unmarshal(line, &h) != nil || h.PID <= 0 || !printable(h.Host) || !printable(h.Listen) {
		return LockOwner{}
	}
	return h
}

// printable says whether a text can be shown to people as it is.
func printable(s string) bool {
	return len(s) <= 255 && strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar }) < 0
}

// errLockHeld says that another process holds a lock.
var errLockHeld = errors.New("held")

// acquireLock makes this process the one that serves from dir, until the file is
// closed, or the process is gone, however it goes. The file is never removed:
// two processes could then hold locks on two files of that name.
func acquireLock(ctx context.Context, dir string, me LockOwner) (*os.File, error) {
	path := filepath.Join(dir, lockName)
	f, err := openLockFile(path, os.O_CREATE|os.O_RDWR)
	if err != nil {
		return nil, fmt.Errorf("open the lock: %w", err)
	}
	if err := retryLock(ctx, f); err != nil {
		holder := readLockOwner(f)
		_ = f.Close()
		if errors.Is(err, errLockHeld) {
			return nil, fmt.Errorf("%s: %w, by %s", dir, ErrLocked, holder)
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	if err := errors.Join(f.Chmod(0o600), me.writeTo(f)); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("write the lock: %w", classifyOS(err))
	}
	return f, nil
}

// retryLock tries for a while.
func retryLock(ctx context.Context, f *os.File) error {
	for deadline := time.Now().Add(lockTimeout); ; {
		err := flock(f, true)
		if !errors.Is(err, errLockHeld) || time.Now().After(deadline) || !sleepCtx(ctx, 20*time.Millisecond) {
			return err
		}
	}
}

// Running says whether a process serves from dir, and who it is. It takes no
// notice of a service with an ephemeral record.
func Running(dir string) (LockOwner, bool, error) {
	f, err := openLockFile(filepath.Join(dir, lockName), os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return LockOwner{}, false, nil
	}
	if err != nil {
		return LockOwner{}, false, fmt.Errorf("open the lock: %w", err)
	}
	defer func() { _ = f.Close() }()
	err = flock(f, false)
	if errors.Is(err, errLockHeld) {
		return readLockOwner(f), true, nil
	}
	if err != nil {
		return LockOwner{}, false, fmt.Errorf("inspect the lock: %w", err)
	}
	return LockOwner{}, false, nil
}

// sleepCtx waits, and returns false if ctx has ended first.
func sleepCtx(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
