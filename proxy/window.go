package proxy

import (
	"math"
	"sync"
	"time"

	"headgate/proxy/admission"
)

const (
	windowSeconds    = 60
	bucketsPerOctave = 8  // buckets for each doubling: a quantile is accurate to 9 %
	octaves          = 21 // from 1 ms to above half an hour
)

// Recent summarises the last minute of a pool.
type Recent struct {
	Arrivals int
	Rejected int           // refused or drained by the gate
	Invalid  int           // invalid requests: the client's fault
	P95      time.Duration // of the turnaround of tasks that went upstream, 0 if none ended
	Ended    int           // tasks that P95 is based on
}

// window counts the last minute in slots of one second.
type window struct {
	mu    sync.Mutex
	slots [windowSeconds]slot
}

type slot struct {
	second     int64
	arrivals   uint32
	rejected   uint32
	invalid    uint32
	turnaround [octaves * bucketsPerOctave]uint32
}

// atLocked returns the slot of an instant, cleared if it held an older second.
func (w *window) atLocked(now time.Time) *slot {
	second := now.Unix()
	s := &w.slots[second%windowSeconds]
	if s.second != second {
		*s = slot{second: second}
	}
	return s
}

func (w *window) arrived(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.atLocked(now).arrivals++
}

func (w *window) ended(now time.Time, o *Observation) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.atLocked(now)
	switch {
	case o.Granted:
		s.turnaround[bucketIndex(o.Turnaround)]++
	case o.Reason != admission.ReasonNone:
		s.rejected++
	case o.Outcome == admission.Invalid:
		s.invalid++
	}
}

func (w *window) recent(now time.Time) Recent {
	w.mu.Lock()
	defer w.mu.Unlock()
	var r Recent
	var sum [octaves * bucketsPerOctave]uint32
	for i := range w.slots {
		s := &w.slots[i]
		if age := now.Unix() - s.second; age < 0 || age >= windowSeconds {
			continue
		}
		r.Arrivals += int(s.arrivals)
		r.Rejected += int(s.rejected)
		r.Invalid += int(s.invalid)
		for b, n := range s.turnaround {
			sum[b] += n
			r.Ended += int(n)
		}
	}
	r.P95 = quantile(sum[:], r.Ended, 0.95)
	return r
}

// bucketIndex returns the bucket of a duration: b holds those up to bucketBound(b).
func bucketIndex(d time.Duration) int {
	ms := float64(d) / float64(time.Millisecond)
	if ms <= 1 {
		return 0
	}
	return min(int(math.Ceil(math.Log2(ms)*bucketsPerOctave)), octaves*bucketsPerOctave-1)
}

func bucketBound(b int) time.Duration {
	return time.Duration(math.Exp2(float64(b)/bucketsPerOctave) * float64(time.Millisecond))
}

// quantile returns the upper bound of the bucket with the q-quantile of n values.
func quantile(counts []uint32, n int, q float64) time.Duration {
	if n == 0 {
		return 0
	}
	rank := int(math.Ceil(q * float64(n)))
	for b, c := range counts {
		if rank -= int(c); rank <= 0 {
			return bucketBound(b)
		}
	}
	return bucketBound(len(counts) - 1)
}
