package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"time"
)

const (
	// interruptGrace is how long an interrupted statement has to say how it ended.
	interruptGrace = 250 * time.Millisecond
	// retryPause is between attempts to begin to write.
	retryPause = 10 * time.Millisecond
)

// callResult is what a call came to.
type callResult[T any] struct {
	value T
	err   error
}

// runBounded runs f once there is room in slots, and waits for it no longer than ctx
// lasts, and a grace: a statement obeys its context, but a disk that hangs does
// not. An f that is left behind keeps its room until it returns.
func runBounded[T any](ctx context.Context, slots chan struct{}, f func() (T, error)) (T, error) {
	var none T
	select {
	case slots <- struct{}{}:
	case <-ctx.Done():
		return none, ctx.Err()
	}
	done := make(chan callResult[T], 1)
	go func() {
		defer func() { <-slots }()
		v, err := f()
		done <- callResult[T]{v, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
	}
	late := time.NewTimer(interruptGrace)
	defer late.Stop()
	select {
	case r := <-done:
		return r.value, r.err
	case <-late.C:
		return none, ctx.Err()
	}
}

// withLimit limits a call's context to what the Store allows.
func (s *Store) withLimit(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	stop := context.AfterFunc(s.ctx, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

// read runs f on a connection that cannot write.
func read[T any](ctx context.Context, s *Store, doing string, f func(context.Context, *sql.Conn) (T, error)) (T, error) {
	ctx, cancel := s.withLimit(ctx, callLimit)
	defer cancel()
	v, err := runBounded(ctx, s.readSlots, func() (T, error) { return retryBusy(ctx, s.reader, f) })
	return v, s.wrapCallErr(doing, err)
}

// retryBusy runs f on a connection, again while others hold the file and time is left.
func retryBusy[T any](ctx context.Context, db *sql.DB, f func(context.Context, *sql.Conn) (T, error)) (T, error) {
	for {
		v, err := withConn(ctx, db, f)
		if !isBusy(err) || !sleepCtx(ctx, retryPause) {
			return v, err
		}
	}
}

func withConn[T any](ctx context.Context, db *sql.DB, f func(context.Context, *sql.Conn) (T, error)) (v T, err error) {
	conn, err := limitedConn(ctx, db)
	if err != nil {
		return v, err
	}
	defer func() { _ = conn.Close() }()
	return f(ctx, conn)
}

// writeTx runs f in one transaction, again and again while others hold the file.
func (s *Store) writeTx(ctx context.Context, doing string, f func(context.Context, *sql.Tx) error) error {
	ctx, cancel := s.withLimit(ctx, callLimit)
	defer cancel()
	_, err := runBounded(ctx, s.writeSlot, func() (struct{}, error) { return struct{}{}, inTx(ctx, s.writer, f) })
	return s.wrapCallErr(doing, err)
}

// inTx runs f in one transaction. Nothing of f stays unless all of it does;
// an error ends the transaction at once, since SQLite ends some by itself and
// would take what came next for good.
func inTx(ctx context.Context, db *sql.DB, f func(context.Context, *sql.Tx) error) error {
	attempt := func(ctx context.Context, conn *sql.Conn) (struct{}, error) {
		tx, err := conn.BeginTx(ctx, nil)
		if err != nil {
			return struct{}{}, err
		}
		if err := f(ctx, tx); err != nil {
			_ = tx.Rollback() // SQLite may have done it already
			return struct{}{}, err
		}
		return struct{}{}, tx.Commit()
	}
	_, err := retryBusy(ctx, db, attempt)
	return err
}

// wrapCallErr explains an error of a call.
func (s *Store) wrapCallErr(doing string, err error) error {
	if err == nil {
		return nil
	}
	if s.ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, sql.ErrConnDone) || isBusy(err)) {
		return ErrClosed
	}
	return s.wrapErr(doing, err)
}
