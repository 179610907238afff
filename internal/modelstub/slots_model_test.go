package modelstub

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
)

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
