package tsdb

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
)

// ErrQuery says that a query itself is invalid. The error around it says what would be right, and nothing about the
// storage.
var ErrQuery = errors.New("the query cannot be answered")

// Point is a finite value at a time.
type Point struct {
	At time.Time
	V  float64
}

// Series holds the points of one series, oldest first, possibly with gaps.
type Series struct {
	Labels map[string]string
	Points []Point
}

// QueryRange returns the values of an expression from one time to another, both included, at every step, without those
// that are not finite. It fails with ErrQuery on too many points or series, and on an invalid or too large expression.
func (db *DB) QueryRange(ctx context.Context, expr string, from, to time.Time, step time.Duration) ([]Series, error) {
	switch {
	case step < time.Millisecond:
		return nil, fmt.Errorf("%w: the step is %s, it must be at least 1ms", ErrQuery, step)
	case to.Before(from):
		return nil, fmt.Errorf("%w: the end must not be before the beginning", ErrQuery)
	case to.Sub(from)/step >= rangePoints:
		return nil, fmt.Errorf("%w: at most %d points at once: take a longer step or a shorter time", ErrQuery,
			rangePoints)
	}
	store, err := db.queryable(expr)
	if err != nil {
		return nil, err
	}
	q, err := db.engine.NewRangeQuery(ctx, store, nil, expr, from, to, step)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrQuery, err)
	}
	defer q.Close()
	matrix, err := q.Exec(ctx).Matrix()
	if err != nil {
		return nil, wrapQueryError(err)
	}
	if len(matrix) > rangeSeries {
		return nil, fmt.Errorf("%w: %d series, and at most %d can be shown: select or sum", ErrQuery, len(matrix),
			rangeSeries)
	}
	return toSeries(matrix), nil
}

// wrapQueryError distinguishes queries that ask for too much from unreadable samples.
func wrapQueryError(err error) error {
	var tooMany promql.ErrTooManySamples
	var tooLong promql.ErrQueryTimeout
	if errors.As(err, &tooMany) || errors.As(err, &tooLong) {
		return fmt.Errorf("%w: %w", ErrQuery, err)
	}
	return err
}

// queryable returns the store for a query.
func (db *DB) queryable(expr string) (storage.Queryable, error) {
	if len(expr) > maxExpr {
		return nil, fmt.Errorf("%w: an expression has at most %d bytes", ErrQuery, maxExpr)
	}
	store := db.store()
	if store == nil {
		return nil, db.notOpen()
	}
	return store, nil
}

func toSeries(matrix promql.Matrix) []Series {
	all := make([]Series, 0, len(matrix))
	for _, s := range matrix {
		l := Series{Labels: s.Metric.Map(), Points: make([]Point, 0, len(s.Floats))}
		for _, p := range s.Floats {
			if finite(p.F) {
				l.Points = append(l.Points, Point{At: time.UnixMilli(p.T).UTC(), V: p.F})
			}
		}
		all = append(all, l)
	}
	return all
}
