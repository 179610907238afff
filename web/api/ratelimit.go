package api

import (
	"net/netip"
	"sync"
	"time"
)

// How many attempts are answered and logged one by one: a burst, then a few.
const (
	addressBurst, addressPerSecond = 10, 1.0 / 6
	globalBurst, globalPerSecond   = 100, 1.0
	maxAddresses                   = 1024
)

// attemptLimiter limits what attempts may cost us. It never stands in the way of a
// right token: whoever could fill it from an address that on-call shares with
// others (a proxy, a jump host) would lock on-call out.
type attemptLimiter struct {
	mu         sync.Mutex
	global     bucket
	buckets    map[netip.Prefix]*bucket
	suppressed int // attempts over the limit since the last one within it
}

// bucket is a token bucket that starts full.
type bucket struct {
	used    float64
	updated time.Time
}

// refill fills the bucket up to now.
func (b *bucket) refill(now time.Time, perSecond float64) {
	if passed := now.Sub(b.updated).Seconds(); passed > 0 {
		b.used = max(0, b.used-passed*perSecond)
	}
	b.updated = now
}

// wait returns the time until the bucket has one, 0 if it has.
func (b *bucket) wait(burst int, perSecond float64) time.Duration {
	short := b.used + 1 - float64(burst)
	if short <= 0 {
		return 0
	}
	return time.Duration(short / perSecond * float64(time.Second))
}

// take counts one. It returns the time to wait when there were too many, or
// else how many were withheld since the last one that was within the limit.
func (a *attemptLimiter) take(now time.Time, remote string) (wait time.Duration, withheld int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.global.refill(now, globalPerSecond)
	wait = a.global.wait(globalBurst, globalPerSecond)
	one := a.bucketLocked(now, clientPrefix(remote))
	if one != nil {
		wait = max(wait, one.wait(addressBurst, addressPerSecond))
	}
	if wait > 0 {
		a.suppressed++
		return wait, 0
	}
	a.global.used++
	if one != nil {
		one.used++
	}
	withheld, a.suppressed = a.suppressed, 0
	return 0, withheld
}

// bucketLocked returns the bucket of a network. When there is no room for it,
// there is none: the global one counts alone.
func (a *attemptLimiter) bucketLocked(now time.Time, from netip.Prefix) *bucket {
	if b, ok := a.buckets[from]; ok {
		b.refill(now, addressPerSecond)
		return b
	}
	if len(a.buckets) >= maxAddresses {
		a.evictLocked(now)
	}
	if len(a.buckets) >= maxAddresses {
		return nil
	}
	if a.buckets == nil {
		a.buckets = map[netip.Prefix]*bucket{}
	}
	b := &bucket{updated: now}
	a.buckets[from] = b
	return b
}

// evictLocked removes the buckets that are full again.
func (a *attemptLimiter) evictLocked(now time.Time) {
	for from, b := range a.buckets {
		if b.refill(now, addressPerSecond); b.used == 0 {
			delete(a.buckets, from)
		}
	}
}

// clientPrefix is what counts as one address: in IPv6 a whole /64, since anybody has
// one. What cannot be read counts as one address too.
func clientPrefix(remote string) netip.Prefix {
	at, err := netip.ParseAddrPort(remote)
	if err != nil {
		return netip.Prefix{}
	}
	addr := at.Addr().Unmap().WithZone("")
	bits := addr.BitLen()
	if addr.Is6() {
		bits = 64
	}
	p, err := addr.Prefix(bits)
	if err != nil { // the numbers of bits above fit
		return netip.Prefix{}
	}
	return p
}
