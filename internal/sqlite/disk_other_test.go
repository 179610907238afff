//go:build !linux

package sqlite

import "testing"

// smallDisk has no file system to offer: TestFull must do.
func smallDisk(*testing.T) (dir string, ok bool) { return "", false }
