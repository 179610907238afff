package tsdb

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"

	"headgate/engine"
)

var (
	errNoSample    = errors.New("there is no sample")
	errManySamples = errors.New("there are several samples, and a signal must have one")
)

// Values returns the values of the rules' signals at a time, as engine.Signals. The value of a rule with too few events
// is idle. That of a signal that is absent, stale, not a finite number, not a single one, or not readable in time is
// missing. After ctx is done the remaining rules are left out.
func (db *DB) Values(ctx context.Context, now time.Time, rules []engine.Rule) map[engine.Key]engine.Value {
	all := make(map[engine.Key]engine.Value, len(rules))
	for _, r := range rules {
		v := db.value(ctx, now, r)
		if ctx.Err() != nil {
			break
		}
		all[r.Key()] = v
	}
	return all
}

func (db *DB) value(ctx context.Context, now time.Time, r engine.Rule) engine.Value {
	missing, idle := engine.Value{Quality: engine.Missing}, engine.Value{Quality: engine.Idle}
	if r.Events != "" {
		switch n, err := db.QueryInstant(ctx, r.Events, now); {
		case err != nil || !finite(n):
			return db.missingValue(r, err, missing)
		case n < r.MinEvents || n == 0:
			return idle
		}
	}
	switch v, err := db.QueryInstant(ctx, r.Signal, now); {
	case err == nil && finite(v):
		return engine.Value{V: v}
	case err == nil && math.IsNaN(v) && db.isZeroOverZero(ctx, r.Signal, now):
		return idle
	default:
		return db.missingValue(r, err, missing)
	}
}

// missingValue counts errors and returns v. An absent signal is no error.
func (db *DB) missingValue(r engine.Rule, err error, v engine.Value) engine.Value {
	if err != nil && !errors.Is(err, errNoSample) {
		db.metrics.queryErrors.Inc()
		db.o.Log.Debug("signal cannot be read", "rule", r.Name, "pool", r.Pool, "error", err)
	}
	return v
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// isZeroOverZero says whether an expression is a quotient of 0 and 0.
func (db *DB) isZeroOverZero(ctx context.Context, expr string, now time.Time) bool {
	parsed, err := db.parser.ParseExpr(expr)
	if err != nil {
		return false
	}
	q, ok := unwrapExpr(parsed).(*parser.BinaryExpr)
	if !ok || q.Op != parser.DIV {
		return false
	}
	over, errOver := db.QueryInstant(ctx, q.LHS.String(), now)
	under, errUnder := db.QueryInstant(ctx, q.RHS.String(), now)
	return errOver == nil && errUnder == nil && over == 0 && under == 0
}

// unwrapExpr removes parentheses and rounding.
func unwrapExpr(e parser.Expr) parser.Expr {
	for {
		switch x := e.(type) {
		case *parser.ParenExpr:
			e = x.Expr
		case *parser.Call:
			if x.Func.Name != "round" {
				return e
			}
			e = x.Args[0]
		default:
			return e
		}
	}
}

// QueryInstant returns the value of an expression at a time: a scalar, or the value of the one sample of an instant
// vector. It may be NaN or infinite.
func (db *DB) QueryInstant(ctx context.Context, expr string, at time.Time) (float64, error) {
	store, err := db.queryable(expr)
	if err != nil {
		return 0, err
	}
	q, err := db.engine.NewInstantQuery(ctx, store, nil, expr, at)
	if err != nil {
		return 0, err
	}
	defer q.Close()
	res := q.Exec(ctx)
	if res.Err != nil {
		return 0, res.Err
	}
	switch v := res.Value.(type) {
	case promql.Scalar:
		return v.V, nil
	case promql.Vector:
		return singleSample(v)
	default:
		return 0, fmt.Errorf("a signal must be a number or an instant vector, is a %s", res.Value.Type())
	}
}

func singleSample(v promql.Vector) (float64, error) {
	switch {
	case len(v) == 0:
		return 0, errNoSample
	case len(v) > 1:
		return 0, errManySamples
	case v[0].H != nil:
		return 0, errors.New("the sample is a histogram, not a number")
	}
	return v[0].F, nil
}

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
