package alerts

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"headgate/engine"
)

// Dispatcher sends what is in the outbox until it is known to have arrived. One
// goroutine owns all decisions and the outbox; attempts run beside it, one at a
// time for each destination. Its methods may be called from any goroutine.
type Dispatcher struct {
	o     Options
	rules resultRules

	wake    chan struct{}
	stop    chan struct{}
	done    chan struct{}
	results chan stepResult

	mu      sync.Mutex
	inbox   []Delivery // unrecorded ones on their way in
	started bool
	stopCtx context.Context // of stopping
	stopErr error           // of stopping

	loopState
}

// loopState belongs to the deliverer's goroutine.
type loopState struct {
	buffer        *saveBuffer
	channels      map[Destination]*channel
	threads       map[threadKey]Ref
	outboxRetryAt time.Time // of the next use of an outbox that failed
}

// stepResult is what an attempt, or a look, came back with.
type stepResult struct {
	step  step
	send  SendResult
	ref   Ref
	found bool
	err   error
}

// New returns a deliverer that is not running yet.
func New(o Options) (*Dispatcher, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	return &Dispatcher{
		o: o,
		rules: resultRules{
			backoff: o.Backoff, random: o.Random, routes: o.Routes, newID: o.NewID, lookupDelay: o.LookupDelay,
		},
		wake: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}),
		results: make(chan stepResult, 8),
		loopState: loopState{
			buffer: newSaveBuffer(o.MaxUnrecorded), channels: make(map[Destination]*channel), threads: make(map[threadKey]Ref),
		},
	}, nil
}

// Start begins to send. It is called once.
func (d *Dispatcher) Start() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.started {
		return
	}
	d.started = true
	go d.run()
}

// Wake says that there may be something new in the outbox. It does not block.
func (d *Dispatcher) Wake() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// SubmitUnrecorded takes over what could not be recorded: pages, notices, and that signals are
// missing, go out at once, marked so, and are recorded when that is possible again. It returns how many it took;
// the others are not urgent, or memory is full (which is counted), and are left
// to whoever will record the event in the end. It does not block.
func (d *Dispatcher) SubmitUnrecorded(ds []Delivery) int {
	d.mu.Lock()
	taken := 0
	for _, x := range ds {
		if !x.State.Pending() || !urgent(x) {
			continue
		}
		if len(d.inbox) >= d.o.MaxUnrecorded {
			d.o.Metrics.count(x.Destination, ResultLost)
			continue
		}
		x.Notification.Unrecorded = true
		d.inbox = append(d.inbox, x)
		taken++
	}
	d.mu.Unlock()
	d.Wake()
	return taken
}

// urgent says whether a delivery goes out even if that cannot be recorded: what
// pings, notices, and that signals are missing, since then nothing else may tell of
// trouble.
func urgent(d Delivery) bool {
	return d.Notification.Ping || d.IsNotice() || d.Notification.Incident.Key.Rule == engine.SignalMissing && d.Kind != Edit
}

// Stop ends sending. It waits for attempts under way until ctx ends, then breaks
// them off, and records what is known: nothing is lost but what never could be
// recorded, which is the error. It may be called more than once.
func (d *Dispatcher) Stop(ctx context.Context) error {
	d.mu.Lock()
	if d.stopCtx == nil {
		d.stopCtx = ctx
		close(d.stop)
		if !d.started {
			d.started = true // a later Start does nothing
			close(d.done)
		}
	}
	d.mu.Unlock()
	<-d.done
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.stopErr
}

func (d *Dispatcher) run() {
	defer close(d.done)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-d.stop:
			d.shutdown(cancel)
			return
		case r := <-d.results:
			d.handleResult(r)
		case <-d.wake:
		case <-timer.C:
		}
		timer.Reset(d.dispatch(ctx, time.Now()))
	}
}

// abortGrace is how long attempts that were broken off have to come back.
const abortGrace = time.Second

// shutdown waits for attempts, then breaks them off, then saves what is left.
func (d *Dispatcher) shutdown(cancel context.CancelFunc) {
	d.mu.Lock()
	limit := d.stopCtx
	d.mu.Unlock()
	d.waitInFlight(limit.Done())
	cancel()
	broken, done := context.WithTimeout(context.Background(), abortGrace)
	defer done()
	d.waitInFlight(broken.Done())
	d.drainInbox()
	if !d.buffer.empty() {
		d.outboxRetryAt = time.Time{}
		d.flush(time.Now())
	}
	if n := len(d.buffer.deliveries); n > 0 {
		d.mu.Lock()
		d.stopErr = fmt.Errorf("%d deliveries could not be recorded", n)
		d.mu.Unlock()
		d.o.Log.Error("deliveries could not be recorded", "count", n)
	}
}

// waitInFlight settles attempts until none is under way or enough has been waited.
func (d *Dispatcher) waitInFlight(enough <-chan struct{}) {
	for d.anyInFlight() {
		select {
		case r := <-d.results:
			d.handleResult(r)
		case <-enough:
			return
		}
	}
}

func (d *Dispatcher) anyInFlight() bool {
	for _, l := range d.channels {
		if l.busy {
			return true
		}
	}
	return false
}

var errNoNotifier = errors.New("no channel is set for it")
