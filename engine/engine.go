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
)

// Errors of an engine's life.
var (
	ErrNotRunning = errors.New("the engine is not running")
	ErrUnsaved    = errors.New("some of what happened to incidents is not recorded")
)

// Signals answers what the rules' signals come to at a time. A rule that the
// answer leaves out is missing its signal. It should obey its context; one that
// does not return in time is not asked again until it has. What is returned is
// given away.
type Signals interface {
	Values(ctx context.Context, now time.Time, rules []Rule) map[Key]Value
}

// Options is what an Engine is made of. Signals, Journal, Log and Metrics must be
// there. The functions may be nil; each is called from one goroutine, in order,
// and holds it up for as long as it takes.
type Options struct {
	Config  Config
	Rules   []Rule
	Signals Signals
	Journal Journal
	Log     *slog.Logger
	Metrics *Metrics // of this Engine alone

	// Stepped hears of every batch at once, recorded or not: it is for actions that
	// must not wait for a disk.
	OnStep func(Batch)
	// Recorded hears of what has been saved, which may be several batches in one.
	OnSaved func(Batch)
	// Unrecorded hears, once, of incidents that are pages or say that signals are
	// missing, and of their events, that could not be saved so far; they will still
	// be saved, and be in a batch of Recorded.
	OnUnsaved func(Batch)
	// Clock returns the time of records and of queries. It should be the wall clock
	// of a start plus monotonic time, the one that samples are stamped with. Nil:
	// that, from New on.
	Clock func() time.Time
}

// Engine runs a Machine: it evaluates the rules at every interval, keeps what
// comes of it in the journal, and passes commands on. All its methods may be
// called from any goroutine.
type Engine struct {
	o         Options
	wallClock func() time.Time
	commands  chan command
	recorder  *recorder
	machine   *Machine // of the loop, once it runs
	snapshot  atomic.Pointer[Snapshot]
	running   atomic.Bool
	quit      chan struct{} // closed when Stop begins
	loopDone  chan struct{}
	saveDone  chan struct{}

	mu         sync.Mutex
	started    bool
	stopped    bool
	cancelLoop context.CancelFunc // of the loop
	cancelSave context.CancelFunc // of the recorder
}

// New returns an Engine that does nothing yet.
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
		o.Clock = monotonicClock()
	}
	o.Rules = slices.Clone(o.Rules)
	o.Log = o.Log.With("component", "engine")
	e := &Engine{
		o: o, machine: m, wallClock: func() time.Time { return time.Now().Round(0) },
		commands: make(chan command), recorder: newRecorder(o),
		quit: make(chan struct{}), loopDone: make(chan struct{}), saveDone: make(chan struct{}),
	}
	e.publish(o.Rules)
	return e, nil
}

// monotonicClock returns a clock that goes on from the wall clock of now by
// monotonic time.
func monotonicClock() func() time.Time {
	start := time.Now()
	return func() time.Time { return start.Round(0).Add(time.Since(start)) }
}

// Start loads what the journal remembers, and begins: all rules are evaluated
// once before anything is said. It fails if the journal cannot be read in time,
// and may then be tried again.
func (e *Engine) Start(ctx context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.started || e.stopped {
		return errors.New("an engine starts once")
	}
	load, cancel := context.WithTimeout(ctx, e.o.Config.SaveTimeout)
	defer cancel()
	saved, err := e.o.Journal.Load(load)
	if err != nil {
		e.o.Metrics.countJournalError(opLoad)
		return fmt.Errorf("read the incidents from the journal: %w", err)
	}
	for _, wrong := range e.machine.Load(e.o.Clock(), saved) {
		e.o.Log.Warn("the record of incidents contradicts itself", "found", wrong)
	}
	e.startGoroutines()
	return nil
}

// startGoroutines starts the goroutines, of which there are two: the loop, which owns the
// machine, and the recorder, so that a slow disk does not stop the loop.
func (e *Engine) startGoroutines() {
	e.started = true
	e.publish(e.o.Rules)
	ctx, cancel := context.WithCancel(context.Background())
	save, endSave := context.WithCancel(context.Background())
	e.cancelLoop, e.cancelSave = cancel, endSave
	e.running.Store(true)
	go func() {
		defer close(e.loopDone)
		defer e.running.Store(false)
		newLoop(e).run(ctx)
	}()
	go func() {
		defer close(e.saveDone)
		e.recorder.queue.Run(save)
	}()
}

// Stop ends the evaluations, and then tries to record what is left, until ctx is
// done. The error says what was not finished by then. Stopping again does
// nothing.
func (e *Engine) Stop(ctx context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.started || e.stopped {
		e.stopped = true
		return nil
	}
	e.stopped = true
	close(e.quit)
	e.cancelLoop()
	errLoop := wait(ctx, e.loopDone, "evaluations")
	e.cancelSave()
	if err := wait(ctx, e.saveDone, "the record of incidents"); err != nil {
		return errors.Join(errLoop, err)
	}
	return errors.Join(errLoop, e.recorder.finish())
}

func wait(ctx context.Context, done <-chan struct{}, what string) error {
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("stop %s: %w", what, ctx.Err())
	}
}

// Snapshot is how everything stood after the latest change.
type Snapshot struct {
	Rules     []RuleStatus
	Incidents []Incident // open ones, and those that may be reopened; oldest first
	Silences  []Silence  // that are not over
}

// publish makes a new snapshot for readers.
func (e *Engine) publish(rules []Rule) {
	s := &Snapshot{
		Rules: e.machine.Statuses(rules), Incidents: e.machine.Incidents(), Silences: e.machine.Silences(),
	}
	e.snapshot.Store(s)
	e.o.Metrics.snapshot.Store(s)
}

// Incidents returns the open incidents, and those that may be reopened, oldest
// first.
func (e *Engine) Incidents() []Incident { return slices.Clone(e.snapshot.Load().Incidents) }

// States returns how every rule stands, those included that watch signals.
func (e *Engine) States() []RuleStatus {
	all := slices.Clone(e.snapshot.Load().Rules)
	for n := range all {
		all[n].State.FlapTimes = slices.Clone(all[n].State.FlapTimes)
	}
	return all
}

// Silences returns the silences that are not over.
func (e *Engine) Silences() []Silence { return slices.Clone(e.snapshot.Load().Silences) }
