package alerttest

import (
	"testing"
	"time"
)

// timeout is how long a test waits for what must happen: longer than the longest
// pause between two attempts to deliver. It is no statement about speed.
const timeout = 3 * time.Minute

const pollInterval = 50 * time.Millisecond

// Eventually waits until the condition holds, and fails the test when it does not.
func Eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(timeout); !holds(); time.Sleep(pollInterval) {
		if time.Now().After(end) {
			t.Fatalf("waited %v, and this did not happen: %s", timeout, what)
		}
	}
}
