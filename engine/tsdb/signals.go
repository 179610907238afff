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
	errManySamples = errors.New("there are several samples, and a signal must have one")
)

// Values returns the values of the rules' signals at a time, as engine.Signals: each is idle, missing or a finite
// number. After ctx is done the remaining rules are left out.
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

// value decides whether a rule is idle, missing, or has a value. It is idle if it has too few events, or if its signal
// is 0/0. It is missing if one of its expressions is absent, stale, not finite, not a single sample, or not readable in
// time.
func (db *DB) value(ctx context.Context, now time.Time, r engine.Rule) engine.Value {
	idle, err := db.tooFewEvents(ctx, now, r)
	if err == nil && !idle {
		var v float64
		v, err = db.QueryInstant(ctx, r.Signal, now)
		if err == nil && finite(v) {
			return engine.Value{V: v}
		}
		idle = err == nil && math.IsNaN(v) && db.isZeroOverZero(ctx, now, r.Signal)
	}
	if idle {
		return engine.Value{Quality: engine.Idle}
	}
	if err != nil && !errors.Is(err, errNoSample) { // an absent signal is no error
		db.metrics.queryErrors.Inc()
		db.o.Log.Debug("signal cannot be read", "rule", r.Name, "pool", r.Pool, "error", err)
	}
	return engine.Value{Quality: engine.Missing}
}

// tooFewEvents says whether a rule is idle because its value would be a share or a quantile of fewer events than its
// minimum, or of none. An error means that the events cannot be counted.
func (db *DB) tooFewEvents(ctx context.Context, now time.Time, r engine.Rule) (bool, error) {
	if r.Events == "" {
		return false, nil
	}
	n, err := db.QueryInstant(ctx, r.Events, now)
	if err == nil && !finite(n) {
		err = errNoSample
	}
	return err == nil && (n < r.MinEvents || n == 0), err
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// isZeroOverZero says whether a rule is idle because its signal is a quotient of 0 and 0, such as a share of no tasks.
func (db *DB) isZeroOverZero(ctx context.Context, now time.Time, signal string) bool {
	parsed, err := db.parser.ParseExpr(signal)
	if err != nil {
		return false
	}
	q, ok := unwrapExpr(parsed).(*parser.BinaryExpr)
	if !ok || q.Op != parser.DIV {
		return false
	}
	for _, side := range []parser.Expr{q.LHS, q.RHS} {
		if v, err := db.QueryInstant(ctx, side.String(), now); err != nil || v != 0 {
			return false
		}
	}
	return true
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
