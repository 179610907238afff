package lifecycle

import (
	"context"
	"errors"
	"fmt"
)

// Task is a goroutine that ends when it is stopped, or by itself.
type Task struct {
	cancel context.CancelFunc
	done   chan struct{}
}

// Go calls f in a goroutine. The context of f ends with Stop.
func Go(f func(ctx context.Context)) *Task {
	ctx, cancel := context.WithCancel(context.Background())
	t := &Task{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(t.done)
		defer cancel()
		f(ctx)
	}()
	return t
}

// Done is closed when the goroutine has ended.
func (t *Task) Done() <-chan struct{} { return t.done }

// Cancel ends the context of the goroutine.
func (t *Task) Cancel() { t.cancel() }

// Stop ends the context of the goroutine and waits until it has ended or ctx ends. It may be called repeatedly; on a nil
// Task it does nothing.
func (t *Task) Stop(ctx context.Context) error {
	if t == nil {
		return nil
	}
	t.cancel()
	select {
	case <-t.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Stack holds what has to be stopped. Push each step as soon as the thing exists. It is not safe for concurrent use.
type Stack struct{ steps []step }

type step struct {
	name string
	stop func(context.Context) error
}

// Push adds a step.
func (s *Stack) Push(name string, stop func(context.Context) error) {
	s.steps = append(s.steps, step{name, stop})
}

// Stop calls the steps in reverse order and removes them. Each step is called even if others fail; the errors are
// joined, each with the name of its step.
func (s *Stack) Stop(ctx context.Context) error {
	var errs []error
	for len(s.steps) > 0 {
		last := s.steps[len(s.steps)-1]
		s.steps = s.steps[:len(s.steps)-1]
		if err := last.stop(ctx); err != nil {
			errs = append(errs, fmt.Errorf("stop %s: %w", last.name, err))
		}
	}
	return errors.Join(errs...)
}
