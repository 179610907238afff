package tsdb

import (
	"fmt"
	"time"
)

// disabledInterval is how often the TSDB moves full chunks from memory to a file of its own,
// which they leave for a block within the hour. It panics when the disk is full, in
// a goroutine where nobody can recover, and the whole process would end with that.
// Blocks are looked through after each compaction all the same.
const disabledInterval = 10 * 365 * 24 * time.Hour

// recoverPanic makes an error of a panic.
func recoverPanic(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v", v)
		}
	}()
	return f()
}
