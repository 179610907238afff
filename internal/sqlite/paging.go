package sqlite

import (
	"cmp"
	"math"
	"strconv"
	"strings"
	"time"

	"headgate/runbooks/control"
)

// Bounds of a page of a list.
const (
	DefaultLimit = 100
	MaxLimit     = 1000
)

// page is what all lists have in common: newest first, by time and ID.
type page struct {
	since time.Time // only what is at or after it; zero: all
	after pageKey   // the key that came with the page before; zero: from the newest on
	limit int       // 0: DefaultLimit; more than MaxLimit: MaxLimit
}

// newPage returns a page. It fails with control.ErrUnknownCursor unless after is empty or a key
// that came with a page.
func newPage(r *reader, since time.Time, after string, limit int) page {
	p := page{since: since, limit: limit}
	if after != "" {
		var err error
		if p.after, err = parsePageKey(after); err != nil {
			r.fail(err)
		}
	}
	return p
}

func (p page) size() int {
	if p.limit <= 0 {
		return DefaultLimit
	}
	return min(p.limit, MaxLimit)
}

// sinceMS rounds up: what is recorded has no part of a millisecond.
func (p page) sinceMS() int64 {
	if p.since.IsZero() {
		return math.MinInt64
	}
	ms := p.since.UnixMilli()
	if p.since.After(time.UnixMilli(ms)) {
		ms++
	}
	return ms
}

// statement completes a statement that ends in its conditions, so that it is
// answered in the order of an index over the column of time, and id. It asks for
// one more than the page holds, to know whether there are more.
func (p page) statement(text, column string, args ...any) (string, []any) {
	if p.after.id != "" {
		text, args = text+" AND ("+column+", id) < (?, ?)", append(args, p.after.at.UnixMilli(), p.after.id)
	}
	return text + " ORDER BY " + column + " DESC, id DESC LIMIT ?", append(args, p.size()+1)
}

// pageKey is the place of an item in a list.
type pageKey struct {
	at time.Time
	id string
}

func (k pageKey) compare(o pageKey) int { return cmp.Or(k.at.Compare(o.at), cmp.Compare(k.id, o.id)) }

func (k pageKey) String() string { return strconv.FormatInt(k.at.UnixMilli(), 10) + "." + k.id }

// parsePageKey reads a key that pageKey.String made.
func parsePageKey(key string) (pageKey, error) {
	ms, id, _ := strings.Cut(key, ".")
	at, err := strconv.ParseInt(ms, 10, 64)
	k := pageKey{time.UnixMilli(at), id}
	if err != nil || at < 0 || k.String() != key || !validID(id) {
		return pageKey{}, control.ErrUnknownCursor
	}
	return k, nil
}

// list is a page of items and the key of the next one, empty on the last.
type list[T any] struct {
	items []T
	next  string
}

// truncatePage drops the item beyond the page.
func truncatePage[T any](p page, items []T, key func(T) pageKey) list[T] {
	if len(items) <= p.size() {
		return list[T]{items: items}
	}
	items = items[:p.size()]
	return list[T]{items, key(items[len(items)-1]).String()}
}
