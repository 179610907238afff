package app

import (
	"context"
	"slices"
	"sync"
)

// endpointSlots bound how many calls an endpoint works on at once. Those beyond wait, first
// come first served. It is safe for concurrent use.
type endpointSlots struct {
	mu    sync.Mutex
	limit int
	used  int
	queue []chan struct{}
}

// acquire waits for a slot. False: ctx ended first.
func (s *endpointSlots) acquire(ctx context.Context) bool {
	s.mu.Lock()
	if s.used < s.limit && len(s.queue) == 0 {
		s.used++
		s.mu.Unlock()
		return true
	}
	turn := make(chan struct{})
	s.queue = append(s.queue, turn)
	s.mu.Unlock()
	select {
	case <-turn:
		return true
	case <-ctx.Done():
		s.abandon(turn)
		return false
	}
}

// abandon gives up a place in the queue, or the slot that it has come to.
func (s *endpointSlots) abandon(turn chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.queue, turn); i >= 0 {
		s.queue = slices.Delete(s.queue, i, i+1)
		return
	}
	s.used--
	s.grantLocked()
}

func (s *endpointSlots) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used--
	s.grantLocked()
}

// resize makes the limit higher or lower. Those who have a slot keep it.
func (s *endpointSlots) resize(by int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limit += by
	s.grantLocked()
}

func (s *endpointSlots) grantLocked() {
	for s.used < s.limit && len(s.queue) > 0 {
		close(s.queue[0])
		s.queue = s.queue[1:]
		s.used++
	}
}
