package rollbacktest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"headgate/e2e/harness"
)

// SmallDisk mounts a file system of 2 MiB at the data directory of a folder. Only root can
// do that: for others it returns false.
func SmallDisk(t testing.TB, dir string) bool {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Log("not root: no small file system can be mounted, so a full disk is not tested")
		return false
	}
	data := harness.DataDir(dir)
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("headgate-test", data, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "size=2m,mode=0700"); err != nil {
		t.Fatalf("root, but no small file system can be mounted at %s: %v", filepath.Base(data), err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(data, unix.MNT_DETACH); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	return true
}

// LimitFiles limits the files that a gate may have open from now on, beside those that it
// has. It returns a function that counts how many of them are in use.
func LimitFiles(t testing.TB, gate *harness.Gate, more int) (used func() int) {
	t.Helper()
	open := func() int {
		files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", gate.PID()))
		if err != nil {
			t.Fatal(err)
		}
		return len(files)
	}
	had := open()
	limit := unix.Rlimit{Cur: uint64(had + more), Max: uint64(had + more)}
	if err := unix.Prlimit(gate.PID(), unix.RLIMIT_NOFILE, &limit, nil); err != nil {
		t.Fatal(err)
	}
	return func() int { return open() - had }
}

// reservedFiles is how many files stay free for everything but connections.
const reservedFiles = 1000

// FreeFiles returns how many connections this process, and one started by it, may open
// now: limit at most.
func FreeFiles(limit int) int {
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		return 0
	}
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return max(min(limit, int(min(files.Cur, 1<<30))-len(open)-reservedFiles), 0)
}
