package runner

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// callWithTimeout calls something that may hang or panic, and waits for it until ctx ends or
// limit has passed. What comes later goes to late, if that is set, so that what was
// done after all can be taken back.
func callWithTimeout[T any](ctx context.Context, limit time.Duration, f func(context.Context) (T, error), late func(T)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	type result struct {
		value T
		err   error
	}
	came, gone := make(chan result), make(chan struct{})
	go func() {
		defer cancel()
		var v T
		err := recoverPanic(func() (err error) { v, err = f(ctx); return err })
		select {
		case came <- result{v, err}:
		case <-gone:
			if err == nil && late != nil {
				late(v)
			}
		}
	}()
	select {
	case r := <-came:
		return r.value, r.err
	case <-ctx.Done():
		// What comes at the same moment still counts.
		select {
		case r := <-came:
			return r.value, r.err
		default:
		}
		close(gone)
		var none T
		if err := context.Cause(ctx); !errors.Is(err, context.DeadlineExceeded) {
			return none, err
		}
		return none, fmt.Errorf("no answer within %s", limit)
	}
}

// recoverPanic turns a panic into an error.
func recoverPanic(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("a panic: %v", p)
		}
	}()
	return f()
}

// doWithTimeout is bounded for what returns only an error.
func doWithTimeout(ctx context.Context, limit time.Duration, f func(context.Context) error) error {
	_, err := callWithTimeout(ctx, limit, func(ctx context.Context) (struct{}, error) { return struct{}{}, f(ctx) }, nil)
	return err
}

// sleepUntil waits until an instant; it returns early with the cause if ctx ends.
func sleepUntil(ctx context.Context, until time.Time) error {
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-timer.C:
		return context.Cause(ctx)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
