package writebehind

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Defaults of a [Config].
const (
	DefaultTimeout      = 5 * time.Second
	DefaultFlushTimeout = 2 * time.Second
	DefaultMinRetry     = 100 * time.Millisecond
	DefaultMaxRetry     = 5 * time.Second
)

// Batch says how values of type B are put together and taken apart. Its functions must not keep or change their
// arguments, and are called with the queue's lock held.
type Batch[B any] struct {
	// Merge returns waiting with more behind it, and how many items did not fit and were dropped.
	Merge func(waiting, more B) (merged B, dropped int)
	// Cut splits off what one write takes. Nil: everything.
	Cut func(waiting B) (first, rest B)
	// Len returns the number of items; 0 means that there is nothing to write.
	Len func(B) int
}

// Config is what a [Queue] is made of. Batch and Write are required.
type Config[B any] struct {
	Batch[B]
	// Write records a batch, all or nothing. It may be repeated after an attempt whose outcome is unknown, so it must
	// be idempotent, and it must obey its context.
	Write func(context.Context, B) error

	OnWritten func(B)                      // called after a successful write; may be nil
	OnError   func(err error, waiting int) // called after every failed write; may be nil
	OnDropped func(int)                    // called before the next write with the number of dropped items; may be nil
	// OnDelayed is called with all that waits when more was added while writes fail; the next attempt then waits for its
	// retry delay. Nil: an addition leads to an attempt at once.
	OnDelayed func(waiting B)

	Timeout      time.Duration // of one write; 0: DefaultTimeout
	FlushTimeout time.Duration // of all writes after Run's context has ended; 0: DefaultFlushTimeout
	MinRetry     time.Duration // delay after the first failure, doubled by each further one; 0: DefaultMinRetry
	MaxRetry     time.Duration // longest delay; 0: DefaultMaxRetry
}

// Queue writes behind its callers. Its methods may be called from any goroutine.
type Queue[B any] struct {
	c       Config[B]
	wake    chan struct{} // holds one: there is something to write
	writeMu sync.Mutex    // held during a write: writes keep their order

	mu       sync.Mutex
	writing  B // taken by a write that has not ended
	waiting  B
	dropped  int           // not reported yet
	progress chan struct{} // closed after a successful write, then replaced
}

// New returns an empty queue, which writes once Run is called.
func New[B any](c Config[B]) *Queue[B] {
	if c.Cut == nil {
		c.Cut = func(waiting B) (first, rest B) { return waiting, rest }
	}
	if c.OnWritten == nil {
		c.OnWritten = func(B) {}
	}
	if c.OnError == nil {
		c.OnError = func(error, int) {}
	}
	if c.OnDropped == nil {
		c.OnDropped = func(int) {}
	}
	for d, fallback := range map[*time.Duration]time.Duration{
		&c.Timeout: DefaultTimeout, &c.FlushTimeout: DefaultFlushTimeout, &c.MinRetry: DefaultMinRetry, &c.MaxRetry: DefaultMaxRetry,
	} {
		if *d == 0 {
			*d = fallback
		}
	}
	return &Queue[B]{c: c, wake: make(chan struct{}, 1), progress: make(chan struct{})}
}

// Add queues more behind what waits, without blocking, and returns how many items were dropped because the queue is
// full.
func (q *Queue[B]) Add(more B) (dropped int) {
	q.mu.Lock()
	q.waiting, dropped = q.c.Merge(q.waiting, more)
	q.dropped += dropped
	q.mu.Unlock()
	select {
	case q.wake <- struct{}{}:
	default:
	}
	return dropped
}

// Len returns the number of items that are not written yet.
func (q *Queue[B]) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.lenLocked()
}

func (q *Queue[B]) lenLocked() int { return q.c.Len(q.writing) + q.c.Len(q.waiting) }

// Pending reports whether match holds for what is not written yet.
func (q *Queue[B]) Pending(match func(B) bool) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return match(q.writing) || match(q.waiting)
}

