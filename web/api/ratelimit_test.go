package api

import (
	"fmt"
	"testing"
	"time"
)

func TestLimiterIsBounded(t *testing.T) {
	a := newAttemptLimiter()
	now := time.Unix(1000, 0)
	for i := range 3 * maxAddresses {
		now = now.Add(time.Second) // so that the global limit lets some through
		a.take(now, fmt.Sprintf("10.%d.%d.%d:1", i>>16, i>>8&255, i&255))
		if len(a.addresses) > maxAddresses {
			t.Fatalf("%d addresses remembered", len(a.addresses))
		}
	}
	now = now.Add(time.Hour)
	if wait, _ := a.take(now, "192.0.2.1:1"); wait != 0 {
		t.Errorf("a new address after an hour: %s", wait)
	}
}

func TestAttemptsByNetwork(t *testing.T) {
	tests := []struct {
		a, b string
		same bool
	}{
		{"192.0.2.1:1", "192.0.2.1:2", true},
		{"192.0.2.1:1", "192.0.2.2:1", false},
		{"192.0.2.1:1", "[::ffff:192.0.2.1]:1", true},
		{"[2001:db8::1]:1", "[2001:db8::ffff:2]:1", true},
		{"[2001:db8::1]:1", "[2001:db8:0:1::1]:1", false},
		{"[fe80::1%eth0]:1", "[fe80::1%eth1]:1", true},
		{"@", "nonsense", true},
	}
	for _, tt := range tests {
		if got := clientPrefix(tt.a) == clientPrefix(tt.b); got != tt.same {
			t.Errorf("%s and %s: same %v", tt.a, tt.b, got)
		}
	}
}

// TestLimiterCounts: a burst passes, then attempts wait; those over the limit use no token, and are reported by the next
// one within it. A clock that steps back neither grants nor blocks attempts.
func TestLimiterCounts(t *testing.T) {
	a := newAttemptLimiter()
	now := time.Unix(1000, 0)
	for range addressBurst {
		if wait, _ := a.take(now, "192.0.2.1:1"); wait != 0 {
			t.Fatalf("wait %s within the burst", wait)
		}
	}
	for _, at := range []time.Time{now, now, now.Add(-time.Hour)} {
		if wait, _ := a.take(at, "192.0.2.1:1"); wait.Round(time.Millisecond) != 6*time.Second {
			t.Errorf("wait %s after the burst, want 6s", wait)
		}
	}
	if wait, _ := a.take(now, "192.0.2.2:1"); wait != 0 {
		t.Errorf("another address waits %s", wait)
	}
	if wait, _ := a.take(now.Add(7*time.Second), "192.0.2.1:1"); wait != 0 {
		t.Errorf("wait %s after the time to wait", wait)
	}
	a.suppressed = 3
	if _, suppressed := a.take(now, "192.0.2.3:1"); suppressed != 3 || a.suppressed != 0 {
		t.Errorf("%d suppressed, want 3", suppressed)
	}
}
