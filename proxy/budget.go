package proxy

import "sync/atomic"

// budget bounds the bytes of request bodies that are held at one time.
type budget struct {
	limit atomic.Int64
	used  atomic.Int64
}

// reserve reserves n bytes, or none if they do not fit.
func (b *budget) reserve(n int64) bool {
	if b.used.Add(n) > b.limit.Load() {
		b.used.Add(-n)
		return false
	}
	return true
}

func (b *budget) release(n int64) { b.used.Add(-n) }

// reservation is what one task has taken: from the budget of all pools while its
// pool is unknown, and from its pool's own afterwards. It is not for concurrent
// use.
type reservation struct {
	shared     *budget
	poolBudget *budget // nil until the pool is known
	n          int64
}

func (h *reservation) grow(n int64) bool {
	if !h.shared.reserve(n) {
		return false
	}
	h.n += n
	return true
}

func (h *reservation) assign(own *budget) bool {
	if !own.reserve(h.n) {
		return false
	}
	h.poolBudget = own
	return true
}

func (h *reservation) release() {
	h.shared.release(h.n)
	if h.poolBudget != nil {
		h.poolBudget.release(h.n)
	}
	h.n, h.poolBudget = 0, nil
}
