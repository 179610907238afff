//go:build !unix

package sqlite

import (
	"errors"
	"os"
)

func flock(*os.File, bool) error {
	return errors.New("this system has no flock(2); use --ephemeral")
}

func openLockFile(path string, flags int) (*os.File, error) { return os.OpenFile(path, flags, 0o600) }

func classifyOS(err error) error { return err }

func diskFull(string) bool { return false }
