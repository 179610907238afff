package rollbacktest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// SmallDisk puts a file system of 2 MiB under the data directory of a folder. Only
// root can: for others the answer is false.
func SmallDisk(t testing.TB, dir string) bool {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Log("not root: no file system to fill up, nothing is shown about a full disk")
		return false
	}
	data := DataDir(dir)
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

// LimitFiles bounds the files that the gate may have open from now on, beside
// those that it has. It returns what tells how many of them are taken.
func (r *Instance) LimitFiles(t testing.TB, more int) (taken func() int) {
	t.Helper()
	open := func() int {
		files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", r.PID()))
		if err != nil {
			t.Fatal(err)
		}
		return len(files)
	}
	had := open()
	limit := unix.Rlimit{Cur: uint64(had + more), Max: uint64(had + more)}
	if err := unix.Prlimit(r.PID(), unix.RLIMIT_NOFILE, &limit, nil); err != nil {
		t.Fatal(err)
	}
	return func() int { return open() - had }
}
