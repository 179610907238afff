package runner

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// callWithTimeout calls f, which may hang or panic, and waits for it until ctx ends or limit has passed. A result after
// that goes to late, if it is set, so that its effect can be reverted.
func callWithTimeout[T any](
	ctx context.Context, limit time.Duration, f func(context.Context) (T, error), late func(T),
) (T, error) {
	type result struct {
		value T
		err   error
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	done := make(chan result, 1)
	go func() {
		defer cancel()
		var r result
		r.err = recoverPanic(func() (err error) { r.value, err = f(ctx); return err })
		done <- r
	}()
	<-ctx.Done()
	select {
	case r := <-done: // also a result of the same moment
		return r.value, r.err
	default:
	}
	if late != nil {
		go func() {
			if r := <-done; r.err == nil {
				late(r.value)
			}
		}()
	}
	var none T
	if err := context.Cause(ctx); !errors.Is(err, context.DeadlineExceeded) {
		return none, err
	}
	return none, fmt.Errorf("no answer within %s", limit)
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

// doWithTimeout is callWithTimeout for functions that return only an error.
func doWithTimeout(ctx context.Context, limit time.Duration, f func(context.Context) error) error {
	_, err := callWithTimeout(ctx, limit, func(ctx context.Context) (struct{}, error) { return struct{}{}, f(ctx) }, nil)
	return err
}

// sleepUntil waits until an instant; it returns early with the cause if ctx ends.
func sleepUntil(ctx context.Context, until time.Time) error {
	select {
	case <-time.After(time.Until(until)):
	case <-ctx.Done():
	}
	return context.Cause(ctx)
}
