package proxy

import (
	"sync"
	"testing"

	"headgate/proxy/admission"
)

// recorder is an Observer that keeps everything and checks the promise of one
// arrival and one end a task.
type recorder struct {
	t testing.TB

	mu      sync.Mutex
	arrived map[string]int // by pool
	ended   []Observation
	ids     map[string]bool
}

func newRecorder(t testing.TB) *recorder {
	return &recorder{t: t, arrived: make(map[string]int), ids: make(map[string]bool)}
}

func (r *recorder) OnGateEvent(GateEvent) {}

func (r *recorder) OnArrival(pool string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.arrived[pool]++
}

func (r *recorder) OnEnd(o Observation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ids[o.TaskID] {
		r.t.Errorf("task %s ended twice", o.TaskID)
	}
	r.ids[o.TaskID] = true
	r.ended = append(r.ended, o)
	if n := r.endedInLocked(o.Pool); n > r.arrived[o.Pool] {
		r.t.Errorf("pool %s: %d tasks ended, %d arrived", o.Pool, n, r.arrived[o.Pool])
	}
}

func (r *recorder) endedInLocked(pool string) int {
	n := 0
	for _, o := range r.ended {
		if o.Pool == pool {
			n++
		}
	}
	return n
}

// all returns what has ended so far.
func (r *recorder) all() []Observation {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Observation(nil), r.ended...)
}

// count returns how many tasks have ended so far.
func (r *recorder) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.ended)
}

// balanced tells whether everything that arrived has ended, pool by pool.
func (r *recorder) balanced() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for pool, n := range r.arrived {
		if r.endedInLocked(pool) != n {
			return false
		}
	}
	return true
}

// outcomes counts what has ended by outcome.
func (r *recorder) outcomes() map[admission.Outcome]int {
	counts := make(map[admission.Outcome]int)
	for _, o := range r.all() {
		counts[o.Outcome]++
	}
	return counts
}

// teeObserver tells two observers.
type teeObserver struct{ first, second Observer }

func (b teeObserver) OnGateEvent(w GateEvent) { b.first.OnGateEvent(w); b.second.OnGateEvent(w) }
func (b teeObserver) OnArrival(pool string)   { b.first.OnArrival(pool); b.second.OnArrival(pool) }
func (b teeObserver) OnEnd(o Observation)     { b.first.OnEnd(o); b.second.OnEnd(o) }
