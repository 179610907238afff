package alerts

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"headgate/engine"
)

// Deliverer sends what is in the outbox until it is known to have arrived. One
// goroutine owns all decisions and the outbox; attempts run beside it, one at a
// time for each destination. Its methods may be called from any goroutine.
type Deliverer struct {
	o     Options
	rules rules

	kick    chan struct{}
	stop    chan struct{}
	ended   chan struct{}
	results chan report

	mu     sync.Mutex
	inbox  []Delivery // unrecorded ones on their way in
	begun  bool
	limit  context.Context // of stopping
	failed error           // of stopping

	owned
}

// owned belongs to the deliverer's goroutine.
type owned struct {
	mem       *memory
	lanes     map[Destination]*lane
	roots     map[stream]Ref
	notBefore time.Time // of the next use of an outbox that failed
}

// report is what an attempt, or a look, came back with.
type report struct {
	s       step
	attempt Attempt
	ref     Ref
	there   bool
	err     error
}

// New returns a deliverer that is not running yet.
func New(o Options) (*Deliverer, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	return &Deliverer{
		o: o,
		rules: rules{
			backoff: o.Backoff, random: o.Random, routes: o.Routes, newID: o.NewID, lookWait: o.LookWait,
		},
		kick: make(chan struct{}, 1), stop: make(chan struct{}), ended: make(chan struct{}),
		results: make(chan report, 8),
		owned: owned{
			mem: newMemory(o.MaxUnrecorded), lanes: make(map[Destination]*lane), roots: make(map[stream]Ref),
		},
	}, nil
}

// Start begins to send. It is called once.
func (d *Deliverer) Start() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.begun {
		return
	}
	d.begun = true
	go d.run()
}

// Kick says that there may be something new in the outbox. It does not block.
func (d *Deliverer) Kick() {
	select {
	case d.kick <- struct{}{}:
	default:
	}
}

// Unrecorded takes over what could not be recorded: pages, notices, and that signals are
// missing, go out at once, marked so, and are recorded when that is possible again. It returns how many it took;
// the others are not urgent, or memory is full (which is counted), and are left
// to whoever will record the event in the end. It does not block.
func (d *Deliverer) Unrecorded(ds []Delivery) int {
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
		x.Note.Unrecorded = true
		d.inbox = append(d.inbox, x)
		taken++
	}
	d.mu.Unlock()
	d.Kick()
	return taken
}

// urgent says whether a delivery goes out even if that cannot be recorded: what
// pings, notices, and that signals are missing, since then nothing else may tell of
// trouble.
func urgent(d Delivery) bool {
	return d.Note.Ping || d.Notice() || d.Note.Incident.Key.Rule == engine.SignalMissing && d.Kind != Edit
}

// Stop ends sending. It waits for attempts under way until ctx ends, then breaks
// them off, and records what is known: nothing is lost but what never could be
// recorded, which is the error. It may be called more than once.
func (d *Deliverer) Stop(ctx context.Context) error {
	d.mu.Lock()
	if d.limit == nil {
		d.limit = ctx
		close(d.stop)
		if !d.begun {
			d.begun = true // a later Start does nothing
			close(d.ended)
		}
	}
	d.mu.Unlock()
	<-d.ended
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.failed
}

func (d *Deliverer) run() {
	defer close(d.ended)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-d.stop:
			d.finish(cancel)
			return
		case r := <-d.results:
			d.settle(r)
		case <-d.kick:
		case <-timer.C:
		}
		timer.Reset(d.round(ctx, time.Now()))
	}
}

// grace is how long attempts that were broken off have to come back.
const grace = time.Second

// finish waits for attempts, then breaks them off, then saves what is left.
func (d *Deliverer) finish(cancel context.CancelFunc) {
	d.mu.Lock()
	limit := d.limit
	d.mu.Unlock()
	d.await(limit.Done())
	cancel()
	broken, done := context.WithTimeout(context.Background(), grace)
	defer done()
	d.await(broken.Done())
	d.accept()
	if !d.mem.empty() {
		d.notBefore = time.Time{}
		d.flush(time.Now())
	}
	if n := len(d.mem.ds); n > 0 {
		d.mu.Lock()
		d.failed = fmt.Errorf("%d deliveries could not be recorded", n)
		d.mu.Unlock()
		d.o.Log.Error("deliveries could not be recorded", "count", n)
	}
}

// await settles attempts until none is under way or enough has been waited.
func (d *Deliverer) await(enough <-chan struct{}) {
	for d.underWay() {
		select {
		case r := <-d.results:
			d.settle(r)
		case <-enough:
			return
		}
	}
}

func (d *Deliverer) underWay() bool {
	for _, l := range d.lanes {
		if l.busy {
			return true
		}
	}
	return false
}

var errNoSender = errors.New("no channel is set for it")
