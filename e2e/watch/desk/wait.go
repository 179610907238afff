package desk

import (
	"testing"
	"time"
)

// patience is how long a test waits for what must happen: longer than the longest
// pause between two attempts to deliver. It is no statement about speed.
const patience = 3 * time.Minute

const pollEvery = 50 * time.Millisecond

// Until waits until the condition holds, and fails the test when it does not.
func Until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !holds(); time.Sleep(pollEvery) {
		if time.Now().After(end) {
			t.Fatalf("waited %v, and this did not happen: %s", patience, what)
		}
	}
}