// Wait blocks until match no longer holds for anything that is not written yet, or ctx ends. It reports whether the
// former came first.
func (q *Queue[B]) Wait(ctx context.Context, match func(B) bool) bool {
	for {
		q.mu.Lock()
		pending, progress := match(q.writing) || match(q.waiting), q.progress
		q.mu.Unlock()
		if !pending {
			return true
		}
		select {
		case <-progress:
		case <-ctx.Done():
			return false
		}
	}
}

// Run writes until ctx has ended, then tries once more to write everything, for FlushTimeout at most.
func (q *Queue[B]) Run(ctx context.Context) {
	retry := time.NewTimer(0)
	defer retry.Stop()
	delay, failing := q.c.MinRetry, false
	for {
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), q.c.FlushTimeout)
			defer cancel()
			_ = q.Flush(last) // reported by OnError
			return
		case <-q.wake:
			if failing && q.c.OnDelayed != nil {
				q.mu.Lock()
				waiting := q.waiting
				q.mu.Unlock()
				q.c.OnDelayed(waiting)
				continue
			}
		case <-retry.C:
		}
		if failing = q.Flush(ctx) != nil; !failing {
			delay = q.c.MinRetry
			continue
		}
		retry.Reset(delay)
		delay = min(2*delay, q.c.MaxRetry)
	}
}

// Flush writes everything that waits, and returns the first error.
func (q *Queue[B]) Flush(ctx context.Context) error {
	q.writeMu.Lock()
	defer q.writeMu.Unlock()
	for {
		batch, ok := q.take()
		if !ok {
			return nil
		}
		attempt, cancel := context.WithTimeout(ctx, q.c.Timeout)
		err := q.c.Write(attempt, batch)
		cancel()
		waiting := q.settle(err)
		if err != nil {
			q.c.OnError(err, waiting)
			return err
		}
		q.c.OnWritten(batch)
	}
}

// take moves what the next write takes from waiting to writing.
func (q *Queue[B]) take() (batch B, ok bool) {
	q.mu.Lock()
	dropped := q.dropped
	q.dropped = 0
	q.writing, q.waiting = q.c.Cut(q.waiting)
	batch, ok = q.writing, q.c.Len(q.writing) > 0
	q.mu.Unlock()
	if dropped > 0 {
		q.c.OnDropped(dropped)
	}
	return batch, ok
}

// settle ends a write: what failed goes before what has come since. It returns the number of items that wait.
func (q *Queue[B]) settle(err error) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	var none B
	if err != nil {
		var dropped int
		q.waiting, dropped = q.c.Merge(q.writing, q.waiting)
		q.dropped += dropped
	} else {
		close(q.progress)
		q.progress = make(chan struct{})
	}
	q.writing = none
	return q.lenLocked()
}

// List queues items in order: at most limit wait, further ones are dropped, and one write takes at most perWrite.
func List[T any](limit, perWrite int) Batch[[]T] {
	return Batch[[]T]{
		Merge: func(waiting, more []T) ([]T, int) {
			room := min(len(more), max(limit-len(waiting), 0))
			return append(waiting, more[:room]...), len(more) - room
		},
		Cut: func(waiting []T) (first, rest []T) {
			n := min(len(waiting), perWrite)
			return waiting[:n:n], waiting[n:]
		},
		Len: func(b []T) int { return len(b) },
	}
}

// Latest queues items one per key, in order: a newer one takes the place of the one that waits. Keys bound the queue,
// and one write takes one item.
func Latest[T any, K comparable](key func(T) K) Batch[[]T] {
	b := List[T](0, 1)
	b.Merge = func(waiting, more []T) ([]T, int) { return MergeLatest(waiting, more, key), 0 }
	return b
}

// MergeLatest returns all followed by more; an item of more whose key is there already takes the place of the older.
func MergeLatest[T any, K comparable](all, more []T, key func(T) K) []T {
	all = slices.Clone(all)
	at := make(map[K]int, len(all)+len(more))
	for n, v := range all {
		at[key(v)] = n
	}
	for _, v := range more {
		n, ok := at[key(v)]
		if !ok {
			at[key(v)] = len(all)
			all = append(all, v)
			continue
		}
		all[n] = v
	}
	return all
}
