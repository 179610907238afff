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

// lockPatience is how long taking the lock is tried: Running holds it for a
// moment when it looks.
const lockPatience = 500 * time.Millisecond

// errHeld says that somebody else holds a lock.
var errHeld = errors.New("held")

// takeLock makes this process the one that serves from dir, until the file is
// closed, or the process is gone, however it goes. The file is never removed:
// two processes could then hold locks on two files of that name.
func takeLock(ctx context.Context, dir string, me Holder) (*os.File, error) {
	path := filepath.Join(dir, lockName)
	f, err := openLock(path, os.O_CREATE|os.O_RDWR)
	if err != nil {
		return nil, fmt.Errorf("open the lock: %w", err)
	}
	if err := waitLock(ctx, f); err != nil {
		holder := readHolder(f)
		_ = f.Close()
		if errors.Is(err, errHeld) {
			return nil, fmt.Errorf("%s: %w, by %s", dir, ErrLocked, holder)
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	if err := errors.Join(f.Chmod(0o600), me.write(f)); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("write the lock: %w", classifyOS(err))
	}
	return f, nil
}

// waitLock tries for a while.
func waitLock(ctx context.Context, f *os.File) error {
	for deadline := time.Now().Add(lockPatience); ; {
		err := flock(f, true)
		if !errors.Is(err, errHeld) || time.Now().After(deadline) || !pause(ctx, 20*time.Millisecond) {
			return err
		}
	}
}

// Running says whether a process serves from dir, and who it is. It takes no
// notice of a service with an ephemeral record.
func Running(dir string) (Holder, bool, error) {
	f, err := openLock(filepath.Join(dir, lockName), os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return Holder{}, false, nil
	}
	if err != nil {
		return Holder{}, false, fmt.Errorf("open the lock: %w", err)
	}
	defer func() { _ = f.Close() }()
	err = flock(f, false)
	if errors.Is(err, errHeld) {
		return readHolder(f), true, nil
	}
	if err != nil {
		return Holder{}, false, fmt.Errorf("look at the lock: %w", err)
	}
	return Holder{}, false, nil
}

// pause waits, and returns false if ctx has ended first.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
