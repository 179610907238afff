package app

import (
	"context"
	"errors"
	"time"

	"headgate/proxy"
)

// cancelGrace is how long a stop waits, after the drain time, for tasks that it has
// cut off to notice.
const cancelGrace = 2 * time.Second

// notifyTimeout is how long a stop waits for messages that are on their way. What does
// not get out stays in the record for the next start.
const notifyTimeout = 3 * time.Second

var errDraining = errors.New("draining: going down")

// Stop goes down in order: a drill that runs is aborted and cleared, those who wait are turned away, no new connection is
// taken, those who run get the drain time (or ctx, if that is shorter) to
// finish, and what is left is cut off. The admin plane answers until the end.
// It may be called more than once; all calls return the first one's error. An App
// that was not started has nothing to stop.
func (a *App) Stop(ctx context.Context) error {
	a.stopOnce.Do(func() {
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
	if down := a.dataServer.Shutdown(drain); errors.Is(down, context.DeadlineExceeded) {
		a.log.Warn("drain time is over, cutting off what still runs", "drain", drainTime)
	} else {
		err = errors.Join(err, down)
	}
	a.cancelTasks(proxy.ErrDrainTimeout)
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelGrace)
	defer cancel()
	if a.dataServer.Shutdown(grace) != nil {
		err = errors.Join(err, a.dataServer.Close())
	}
	a.proxy.Close()
	if a.adminServer.Shutdown(grace) != nil {
		err = errors.Join(err, a.adminServer.Close())
	}
	err = errors.Join(err, a.serving.Wait())
	tell, cancel := context.WithTimeout(context.WithoutCancel(ctx), notifyTimeout)
	defer cancel()
	return errors.Join(err, a.stopMonitor(tell), a.closeStore())
}
