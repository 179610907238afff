package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// lockTimeout is how long taking the lock is tried: Running holds it for a
// moment when it looks.
const lockTimeout = 500 * time.Millisecond

// errLockHeld says that somebody else holds a lock.
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
		return LockOwner{}, false, fmt.Errorf("look at the lock: %w", err)
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
