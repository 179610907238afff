package modelstub

import (
	"container/list"
	"context"
	"math"
	"sync"
)

// unlimited is a limit that is never reached.
const unlimited = math.MaxInt

// slots grants a limited number of slots first come first served.
type slots struct {
	mu     sync.Mutex
	limit  int // may be unlimited
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
	element := s.queued.PushBack(granted)
	s.mu.Unlock()

	select {
	case <-granted:
		return nil
	case <-ctx.Done():
		s.cancelWait(element, granted)
		return ctx.Err()
	}
}

// cancelWait leaves the queue. A slot that was granted first is released, so that
// only this function decides whether the caller owes a release.
func (s *slots) cancelWait(element *list.Element, granted chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-granted:
		s.held--
		s.grantLocked()
	default:
		s.queued.Remove(element)
	}
}

func (s *slots) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held--
	s.grantLocked()
}

// lose lowers the limit by n, or raises it if n is below 0. Calls that hold a slot
// keep it, so a lower limit is reached as they end.
func (s *slots) lose(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.limit != unlimited {
		s.limit -= n
	}
	s.grantLocked()
}

func (s *slots) counts() (held, peak, waiting int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held, s.peak, s.queued.Len()
}

func (s *slots) freeLocked() bool { return s.held < s.limit }

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
