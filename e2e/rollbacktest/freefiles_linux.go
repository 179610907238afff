package rollbacktest

import (
	"os"

	"golang.org/x/sys/unix"
)

// reservedFiles is how many files are left for everything else.
const reservedFiles = 1000

// FreeFiles returns how many connections this process, and one started by it, may
// open now, at most most.
func FreeFiles(most int) int {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 0
	}
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return max(min(most, int(min(limit.Cur, 1<<30))-len(open)-reservedFiles), 0)
}
