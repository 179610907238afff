package slack

import (
	"crypto/sha256"
	"sync"
	"time"
)

const (
	dedupWindow  = 10 * time.Minute // twice what a signature is good for
	maxDedupKeys = 10_000
)

// dedupResult is what once says of a callback.
type dedupResult uint8

const (
	dedupNew dedupResult = iota
	dedupDuplicate
	dedupFull // too many to remember: nothing can be said, so nothing may be done
)

// deduper remembers what has been taken, so that nothing is taken twice. It is safe
// for concurrent use.
type deduper struct {
	mu        sync.Mutex
	expires   map[[sha256.Size]byte]time.Time
	lastSweep time.Time
}

func newDeduper() *deduper { return &deduper{expires: make(map[[sha256.Size]byte]time.Time)} }

// add remembers a key, and says whether it was there.
func (o *deduper) add(now time.Time, key string) dedupResult {
	sum := sha256.Sum256([]byte(key))
	o.mu.Lock()
	defer o.mu.Unlock()
	if until, ok := o.expires[sum]; ok && now.Before(until) {
		return dedupDuplicate
	}
	if len(o.expires) >= maxDedupKeys || now.Sub(o.lastSweep) >= dedupWindow {
		o.sweepLocked(now)
	}
	if len(o.expires) >= maxDedupKeys {
		return dedupFull
	}
	o.expires[sum] = now.Add(dedupWindow)
	return dedupNew
}

// forget lets a key be taken again: what it stood for was not done.
func (o *deduper) forget(key string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.expires, sha256.Sum256([]byte(key)))
}

func (o *deduper) sweepLocked(now time.Time) {
	o.lastSweep = now
	for sum, until := range o.expires {
		if !now.Before(until) {
			delete(o.expires, sum)
		}
	}
}

// rateLimiter lets so many through in each minute, and counts the others.
type rateLimiter struct {
	mu          sync.Mutex
	perMinute   int
	windowStart time.Time
	allowed     int
	suppressed  int // since the last that passed
}

// allow says whether one more may, and how many before it might not.
func (r *rateLimiter) allow(now time.Time) (held int, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Sub(r.windowStart) >= time.Minute {
		r.windowStart, r.allowed = now, 0
	}
	if r.allowed >= r.perMinute {
		r.suppressed++
		return 0, false
	}
	held, r.suppressed = r.suppressed, 0
	r.allowed++
	return held, true
}
