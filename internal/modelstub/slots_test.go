package modelstub

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
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

// resize sets the limit; 0 is unlimited.
func (s *slots) resize(limit int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limit = cmp.Or(limit, unlimited)
	s.grantLocked()
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

// slotOracle is a queue of names in front of a number of places, written without
// the code under test in mind.
type slotOracle struct {
	limit   int
	serving []int
	waiting []int
}

func (o *slotOracle) admit() {
	for len(o.waiting) > 0 && (o.limit == 0 || len(o.serving) < o.limit) {
		o.serving = append(o.serving, o.waiting[0])
		o.waiting = o.waiting[1:]
	}
}

func (o *slotOracle) remove(list *[]int, i int) (name int) {
	name = (*list)[i]
	*list = slices.Delete(*list, i, i+1)
	return name
}

// TestSlotsAgainstOracle takes random steps and compares who is served with
// what the oracle says, after each.
func TestSlotsAgainstOracle(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			w := &slotModel{t: t, slots: &slots{limit: 2}, oracle: slotOracle{limit: 2}, cancels: map[int]context.CancelFunc{}, served: map[int]bool{}}
			r := rand.New(rand.NewPCG(seed, 0))
			for range 300 {
				w.step(r)
				synctest.Wait()
				w.compare()
			}
			for _, cancel := range w.cancels {
				cancel()
			}
		})
	}
}

type slotModel struct {
	t       *testing.T
	slots   *slots
	oracle  slotOracle
	next    int
	cancels map[int]context.CancelFunc
	served  map[int]bool // guarded by synctest.Wait between the steps
}

func (w *slotModel) step(r *rand.Rand) {
	switch kind := r.IntN(10); {
	case kind < 5:
		w.arrive()
	case kind < 8 && len(w.oracle.serving) > 0:
		delete(w.served, w.oracle.remove(&w.oracle.serving, r.IntN(len(w.oracle.serving))))
		w.slots.release()
	case kind < 9 && len(w.oracle.waiting) > 0:
		w.cancels[w.oracle.remove(&w.oracle.waiting, r.IntN(len(w.oracle.waiting)))]()
	default:
		w.oracle.limit = r.IntN(6)
		w.slots.resize(w.oracle.limit)
	}
	w.oracle.admit()
}

func (w *slotModel) arrive() {
	name := w.next
	w.next++
	ctx, cancel := context.WithCancel(w.t.Context())
	w.cancels[name] = cancel
	w.oracle.waiting = append(w.oracle.waiting, name)
	granted := make(chan bool, 1)
	go func() { granted <- w.slots.acquire(ctx) == nil }()
	synctest.Wait()
	select {
	case ok := <-granted:
		w.served[name] = ok
	default:
		go func() {
			if <-granted {
				w.markServed(name)
			}
		}()
	}
}

// markServed takes a lock because one resize may let in several calls.
func (w *slotModel) markServed(name int) {
	w.slots.mu.Lock()
	defer w.slots.mu.Unlock()
	w.served[name] = true
}

func (w *slotModel) compare() {
	w.t.Helper()
	held, peak, waiting := w.slots.counts()
	if held != len(w.oracle.serving) || waiting != len(w.oracle.waiting) || peak < held {
		w.t.Fatalf("held %d, waiting %d, peak %d; the oracle serves %v and keeps %v waiting", held, waiting, peak, w.oracle.serving, w.oracle.waiting)
	}
	if len(w.served) != held {
		w.t.Fatalf("%d calls are served, %d slots held", len(w.served), held)
	}
	for _, name := range w.oracle.serving {
		if !w.served[name] {
			w.t.Fatalf("call %d should be served: %v, served are %v", name, w.oracle.serving, w.served)
		}
	}
}

// TestSlotsAreLostAndGivenBack: lost slots leave the calls that hold one alone, and come back.
func TestSlotsAreLostAndGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slots{limit: 2}
		var served atomic.Int32
		for range 4 {
			go func() {
				if s.acquire(t.Context()) == nil {
					served.Add(1)
				}
			}()
		}
		synctest.Wait()
		s.lose(2)
		s.release()
		s.release()
		synctest.Wait()
		if held, _, waiting := s.counts(); held != 0 || waiting != 2 || served.Load() != 2 {
			t.Errorf("without slots: held %d, waiting %d, served %d", held, waiting, served.Load())
		}
		s.lose(-2)
		synctest.Wait()
		if held, _, waiting := s.counts(); held != 2 || waiting != 0 || served.Load() != 4 {
			t.Errorf("with slots again: held %d, waiting %d, served %d", held, waiting, served.Load())
		}
	})
}
