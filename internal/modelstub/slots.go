package modelstub

import (
	"container/list"
	"context"
	"sync"
)

// slots hands out a finite number of slots first come first served.
type slots struct {
	mu     sync.Mutex
	limit  int // 0 is unlimited
	lost   int // taken away from limit
	held   int
	peak   int
	queued list.List // of chan struct{}, closed under mu when the slot is granted
}

// acquire waits for a slot. On success the caller owes exactly one release; on
// an error, which is the context's, it owes none and has left the queue.
func (s *slots) acquire(ctx context.Context) error {
	s.mu.Lock()
	if s.freeLocked() && s.queued.Len() == 0 {
		s.holdLocked()
		s.mu.Unlock()
		return nil
	}
	granted := make(chan struct{})
	place := s.queued.PushBack(granted)
	s.mu.Unlock()

	select {
	case <-granted:
		return nil
	case <-ctx.Done():
		s.cancelWait(place, granted)
		return ctx.Err()
	}
}

// cancelWait gives up a place. A grant that came first is handed back, so that
// whether the caller owes a release is decided here and nowhere else.
func (s *slots) cancelWait(place *list.Element, granted chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-granted:
		s.held--
		s.grantLocked()
	default:
		s.queued.Remove(place)
	}
}

func (s *slots) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held--
	s.grantLocked()
}

// resize changes the limit. Calls that hold a slot keep it, so a lower limit
// is reached as they end.
func (s *slots) resize(limit int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limit = limit
	s.grantLocked()
}

// lose takes slots away from a limit, or gives them back. Calls that hold a slot keep it.
func (s *slots) lose(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost += n
	s.grantLocked()
}

func (s *slots) counts() (held, peak, waiting int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held, s.peak, s.queued.Len()
}

func (s *slots) resetPeak() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.peak = s.held
}

func (s *slots) freeLocked() bool { return s.limit == 0 || s.held < s.limit-s.lost }

func (s *slots) holdLocked() {
	s.held++
	s.peak = max(s.peak, s.held)
}

func (s *slots) grantLocked() {
	for s.queued.Len() > 0 && s.freeLocked() {
		s.holdLocked()
		close(s.queued.Remove(s.queued.Front()).(chan struct{}))
	}
}
