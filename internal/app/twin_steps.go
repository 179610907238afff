package app

import (
	"context"
	"fmt"

	"headgate/internal/sqlite"
	"headgate/runbooks/drill"
	"headgate/web/api"
)

// RunStep implements drill.Injector.
func (w *sandbox) RunStep(ctx context.Context, s drill.Step) (undo func(context.Context) error, err error) {
	switch s.Kind {
	case drill.StepRollback:
		if err := w.setMode(ctx, "passthrough"); err != nil {
			return nil, err
		}
		return func(ctx context.Context) error { return w.setMode(ctx, "enforce") }, nil
	case drill.StepRestore:
		// Taking back what took something back is the business of that.
		return func(context.Context) error { return nil }, w.setMode(ctx, api.ModeRestore)
	case drill.StepLockRecord:
		unlock, err := sqlite.LockExclusive(ctx, w.dir)
		if err == nil {
			w.observations.probe(ctx, w.dir, w.clock)
		}
		return unlock, err
	case drill.StepLoseSlots:
		w.slots.resize(-s.Count)
		return func(context.Context) error {
			w.slots.resize(s.Count)
			return nil
		}, nil
	}
	return nil, fmt.Errorf("there is no step %.40q", string(s.Kind))
}

// setMode goes the way that people's orders go, and looks what came of it.
func (w *sandbox) setMode(ctx context.Context, mode string) error {
	if _, err := w.admin.SetMode(ctx, w.pool.Name, api.ModeRequest{Mode: mode, Reason: "drill " + w.run.Name}); err != nil {
		return err
	}
	status, err := w.admin.Status(ctx)
	if err != nil {
		return fmt.Errorf("read back the mode: %w", err)
	}
	want := mode
	if mode == api.ModeRestore {
		want = "enforce"
	}
	for _, p := range status.Pools {
		if p.Mode != want {
			w.observations.recordIgnoredOrder(fmt.Sprintf("after the order %s the gate of pool %s says that it is in mode %s", mode, p.Name, p.Mode))
		}
	}
	return nil
}
