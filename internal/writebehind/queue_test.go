package writebehind_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"headgate/internal/writebehind"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errDiskFull = errors.New("disk full")

// disk records what is written, and can fail or hang.
type disk struct {
	mu       sync.Mutex
	err      error
	hang     bool // writes wait for their context
	written  []int
	attempts int
	dropped  int
	errors   int
}

func (d *disk) write(ctx context.Context, b []int) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.attempts++
	if d.hang {
		d.mu.Unlock()
		<-ctx.Done()
		d.mu.Lock()
		return ctx.Err()
	}
	if d.err == nil {
		d.written = append(d.written, b...)
	}
	return d.err
}

func (d *disk) set(err error, hang bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.err, d.hang = err, hang
}

func (d *disk) wantWritten(t *testing.T, want ...int) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if !slices.Equal(d.written, want) {
		t.Errorf("written %v, want %v", d.written, want)
	}
}

// run starts a queue, inside a synctest bubble.
func (d *disk) run(t *testing.T, batch writebehind.Batch[[]int]) (q *writebehind.Queue[[]int], stop func()) {
	t.Helper()
	q = writebehind.New(writebehind.Config[[]int]{
		Batch: batch, Write: d.write,
		OnError:   func(error, int) { d.errors++ },
		OnDropped: func(n int) { d.dropped += n },
	})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { q.Run(ctx) })
	return q, func() { cancel(); running.Wait() }
}

func has(v int) func([]int) bool { return func(b []int) bool { return slices.Contains(b, v) } }

func TestAddNeverBlocksAndOrderIsKept(t *testing.T) {
	for name, breakIt := range map[string]func(*disk){
		"failing": func(d *disk) { d.set(errDiskFull, false) },
		"hanging": func(d *disk) { d.set(nil, true) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := &disk{}
				q, stop := d.run(t, writebehind.List[int](100, 2))
				defer stop()
				breakIt(d)
				before := time.Now()
				for n := range 5 {
					q.Add([]int{n})
				}
				if time.Since(before) != 0 {
					t.Error("Add blocked")
				}
				synctest.Wait()
				if !q.Pending(has(0)) || q.Len() != 5 {
					t.Errorf("%d pending while the disk is broken, want 5", q.Len())
				}
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				defer cancel()
				if q.Wait(ctx, has(4)) {
					t.Error("Wait reports a write that was never made")
				}
				d.set(nil, false)
				if !q.Wait(t.Context(), has(4)) || q.Len() != 0 {
					t.Error("not everything is written after the repair")
				}
				d.wantWritten(t, 0, 1, 2, 3, 4)
			})
		})
	}
}

func TestRetriesBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{err: errDiskFull}
		q, stop := d.run(t, writebehind.List[int](100, 10))
		defer stop()
		q.Add([]int{1})
		time.Sleep(time.Minute)
		synctest.Wait()
		if d.attempts < 5 || d.attempts > 30 || d.errors != d.attempts {
			t.Errorf("%d attempts in a minute, of which %d reported; want 5 to 30, all reported", d.attempts, d.errors)
		}
		d.set(nil, false)
		time.Sleep(writebehind.DefaultMaxRetry)
		synctest.Wait()
		d.wantWritten(t, 1)
	})
}

func TestListIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{err: errDiskFull}
		q, stop := d.run(t, writebehind.List[int](3, 10))
		if n := q.Add([]int{1, 2}); n != 0 {
			t.Errorf("%d dropped, want none", n)
		}
		synctest.Wait()
		if n := q.Add([]int{3, 4, 5}); n != 2 {
			t.Errorf("%d dropped, want 2", n)
		}
		d.set(nil, false)
		stop()
		d.wantWritten(t, 1, 2, 3)
		if d.dropped != 2 {
			t.Errorf("%d drops reported, want 2", d.dropped)
		}
	})
}

// TestLatestReplacesWhatWaits: also what a write that fails has taken already.
func TestLatestReplacesWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{hang: true}
		q, stop := d.run(t, writebehind.Latest(func(v int) int { return v % 10 }))
		q.Add([]int{1, 2})
		synctest.Wait() // 1 is being written
		q.Add([]int{11, 3})
		d.set(nil, false)
		time.Sleep(writebehind.DefaultTimeout + writebehind.DefaultMinRetry)
		stop()
		d.wantWritten(t, 11, 2, 3)
	})
}

func TestStopFlushesForABoundedTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{hang: true}
		q, stop := d.run(t, writebehind.List[int](100, 1))
		q.Add([]int{1})
		synctest.Wait()
		began := time.Now()
		stop()
		if took := time.Since(began); took > writebehind.DefaultFlushTimeout || q.Len() != 1 {
			t.Errorf("stopped after %s with %d pending, want at most %s and 1", took, q.Len(), writebehind.DefaultFlushTimeout)
		}
		d.set(nil, false)
		if err := q.Flush(t.Context()); err != nil {
			t.Error(err)
		}
		d.wantWritten(t, 1)
	})
}
