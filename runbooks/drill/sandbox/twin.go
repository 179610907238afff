package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"headgate/internal/lifecycle"
	"headgate/internal/modelstub"
	"headgate/proxy/fault"
	"headgate/runbooks/drill"
)

// twin is a second system with the settings and rules of production's pool. It shares nothing with production.
type twin struct {
	*faultPoints
	run       drill.Run
	pool      Pool
	workers   int
	setup     drill.Evidence // what does not change during the run
	clock     *scenarioClock
	load      *generatedLoad
	calls     *callTrace
	endpoint  *modelstub.Stub
	slack     *slackTarget
	system    System
	dir       string
	stack     lifecycle.Stack
	closeOnce sync.Once
	closing   *lifecycle.Task
	closeErr  error

	mu        sync.Mutex
	unapplied []string // requested modes, and the modes that the system shows afterwards
	probes    []drill.WriteProbe
}

// maxObservations bounds the notes of unapplied modes, and the probes.
const maxObservations = 10_000

func (e *Environments) openTwin(ctx context.Context, r drill.Run, pool Pool) (drill.Environment, error) {
	w := &twin{run: r, pool: pool, clock: &scenarioClock{speed: r.Speed}}
	err := w.build(e)
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, w.Close(context.WithoutCancel(ctx)))
	}
	return w, nil
}

// build makes everything, from the far ends inwards.
func (w *twin) build(e *Environments) (err error) {
	if w.load, err = newGeneratedLoad(w.run.Spec, w.pool.SLO, w.clock); err != nil {
		return fmt.Errorf("load: %w", err)
	}
	if err := w.makeDir(e.Dir); err != nil {
		return err
	}
	if w.slack, err = newSlackTarget(e.Messages(), w.run.Spec.Scenario.Seed); err != nil {
		return fmt.Errorf("stand-in for Slack: %w", err)
	}
	w.stack.Push("the stand-in for Slack", w.slack.close)
	upstream, err := w.openEndpoint()
	if err != nil {
		return fmt.Errorf("endpoint: %w", err)
	}
	w.system, err = e.NewSystem(SystemSpec{
		Pool: w.pool.Name, Workers: w.workers, Speed: w.run.Speed, Dir: w.dir,
		UpstreamURL: upstream, Upstream: w.calls, Slack: w.slack.senderTransport, Messages: w.slack.channel,
	})
	if err != nil {
		return fmt.Errorf("system: %w", err)
	}
	w.stack.Push("the system", w.system.Stop)
	w.stack.Push("the load", w.load.stop)
	w.stack.Push("the faults", func(ctx context.Context) error {
		_, err := w.Clear(ctx)
		return err
	})
	return nil
}

func (w *twin) makeDir(parent string) (err error) {
	if parent != "" {
		if err := os.MkdirAll(parent, 0o700); err != nil {
			return err
		}
	}
	if w.dir, err = os.MkdirTemp(parent, "twin-"); err != nil {
		return err
	}
	w.stack.Push("the record", func(context.Context) error { return os.RemoveAll(w.dir) })
	return nil
}

// openEndpoint makes the endpoint, with as many slots as the gate has workers, and the transport to it.
func (w *twin) openEndpoint() (address string, err error) {
	service, err := modelstub.ParseService(w.run.Spec.Scenario.Service)
	if err != nil {
		return "", err
	}
	w.workers = cmp.Or(w.run.Spec.Scenario.Workers, w.pool.Workers)
	w.setup = drill.Evidence{
		Pool: w.pool.Name, Workers: w.workers, SLO: w.pool.SLO,
		MaxQueueAge: w.pool.MaxQueueAge, MaxWaiting: w.pool.DepthMultiple * w.workers, KeptRate: true,
	}
	if w.setup.ServiceMin, w.setup.ServiceMax = modelstub.ServiceBounds(service); w.setup.ServiceMax > 0 {
		w.setup.ServiceMean = service.Mean(0, 0)
	}
	transport := &http.Transport{MaxIdleConnsPerHost: 1024, DisableCompression: true, IdleConnTimeout: time.Minute}
	upstream := fault.New(transport, w.run.Spec.Scenario.Seed)
	w.faultPoints = &faultPoints{upstream: upstream, slack: w.slack.faults, speed: w.run.Speed}
	w.calls = &callTrace{clock: w.clock, next: upstream, tagCalls: true}
	w.endpoint, err = modelstub.New(modelstub.Config{
		Service: service, Slots: w.workers, Seed: w.run.Spec.Scenario.Seed, Speed: w.run.Speed, OnSlot: w.calls.recordSlot,
	})
	if err != nil {
		return "", err
	}
	server, err := serveLoopback("endpoint", w.calls.wrapEndpoint(w.endpoint))
	if err != nil {
		return "", err
	}
	w.stack.Push("the endpoint", func(context.Context) error {
		w.endpoint.Close()
		transport.CloseIdleConnections()
		return server.Close()
	})
	return server.URL() + "/v1", nil
}

