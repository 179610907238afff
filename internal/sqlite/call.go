package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"time"
)

const (
	// grace is how long an interrupted statement has to say how it ended.
	grace = 250 * time.Millisecond
	// retryPause is between attempts to begin to write.
	retryPause = 10 * time.Millisecond
)

// result is what a call came to.
type result[T any] struct {
	value T
	err   error
}

// within runs f once there is room in slots, and waits for it no longer than ctx
// lasts, and a grace: a statement obeys its context, but a disk that hangs does
// not. An f that is left behind keeps its room until it returns.
func within[T any](ctx context.Context, slots chan struct{}, f func() (T, error)) (T, error) {
	var none T
	select {
	case slots <- struct{}{}:
	case <-ctx.Done():
		return none, ctx.Err()
	}
	done := make(chan result[T], 1)
	go func() {
		defer func() { <-slots }()
		v, err := f()
		done <- result[T]{v, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
	}
	late := time.NewTimer(grace)
	defer late.Stop()
	select {
	case r := <-done:
		return r.value, r.err
	case <-late.C:
		return none, ctx.Err()
	}
}

// bound limits a call's context to what the Store allows.
func (s *Store) bound(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	stop := context.AfterFunc(s.life, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

// read runs f on a connection that cannot write.
func read[T any](ctx context.Context, s *Store, doing string, f func(context.Context, *sql.Conn) (T, error)) (T, error) {
	ctx, cancel := s.bound(ctx, callLimit)
	defer cancel()
	v, err := within(ctx, s.reads, func() (T, error) { return insist(ctx, s.reader, f) })
	return v, s.failed(doing, err)
}

// insist runs f on a connection, again while others hold the file and time is left.
func insist[T any](ctx context.Context, db *sql.DB, f func(context.Context, *sql.Conn) (T, error)) (T, error) {
	for {
		v, err := once(ctx, db, f)
		if !busy(err) || !pause(ctx, retryPause) {
			return v, err
		}
	}
}

func once[T any](ctx context.Context, db *sql.DB, f func(context.Context, *sql.Conn) (T, error)) (v T, err error) {
	conn, err := borrow(ctx, db)
	if err != nil {
		return v, err
	}
	defer func() { _ = conn.Close() }()
	return f(ctx, conn)
}

// write runs f in one transaction, again and again while others hold the file.
func (s *Store) write(ctx context.Context, doing string, f func(context.Context, *sql.Tx) error) error {
	ctx, cancel := s.bound(ctx, callLimit)
	defer cancel()
	_, err := within(ctx, s.writes, func() (struct{}, error) { return struct{}{}, transact(ctx, s.writer, f) })
	return s.failed(doing, err)
}

// transact runs f in one transaction. Nothing of f stays unless all of it does;
// an error ends the transaction at once, since SQLite ends some by itself and
// would take what came next for good.
func transact(ctx context.Context, db *sql.DB, f func(context.Context, *sql.Tx) error) error {
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
	_, err := insist(ctx, db, attempt)
	return err
}

// failed explains an error of a call.
func (s *Store) failed(doing string, err error) error {
	if err == nil {
		return nil
	}
	if s.life.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, sql.ErrConnDone) || busy(err)) {
		return ErrClosed
	}
	return s.explain(doing, err)
}
