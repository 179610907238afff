package harness

import (
	"testing"
	"time"

	"headgate/internal/testkit"
)

// Timeout limits the wait for a condition. It says nothing about speed: it ends tests
// that would never end. HEADGATE_TEST_SLOWDOWN stretches it.
var Timeout = testkit.Timeout(30 * time.Second)

const pollInterval = 5 * time.Millisecond

// Eventually waits for a condition, at most for [Timeout], and fails the test if it does
// not become true.
func Eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	EventuallyWithin(t, Timeout, what, condition)
}

// EventuallyWithin is [Eventually] with another time limit.
func EventuallyWithin(t testing.TB, limit time.Duration, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !condition(); time.Sleep(pollInterval) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", limit, what)
		}
	}
}