// Start sends the load.
func (w *twin) Start(context.Context) (time.Time, error) {
	return w.load.start(w.system.DataAddr()), nil
}

// Observe returns what generator, endpoint and receiver of messages have seen.
func (w *twin) Observe(ctx context.Context) (drill.Evidence, error) {
	e := w.setup
	e.At, e.FaultHits = w.clock.at(time.Now()), w.faultHits()
	if w.clock.zero.Load() == nil {
		return e, nil
	}
	locks := func(s drill.Step) bool { return s.Kind == drill.StepLockRecord }
	if slices.ContainsFunc(w.run.Spec.Scenario.Steps, locks) {
		w.probeRecord(ctx)
	}
	w.load.addTo(&e)
	e.Calls = callsUntil(e.At, w.calls.snapshot(), e.Tasks)
	w.slack.recorder.addTo(&e)
	var err error
	if e.Incidents, err = w.system.Incidents(ctx); err != nil {
		return e, fmt.Errorf("the twin's incidents cannot be read: %w", err)
	}
	select {
	case err := <-w.system.Failed():
		e.StaleReason = "the twin's listener has failed: " + err.Error()
	default:
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	e.UnappliedRequests, e.WriteProbes = slices.Clone(w.unapplied), slices.Clone(w.probes)
	return e, nil
}

// callsUntil leaves out calls that started after at for other tasks than these: tasks may be sent between reading the
// tasks and reading the calls, and such a call must not count as one without a task.
func callsUntil(at time.Duration, calls []drill.Call, tasks []drill.Task) []drill.Call {
	seen := make(map[int]bool, len(tasks))
	for _, t := range tasks {
		seen[t.ID] = true
	}
	return slices.DeleteFunc(calls, func(c drill.Call) bool { return c.Started > at && !seen[c.Task] })
}

// probeRecord tries to write to the record.
func (w *twin) probeRecord(ctx context.Context) {
	at := w.clock.at(time.Now())
	err := w.system.ProbeRecord(ctx)
	if ctx.Err() != nil {
		return // the error may be that of the caller's limit
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.probes) < maxObservations {
		w.probes = append(w.probes, drill.WriteProbe{At: at, Writable: err == nil})
	}
}

// Modes that a step asks for.
const (
	modePassThrough = "passthrough"
	modeEnforce     = "enforce"
	modeRestore     = "restore"
)

// RunStep runs a step of the scenario.
func (w *twin) RunStep(ctx context.Context, s drill.Step) (revert func(context.Context) error, err error) {
	switch s.Kind {
	case drill.StepRollback:
		if err := w.setMode(ctx, modePassThrough); err != nil {
			return nil, err
		}
		return func(ctx context.Context) error { return w.setMode(ctx, modeEnforce) }, nil
	case drill.StepRestore:
		// The rollback before it is reverted by its own revert function.
		return func(context.Context) error { return nil }, w.setMode(ctx, modeRestore)
	case drill.StepLockRecord:
		unlock, err := w.system.LockRecord(ctx)
		if err == nil {
			w.probeRecord(ctx)
		}
		return unlock, err
	case drill.StepLoseSlots:
		w.endpoint.LoseSlots(s.Count)
		return func(context.Context) error {
			w.endpoint.LoseSlots(-s.Count)
			return nil
		}, nil
	}
	return nil, fmt.Errorf("unknown step %.40q", string(s.Kind))
}

// setMode asks for a mode, and notes what the system shows if that is another.
func (w *twin) setMode(ctx context.Context, mode string) error {
	shown, err := w.system.SetMode(ctx, w.pool.Name, mode, "drill "+w.run.Name)
	if err != nil {
		return err
	}
	want := mode
	if mode == modeRestore {
		want = modeEnforce
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for pool, is := range shown {
		if is != want && len(w.unapplied) < maxObservations {
			w.unapplied = append(w.unapplied,
				fmt.Sprintf("after the order %s the gate of pool %s says that it is in mode %s", mode, pool, is))
		}
	}
	return nil
}

// Close stops everything. Further calls wait for the first.
func (w *twin) Close(ctx context.Context) error {
	w.closeOnce.Do(func() {
		w.closing = lifecycle.Go(func(context.Context) { w.closeErr = w.stack.Stop(ctx) })
	})
	select {
	case <-w.closing.Done():
		return w.closeErr
	case <-ctx.Done():
		return fmt.Errorf("close the twin: %w", context.Cause(ctx))
	}
}

// serveLoopback serves on a free port of the loopback interface.
func serveLoopback(name string, h http.Handler) (*lifecycle.Server, error) {
	s, err := lifecycle.Listen(name, lifecycle.Loopback, h, slog.New(slog.DiscardHandler))
	if err == nil {
		s.Serve(nil)
	}
	return s, err
}
