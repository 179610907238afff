package slack

import (
	"crypto/sha256"
	"sync"
	"time"
)

const (
	onceFor = 10 * time.Minute // twice what a signature is good for
	maxOnce = 10_000
)

// seenBefore is what once says of a callback.
type seenBefore uint8

const (
	firstTime seenBefore = iota
	again
	full // too many to remember: nothing can be said, so nothing may be done
)

// once remembers what has been taken, so that nothing is taken twice. It is safe
// for concurrent use.
type once struct {
	mu    sync.Mutex
	until map[[sha256.Size]byte]time.Time
	swept time.Time
}

func newOnce() *once { return &once{until: make(map[[sha256.Size]byte]time.Time)} }

// take remembers a key, and says whether it was there.
func (o *once) take(now time.Time, key string) seenBefore {
	sum := sha256.Sum256([]byte(key))
	o.mu.Lock()
	defer o.mu.Unlock()
	if until, ok := o.until[sum]; ok && now.Before(until) {
		return again
	}
	if len(o.until) >= maxOnce || now.Sub(o.swept) >= onceFor {
		o.sweepLocked(now)
	}
	if len(o.until) >= maxOnce {
		return full
	}
	o.until[sum] = now.Add(onceFor)
	return firstTime
}

// forget lets a key be taken again: what it stood for was not done.
func (o *once) forget(key string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.until, sha256.Sum256([]byte(key)))
}

func (o *once) sweepLocked(now time.Time) {
	o.swept = now
	for sum, until := range o.until {
		if !now.Before(until) {
			delete(o.until, sum)
		}
	}
}

// ration lets so many through in each minute, and counts the others.
type ration struct {
	mu     sync.Mutex
	each   int
	since  time.Time
	passed int
	held   int // since the last that passed
}

// pass says whether one more may, and how many before it might not.
func (r *ration) pass(now time.Time) (held int, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Sub(r.since) >= time.Minute {
		r.since, r.passed = now, 0
	}
	if r.passed >= r.each {
		r.held++
		return 0, false
	}
	held, r.held = r.held, 0
	r.passed++
	return held, true
}
