package proxy

import "sync/atomic"

// budget bounds the bytes of request bodies that are held at one time.
type budget struct {
	limit atomic.Int64
	used  atomic.Int64
}

// take reserves n bytes, or none if they do not fit.
func (b *budget) take(n int64) bool {
	if b.used.Add(n) > b.limit.Load() {
		b.used.Add(-n)
		return false
	}
	return true
}

func (b *budget) give(n int64) { b.used.Add(-n) }

// holding is what one task has taken: from the budget of all pools while its
// pool is unknown, and from its pool's own afterwards. It is not for concurrent
// use.
type holding struct {
	shared *budget
	own    *budget // nil until the pool is known
	n      int64
}

func (h *holding) grow(n int64) bool {
	if !h.shared.take(n) {
		return false
	}
	h.n += n
	return true
}

func (h *holding) assign(own *budget) bool {
	if !own.take(h.n) {
		return false
	}
	h.own = own
	return true
}

func (h *holding) release() {
	h.shared.give(h.n)
	if h.own != nil {
		h.own.give(h.n)
	}
	h.n, h.own = 0, nil
}
