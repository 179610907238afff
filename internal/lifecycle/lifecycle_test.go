package lifecycle_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"headgate/internal/lifecycle"
)

func TestTaskStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		task := lifecycle.Go(func(ctx context.Context) {
			<-ctx.Done()
			time.Sleep(2 * time.Second)
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := task.Stop(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("stop within a second: %v", err)
		}
		if err := task.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		<-task.Done()
	})
	if err := (*lifecycle.Task)(nil).Stop(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestStackStopsInReverse(t *testing.T) {
	var s lifecycle.Stack
	var order []string
	failure := errors.New("failed")
	for _, name := range []string{"first", "second", "third"} {
		s.Push(name, func(context.Context) error {
			order = append(order, name)
			if name == "third" {
				return nil
			}
			return failure
		})
	}
	err := s.Stop(t.Context())
	if !slices.Equal(order, []string{"third", "second", "first"}) {
		t.Errorf("stopped in the order %v", order)
	}
	if !errors.Is(err, failure) || !strings.Contains(err.Error(), "first") || !strings.Contains(err.Error(), "second") {
		t.Errorf("error %v does not name both steps", err)
	}
	if err := s.Stop(t.Context()); err != nil || len(order) != 3 {
		t.Errorf("second stop: %v, %v", order, err)
	}
}
