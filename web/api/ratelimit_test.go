package api

import (
	"fmt"
	"testing"
	"time"
)

func TestLimiterIsBounded(t *testing.T) {
	var a attemptLimiter
	now := time.Unix(1000, 0)
	for i := range 3 * maxAddresses {
		now = now.Add(time.Second) // so that the global limit lets some through
		a.take(now, fmt.Sprintf("10.%d.%d.%d:1", i>>16, i>>8&255, i&255))
		if len(a.buckets) > maxAddresses {
			t.Fatalf("%d addresses remembered", len(a.buckets))
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

// TestBucketClock: a clock that goes back gives nothing away and does not lock.
func TestBucketClock(t *testing.T) {
	var b bucket
	now := time.Unix(1000, 0)
	b.refill(now, 1)
	b.used = 10
	b.refill(now.Add(-time.Hour), 1)
	if b.used != 10 {
		t.Errorf("used %v after the clock went back", b.used)
	}
	if got := b.wait(10, 1); got != time.Second {
		t.Errorf("wait %s, want 1s", got)
	}
	b.refill(now.Add(-time.Hour+time.Second), 1)
	if got := b.wait(10, 1); got != 0 {
		t.Errorf("wait %s, want none", got)
	}
}
