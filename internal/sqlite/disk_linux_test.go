package sqlite

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// smallDisk returns a file system of 1 MiB, a quarter of it in a ballast file that
// a test can give back. Only root can have one; for others TestFull, which limits
// the number of pages, must do, and the answer is false.
func smallDisk(t *testing.T) (dir string, ok bool) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Log("not root: no file system to fill up")
		return "", false
	}
	dir = t.TempDir()
	if err := unix.Mount("headgate-test", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "size=1m,mode=0700"); err != nil {
		t.Fatalf("root, but no small file system can be mounted: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	if err := os.WriteFile(filepath.Join(dir, ballast), make([]byte, 256<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir, true
}
