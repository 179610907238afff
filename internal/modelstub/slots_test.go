package modelstub

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestSlotsAreGrantedInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slots{limit: 1}
		if err := s.acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
		var order []int
		for i := range 3 {
			go func() {
				if s.acquire(t.Context()) == nil {
					order = append(order, i)
				}
			}()
			synctest.Wait()
		}
		for range 3 {
			s.release()
			synctest.Wait()
		}
		s.release()
		if len(order) != 3 || order[0] != 0 || order[1] != 1 || order[2] != 2 {
			t.Errorf("granted in order %v, want [0 1 2]", order)
		}
		if held, peak, waiting := s.counts(); held != 0 || peak != 1 || waiting != 0 {
			t.Errorf("held %d, peak %d, waiting %d: want 0, 1, 0", held, peak, waiting)
		}
	})
}

func TestSlotsCancelledCallLeavesTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slots{limit: 1}
		_ = s.acquire(t.Context())
		ctx, cancel := context.WithCancel(t.Context())
		result := make(chan error, 1)
		go func() { result <- s.acquire(ctx) }()
		synctest.Wait()
		if _, _, waiting := s.counts(); waiting != 1 {
			t.Fatalf("waiting %d, want 1", waiting)
		}
		cancel()
		if err := <-result; err == nil {
			t.Error("a cancelled call was granted a slot")
		}
		s.release()
		if held, _, waiting := s.counts(); held != 0 || waiting != 0 {
			t.Errorf("held %d, waiting %d: want 0, 0", held, waiting)
		}
	})
}

func TestSlotsGrantThenCancelHandsTheSlotOn(t *testing.T) {
	s := &slots{limit: 1}
	granted := make(chan struct{})
	place := s.queued.PushBack(granted)
	next := make(chan struct{})
	s.queued.PushBack(next)
	s.resize(1) // grants the first
	s.cancelWait(place, granted)
	select {
	case <-next:
	default:
		t.Error("the slot of a call that left after its grant was not handed on")
	}
	if held, _, _ := s.counts(); held != 1 {
		t.Errorf("held %d, want 1", held)
	}
}

func TestSlotsResize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slots{limit: 1}
		_ = s.acquire(t.Context())
		var granted atomic.Int32
		for range 5 {
			go func() {
				if s.acquire(t.Context()) == nil {
					granted.Add(1)
				}
			}()
		}
		for _, step := range []struct{ limit, want int }{{3, 2}, {2, 2}, {0, 5}} {
			s.resize(step.limit)
			synctest.Wait()
			if got := int(granted.Load()); got != step.want {
				t.Errorf("limit %d: %d calls granted, want %d", step.limit, got, step.want)
			}
		}
	})
}

func TestSlotsNeverExceedLimit(t *testing.T) {
	s := &slots{limit: 8}
	var now, peak atomic.Int64
	var wg sync.WaitGroup
	for i := range 1000 {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Duration(i%5)*time.Millisecond)
			if i%2 == 0 {
				ctx, cancel = context.WithCancel(context.Background())
			}
			defer cancel()
			if s.acquire(ctx) != nil {
				return
			}
			n := now.Add(1)
			for p := peak.Load(); n > p && !peak.CompareAndSwap(p, n); p = peak.Load() {
			}
			now.Add(-1)
			s.release()
		})
	}
	wg.Wait()
	if peak.Load() > 8 {
		t.Errorf("%d calls held a slot at once, limit 8", peak.Load())
	}
	if held, p, waiting := s.counts(); held != 0 || waiting != 0 || p > 8 {
		t.Errorf("held %d, waiting %d, peak %d: want 0, 0, at most 8", held, waiting, p)
	}
}
