//go:build !linux

package rollbacktest

import "testing"

// SmallDisk needs Linux: elsewhere the answer is false.
func SmallDisk(t testing.TB, _ string) bool {
	t.Helper()
	t.Log("not Linux: no file system to fill up, nothing is shown about a full disk")
	return false
}

// LimitFiles needs Linux.
func (r *Instance) LimitFiles(t testing.TB, _ int) (taken func() int) {
	t.Helper()
	t.Fatal("the files of another process can be bounded on Linux only")
	return nil
}
