package tsdb

import (
	"fmt"
	"time"
)

// never is how often the TSDB moves full chunks from memory to a file of its own,
// which they leave for a block within the hour. It panics when the disk is full, in
// a goroutine where nobody can recover, and the whole process would end with that.
// Blocks are looked through after each compaction all the same.
const never = 10 * 365 * 24 * time.Hour

// recovered makes an error of a panic.
func recovered(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v", v)
		}
	}()
	return f()
}
