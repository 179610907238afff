package app

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestLulls(t *testing.T) {
	var l lulls
	l.note(3*time.Second, lullLimit-time.Millisecond)
	l.note(4*time.Second, lullLimit)
	if got := l.seen(); len(got) != 1 || got[0].At != 4*time.Second || got[0].Took != lullLimit {
		t.Errorf("noted %v", got)
	}
	for range 2 * maxLulls {
		l.note(0, time.Hour)
	}
	if got := len(l.seen()); got != maxLulls {
		t.Errorf("%d are kept", got)
	}
}

// Where nobody is kept from working there is nothing to note, and the watch ends.
func TestNoLulls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l lulls
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		l.watch(ctx, &playClock{speed: 1})
		if got := l.seen(); len(got) > 0 {
			t.Errorf("noted %v", got)
		}
	})
}
