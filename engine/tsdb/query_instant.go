package tsdb

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"

	"headgate/engine"
)

var (
	errNoSample    = errors.New("there is no sample")
	errManySamples = errors.New("there are several samples, and a signal is one")
)

// Values returns what the rules' signals come to at a time. It implements
// engine.Signals. A rule whose events are too few has an idle value; one whose
// signal is absent, stale, not a finite number, not a single one, or cannot be read
// in time has a missing one. After ctx is done the rest is left out.
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

// missingValue counts and returns a missing value. What is merely absent is no error.
func (db *DB) missingValue(r engine.Rule, err error, v engine.Value) engine.Value {
	if err != nil && !errors.Is(err, errNoSample) {
		db.metrics.queryErrors.Inc()
		db.o.Log.Debug("a signal cannot be read", "rule", r.Name, "pool", r.Pool, "error", err)
	}
	return v
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// isZeroOverZero says whether an expression is a quotient that is 0/0.
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

// unwrapExpr takes parentheses and rounding away.
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

// QueryInstant returns what an expression comes to at a time: a scalar, or the value of
// the one sample of an instant vector. It may be NaN or infinite.
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
		return 0, fmt.Errorf("a signal is a number or an instant vector, not a %s", res.Value.Type())
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
