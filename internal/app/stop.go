package app

import (
	"context"
	"errors"
	"time"

	"headgate/proxy"
)

// cutTime is how long a stop waits, after the drain time, for tasks that it has
// cut off to notice.
const cutTime = 2 * time.Second

// tellTime is how long a stop waits for messages that are on their way. What does
// not get out stays in the record for the next start.
const tellTime = 3 * time.Second

var errDraining = errors.New("draining: going down")

// Stop goes down in order: a drill that runs is aborted and cleared, those who wait are turned away, no new connection is
// taken, those who run get the drain time (or ctx, if that is shorter) to
// finish, and what is left is cut off. The admin plane answers until the end.
// It may be called more than once; all calls return the first one's error. An App
// that was not started has nothing to stop.
func (a *App) Stop(ctx context.Context) error {
	a.stop.Do(func() {
		if a.started {
			a.stopErr = a.shutdown(ctx)
		}
	})
	return a.stopErr
}

func (a *App) shutdown(ctx context.Context) error {
	a.mu.Lock()
	drainTime := a.cfg.Drain
	a.mu.Unlock()
	a.draining.Store(true)
	err := a.stopDrills(ctx)
	a.drainGates(time.Now())
	drain, cancel := context.WithTimeout(ctx, drainTime)
	defer cancel()
	if down := a.data.Shutdown(drain); errors.Is(down, context.DeadlineExceeded) {
		a.log.Warn("drain time is over, cutting off what still runs", "drain", drainTime)
	} else {
		err = errors.Join(err, down)
	}
	a.cut(proxy.ErrDraining)
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), cutTime)
	defer cancel()
	if a.data.Shutdown(grace) != nil {
		err = errors.Join(err, a.data.Close())
	}
	a.proxy.Close()
	if a.admin.Shutdown(grace) != nil {
		err = errors.Join(err, a.admin.Close())
	}
	err = errors.Join(err, a.serving.Wait())
	tell, cancel := context.WithTimeout(context.WithoutCancel(ctx), tellTime)
	defer cancel()
	return errors.Join(err, a.stopWatch(tell), a.stopRecord())
}
