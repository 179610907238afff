//go:build !linux

package rollbacktest

import (
	"testing"

	"headgate/e2e/harness"
)

// SmallDisk needs Linux: elsewhere it returns false.
func SmallDisk(t testing.TB, _ string) bool {
	t.Helper()
	t.Log("not Linux: no small file system can be mounted, so a full disk is not tested")
	return false
}

// LimitFiles needs Linux.
func LimitFiles(t testing.TB, _ *harness.Gate, _ int) (used func() int) {
	t.Helper()
	t.Fatal("the open files of another process can be limited on Linux only")
	return nil
}

// FreeFiles returns how many connections may be opened: limit at most.
func FreeFiles(limit int) int { return min(limit, 100) }
