package harness

import (
	"testing"
	"time"
)

// Patience is how long a test waits for something that must happen. It is no
// statement about speed: it ends tests that would never end.
const Patience = 30 * time.Second

const pollEvery = 5 * time.Millisecond

// Until waits until the condition holds, and fails the test when it does not.
func Until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	if !within(Patience, holds) {
		t.Fatalf("waited %v, and this did not happen: %s", Patience, what)
	}
}

func within(limit time.Duration, holds func() bool) bool {
	for end := time.Now().Add(limit); ; time.Sleep(pollEvery) {
		if holds() {
			return true
		}
		if time.Now().After(end) {
			return false
		}
	}
}
