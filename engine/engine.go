package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"headgate/internal/lifecycle"
)

// Errors of an engine's lifecycle.
var (
	ErrNotRunning = errors.New("the engine is not running")
	ErrUnsaved    = errors.New("incident events not persisted")
)

// Signals returns the values of the rules' signals at a time. A rule that is left out has a missing signal. Values
// should obey its context; while a call has not returned, there is no further one. The caller owns the returned map.
type Signals interface {
	Values(ctx context.Context, now time.Time, rules []Rule) map[Key]Value
}

// Options are the parts of an Engine. Signals, Journal, Log and Metrics are required. The functions may be nil; each is
// called from one goroutine, in order, which it blocks.
type Options struct {
	Config  Config
	Rules   []Rule
	Signals Signals
	Journal Journal
	Log     *slog.Logger
	Metrics *Metrics // of this Engine alone

	// OnStep is called with every batch at once, recorded or not: for actions that must not wait for a disk.
	OnStep func(Batch)
	// OnSaved is called with what has been saved, which may be several batches in one.
	OnSaved func(Batch)
	// OnUnsaved is called, once, with incidents that are pages or about missing signals, and with their events, that
	// could not be saved so far. They are still saved later, and then in a batch of OnSaved.
	OnUnsaved func(Batch)
	// Clock returns the time of records and queries. It should be the clock of the samples: the wall clock of the start
	// plus monotonic time. Nil: such a clock, from New on.
	Clock func() time.Time
}

// Engine runs a Machine: it evaluates the rules at every interval, saves the changes to the journal, and runs commands.
// Its methods may be called from any goroutine.
type Engine struct {
	o         Options
	wallClock func() time.Time
	commands  chan command
	recorder  *recorder
	machine   *Machine // of the loop, once it runs
	snapshot  atomic.Pointer[Snapshot]
	running   atomic.Bool
	quit      chan struct{} // closed when Stop begins

	mu      sync.Mutex
	stopped bool
	loop    *lifecycle.Task // evaluates, and owns the machine; nil before Start
	saver   *lifecycle.Task // writes to the journal, so that a slow disk does not stop the loop
}

// New returns an Engine that has not started.
func New(o Options) (*Engine, error) {
	if o.Signals == nil || o.Journal == nil || o.Log == nil || o.Metrics == nil {
		return nil, errors.New("an engine needs Signals, a Journal, a Log and Metrics")
	}
	if err := CheckRules(o.Rules); err != nil {
		return nil, err
	}
	m, err := NewMachine(o.Config)
	if err != nil {
		return nil, err
	}
	if o.Clock == nil {
		o.Clock = MonotonicClock()
	}
	o.Rules = slices.Clone(o.Rules)
	e := &Engine{
		o: o, machine: m, wallClock: func() time.Time { return time.Now().Round(0) },
		commands: make(chan command), recorder: newRecorder(o), quit: make(chan struct{}),
	}
	e.publish(o.Rules)
	return e, nil
}

// MonotonicClock returns a clock that continues from the current wall clock by monotonic time: a step of the wall clock
// does not move it.
func MonotonicClock() func() time.Time {
	start := time.Now()
	return func() time.Time { return start.Round(0).Add(time.Since(start)) }
}

// Start loads the journal and starts evaluating. It fails if the journal cannot be read in time, and may then be tried
// again.
func (e *Engine) Start(ctx context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.loop != nil || e.stopped {
		return errors.New("engine already started")
	}
	load, cancel := context.WithTimeout(ctx, e.o.Config.SaveTimeout)
	defer cancel()
	saved, err := e.o.Journal.Load(load)
	if err != nil {
		e.o.Metrics.countJournalError(opLoad)
		return fmt.Errorf("read the incidents from the journal: %w", err)
	}
	for _, wrong := range e.machine.Load(e.o.Clock(), saved) {
		e.o.Log.Warn("inconsistent incident record repaired", "problem", wrong)
	}
	e.publish(e.o.Rules)
	e.running.Store(true)
	e.loop = lifecycle.Go(func(ctx context.Context) {
		defer e.running.Store(false)
		newLoop(e).run(ctx)
	})
	e.saver = lifecycle.Go(e.recorder.queue.Run)
	return nil
}

// Stop ends the evaluations and then saves what is left, until ctx is done. The error says what was not finished.
// Stopping again does nothing.
func (e *Engine) Stop(ctx context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.loop == nil || e.stopped {
		e.stopped = true
		return nil
	}
	e.stopped = true
	close(e.quit)
	err := e.loop.Stop(ctx)
	if err != nil {
		err = fmt.Errorf("stop evaluations: %w", err)
	}
	if errSave := e.saver.Stop(ctx); errSave != nil {
		return errors.Join(err, fmt.Errorf("stop recording incidents: %w", errSave))
	}
	return errors.Join(err, e.recorder.finish())
}

// Snapshot is the state of an engine after the latest change.
type Snapshot struct {
	Rules     []RuleStatus
	Incidents []Incident // open ones, and those that may be reopened; oldest first
	Silences  []Silence  // active and future ones
}

// publish makes a new snapshot available to readers.
func (e *Engine) publish(rules []Rule) {
	s := &Snapshot{
		Rules: e.machine.Statuses(rules), Incidents: e.machine.Incidents(), Silences: e.machine.Silences(),
	}
	e.snapshot.Store(s)
	e.o.Metrics.snapshot.Store(s)
}

// Incidents returns the open incidents, and those that may be reopened, oldest first.
func (e *Engine) Incidents() []Incident { return slices.Clone(e.snapshot.Load().Incidents) }

// States returns the status of every rule, including those that watch signals.
func (e *Engine) States() []RuleStatus {
	all := slices.Clone(e.snapshot.Load().Rules)
	for n := range all {
		all[n].State.FlapTimes = slices.Clone(all[n].State.FlapTimes)
	}
	return all
}

// Silences returns the active and future silences.
func (e *Engine) Silences() []Silence { return slices.Clone(e.snapshot.Load().Silences) }
