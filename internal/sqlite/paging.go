package sqlite

import (
	"cmp"
	"headgate/runbooks/control"
	"math"
	"strconv"
	"strings"
	"time"
)

// Bounds of a page of a list.
const (
	DefaultLimit = 100
	MaxLimit     = 1000
)

// page is what all lists have in common: newest first, by time and ID.
type page struct {
	since time.Time // only what is at or after it; zero: all
	after string    // the key that came with the page before
	limit int       // 0: DefaultLimit; more than MaxLimit: MaxLimit
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
func (p page) statement(text, column string, args ...any) (string, []any, error) {
	if p.after != "" {
		at, id, err := parsePageKey(p.after)
		if err != nil {
			return "", nil, err
		}
		text, args = text+" AND ("+column+", id) < (?, ?)", append(args, at, id)
	}
	return text + " ORDER BY " + column + " DESC, id DESC LIMIT ?", append(args, p.size()+1), nil
}

// pageKey is the place of an item in a list.
type pageKey struct {
	at time.Time
	id string
}

func (k pageKey) compare(o pageKey) int { return cmp.Or(k.at.Compare(o.at), cmp.Compare(k.id, o.id)) }

func (k pageKey) String() string { return strconv.FormatInt(k.at.UnixMilli(), 10) + "." + k.id }

// parsePageKey reads a key that pageKey.String made.
func parsePageKey(key string) (at int64, id string, err error) {
	ms, id, ok := strings.Cut(key, ".")
	at, err = strconv.ParseInt(ms, 10, 64)
	if !ok || err != nil || at < 0 || strconv.FormatInt(at, 10) != ms || !validID(id) {
		return 0, "", control.ErrUnknownCursor
	}
	return at, id, nil
}

// truncatePage drops the item beyond the page and returns the key of the next page.
func truncatePage[T any](p page, items []T, key func(T) pageKey) ([]T, string) {
	if len(items) <= p.size() {
		return items, ""
	}
	items = items[:p.size()]
	return items, key(items[len(items)-1]).String()
}
