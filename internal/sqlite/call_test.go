package sqlite

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	driver "modernc.org/sqlite"

	"headgate/proxy/admission"
	"headgate/runbooks/control"
)

// TestWithin: a call ends with its context even when what it does goes on, and
// that keeps its place until it has ended.
func TestWithin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slots, hang := make(chan struct{}, 1), make(chan struct{})
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := runBounded(ctx, slots, func() (int, error) { <-hang; return 1, nil })
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second+interruptGrace {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		next, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		ran := false
		if _, err := runBounded(next, slots, func() (int, error) { ran = true; return 1, nil }); !errors.Is(err, context.DeadlineExceeded) || ran {
			t.Errorf("%v, ran %v, while the place is taken", err, ran)
		}
		close(hang)
		synctest.Wait()
		if v, err := runBounded(t.Context(), slots, func() (int, error) { return 7, io.EOF }); v != 7 || err != io.EOF {
			t.Errorf("%d, %v", v, err)
		}
	})
}

// TestWithinGrace: one that was interrupted has a moment to say how it ended.
func TestWithinGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		v, err := runBounded(ctx, make(chan struct{}, 1), func() (string, error) {
			<-ctx.Done()
			time.Sleep(interruptGrace / 2)
			return "done after all", nil
		})
		if v != "done after all" || err != nil {
			t.Errorf("%q, %v", v, err)
		}
	})
}

// TestCloseBounded: a call that hangs holds Close up only for a while, and the
// record is not closed under it.
func TestCloseBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(testOptions(""), nil)
		s.writeSlot <- struct{}{} // a write is in progress, and the disk does not respond
		began := time.Now()
		err := s.Close()
		if err == nil || time.Since(began) != closeLimit {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		if again := s.Close(); again != err {
			t.Errorf("then %v", again)
		}
	})
}

// TestCloseUnderLoad: calls that are under way end, and say why.
func TestCloseUnderLoad(t *testing.T) {
	s := openTestStore(t, t.TempDir())
	problems, started := make(chan error, 8), make(chan struct{}, 8)
	for range 8 {
		go func() {
			for first := true; ; first = false {
				err := s.RecordChanges(context.Background(), []control.ModeChange{newModeChange("p", admission.Observe)}, 0)
				if first {
					started <- struct{}{}
				}
				if err != nil {
					problems <- err
					return
				}
			}
		}()
	}
	for range 8 {
		<-started
	}
	closeStore(t, s)
	for range 8 {
		if err := <-problems; !errors.Is(err, ErrClosed) {
			t.Errorf("%v, want ErrClosed", err)
		}
	}
}

// TestErrors: each trouble has its word, and the driver's own words stay out.
func TestErrors(t *testing.T) {
	s := storeKinds["ephemeral"](t)
	for statement, want := range map[string]error{
		"SELECT zeroblob(100000)":                    ErrCorrupt, // longer than anything of ours
		"SELECT * FROM no_such_secret":               nil,
		"INSERT INTO modes (pool) VALUES ('secret')": nil,
	} {
		_, err := readConn(t.Context(), s.writer, func(r *reader) []any { return query(r, table{}, firstValue, statement) })
		var e *driver.Error
		if !errors.As(err, &e) {
			t.Errorf("%s: %v", statement, err)
			continue
		}
		got := wrapErr("look", err)
		if want != nil && !errors.Is(got, want) || want == nil && isSentinel(got) {
			t.Errorf("%s: %v, want %v", statement, got, want)
		}
		wantContains(t, got.Error(), "look: ")
		if strings.Contains(got.Error(), "'secret'") || len(got.Error()) > 400 {
			t.Errorf("%s: the message repeats the statement: %v", statement, got)
		}
	}
	if wrapErr("look", nil) != nil || isBusy(nil) || isBusy(io.EOF) {
		t.Error("nothing is wrong, and yet")
	}
	if err := wrapErr("look", io.EOF); !errors.Is(err, io.EOF) || isSentinel(err) {
		t.Errorf("%v", err)
	}
	if err := wrapErr("look", wrapErr("again", context.DeadlineExceeded)); !errors.Is(err, ErrBusy) || strings.Count(err.Error(), ErrBusy.Error()) != 1 {
		t.Errorf("%v", err)
	}
}

// TestTransact: a transaction that failed leaves the connection fit for the next.
func TestTransact(t *testing.T) {
	for kind, make := range storeKinds {
		t.Run(kind, func(t *testing.T) {
			s := make(t)
			for range 3 {
				err := s.writeTx(t.Context(), "try", func(w *txWriter) {
					w.exec("INSERT INTO progress VALUES ('half', 1, 'w')")
					w.fail(io.ErrUnexpectedEOF)
					w.exec("INSERT INTO progress VALUES ('late', 1, 'w')")
				})
				if !errors.Is(err, io.ErrUnexpectedEOF) {
					t.Fatal(err)
				}
			}
			mustRecord(t, s, 3)
			var rows int
			if err := s.reader.QueryRowContext(t.Context(), "SELECT count(*) FROM progress").Scan(&rows); err != nil || rows != 1 {
				t.Errorf("%d rows, %v, want one", rows, err)
			}
		})
	}
}
