package app

import (
	"context"
	"slices"
	"sync"
)

// slots bound how many calls an endpoint works on at once. Those beyond wait, first
// come first served. It is safe for concurrent use.
type slots struct {
	mu    sync.Mutex
	limit int
	used  int
	queue []chan struct{}
}

// take waits for a slot. False: ctx ended first.
func (s *slots) take(ctx context.Context) bool {
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
		s.leave(turn)
		return false
	}
}

// leave gives up a place in the queue, or the slot that it has come to.
func (s *slots) leave(turn chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.queue, turn); i >= 0 {
		s.queue = slices.Delete(s.queue, i, i+1)
		return
	}
	s.used--
	s.serveLocked()
}

func (s *slots) give() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used--
	s.serveLocked()
}

// change makes the limit higher or lower. Those who have a slot keep it.
func (s *slots) change(by int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limit += by
	s.serveLocked()
}

func (s *slots) serveLocked() {
	for s.used < s.limit && len(s.queue) > 0 {
		close(s.queue[0])
		s.queue = s.queue[1:]
		s.used++
	}
}
