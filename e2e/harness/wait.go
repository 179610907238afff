package harness

import (
	"testing"
	"time"
)

// Timeout is how long a test waits for something that must happen. It is no
// statement about speed: it ends tests that would never end.
const Timeout = 30 * time.Second

const pollInterval = 5 * time.Millisecond

// Eventually waits until the condition holds, and fails the test when it does not.
func Eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	if !poll(Timeout, holds) {
		t.Fatalf("waited %v, and this did not happen: %s", Timeout, what)
	}
}

func poll(limit time.Duration, holds func() bool) bool {
	for end := time.Now().Add(limit); ; time.Sleep(pollInterval) {
		if holds() {
			return true
		}
		if time.Now().After(end) {
			return false
		}
	}
}
