package app

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestStalls(t *testing.T) {
	var l stallDetector
	l.record(3*time.Second, stallThreshold-time.Millisecond)
	l.record(4*time.Second, stallThreshold)
	if got := l.snapshot(); len(got) != 1 || got[0].At != 4*time.Second || got[0].Took != stallThreshold {
		t.Errorf("noted %v", got)
	}
	for range 2 * maxStalls {
		l.record(0, time.Hour)
	}
	if got := len(l.snapshot()); got != maxStalls {
		t.Errorf("%d are kept", got)
	}
}

// Where nobody is kept from working there is nothing to note, and the watch ends.
func TestNoStalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l stallDetector
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		l.watch(ctx, &scenarioClock{speed: 1})
		if got := l.snapshot(); len(got) > 0 {
			t.Errorf("noted %v", got)
		}
	})
}
