package alerts

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"headgate/engine"
)

// Options are what a Dispatcher needs. A zero duration or number is replaced by
// its default.
type Options struct {
	Outbox    Outbox
	Notifiers map[Destination]Notifier // one for each of Routes.Destinations
	Routes    Routes
	Metrics   *Metrics
	Log       *slog.Logger

	// NewID returns a UUIDv7 for a delivery that was diverted.
	NewID func() string
	// OnUndeliverable is told of each delivery that will not arrive where it should have:
	// it is Dead, its Reason says why. It is called from the deliverer's goroutine
	// and must not block. Nil: nobody is told.
	OnUndeliverable func(Delivery)
	// Random returns numbers from [0, 1) that spread retries. Nil: the runtime's.
	Random func() float64

	PostInterval  time.Duration // between two posts in a channel; 1 s
	EditInterval  time.Duration // between two edits or look-ups there; 1.25 s
	Backoff       Backoff       // of attempts; from 1 s to 30 s
	PollInterval  time.Duration // looks at the outbox at least this often; 5 s
	SendTimeout   time.Duration // of one attempt; 15 s
	OutboxTimeout time.Duration // of one use of the outbox; 3 s
	OutboxRetry   time.Duration // the outbox is left alone for so long after an error; 1 s
	LookupDelay   time.Duration // before looking whether a message has arrived; 2 s
	LateAfter     time.Duration // a message sent so long after the event says that it is late; 1 min

	MaxPending    int // deliveries looked at in one round; 1000
	MaxUnrecorded int // deliveries kept in memory while the outbox fails; 256
}

func (o Options) withDefaults() Options {
	durations := []struct {
		d   *time.Duration
		def time.Duration
	}{
		{&o.PostInterval, time.Second}, {&o.EditInterval, 1250 * time.Millisecond},
		{&o.Backoff.Base, time.Second}, {&o.Backoff.Max, 30 * time.Second},
		{&o.PollInterval, 5 * time.Second}, {&o.SendTimeout, 15 * time.Second}, {&o.OutboxTimeout, 3 * time.Second},
		{&o.OutboxRetry, time.Second}, {&o.LookupDelay, 2 * time.Second}, {&o.LateAfter, time.Minute},
	}
	for _, f := range durations {
		if *f.d == 0 {
			*f.d = f.def
		}
	}
	if o.MaxPending == 0 {
		o.MaxPending = 1000
	}
	if o.MaxUnrecorded == 0 {
		o.MaxUnrecorded = 256
	}
	if o.Random == nil {
		o.Random = rand.Float64
	}
	if o.OnUndeliverable == nil {
		o.OnUndeliverable = func(Delivery) {}
	}
	return o
}

func (o Options) validate() error {
	if o.Outbox == nil || o.Metrics == nil || o.Log == nil || o.NewID == nil {
		return errors.New("a deliverer needs an outbox, metrics, a log and a source of IDs")
	}
	for _, to := range o.Routes.Destinations() {
		if o.Notifiers[to] == nil {
			return fmt.Errorf("no sender for the destination %q", to)
		}
	}
	for _, d := range []time.Duration{
		o.PostInterval, o.EditInterval, o.Backoff.Base, o.Backoff.Max, o.PollInterval, o.SendTimeout,
		o.OutboxTimeout, o.OutboxRetry, o.LookupDelay, o.LateAfter,
	} {
		if d < 0 {
			return fmt.Errorf("a duration of a deliverer is %v, it must not be negative", d)
		}
	}
	if o.MaxPending < 0 || o.MaxUnrecorded < 0 {
		return errors.New("the bounds of a deliverer must not be negative")
	}
	return nil
}

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

// dispatch begins what can be begun now, and returns how long nothing needs to be
// done unless something happens.
func (d *Dispatcher) dispatch(ctx context.Context, now time.Time) time.Duration {
	d.drainInbox()
	d.flush(now)
	recorded, known := d.pending(now)
	all := d.buffer.mergeByThread(recorded)
	if known || len(all) > 0 {
		d.o.Metrics.setOldestPending(oldestCreated(all))
	}
	d.pruneThreads(all)
	wake := now.Add(d.o.PollInterval)
	if !d.buffer.empty() || d.outboxRetryAt.After(now) {
		wake = earlier(wake, d.outboxRetryAt)
	}
	for to, best := range d.selectSteps(all, now, &wake) {
		if !d.startStep(ctx, d.channel(to), best, now) {
			wake = earlier(wake, d.outboxRetryAt)
		}
	}
	return max(time.Millisecond, wake.Sub(now))
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// drainInbox moves what was handed over into memory.
func (d *Dispatcher) drainInbox() {
	d.mu.Lock()
	in := d.inbox
	d.inbox = nil
	d.mu.Unlock()
	for _, x := range in {
		_, there := d.buffer.deliveries[x.Key()]
		switch {
		case there: // handed over twice
		case d.buffer.full():
			d.o.Metrics.count(x.Destination, ResultLost)
			d.o.Log.Error("a page could not be recorded, and memory is full", "incident", x.Incident)
		default:
			d.buffer.add(Changes{Add: []Delivery{x}})
		}
	}
}

// selectSteps returns the best step of each lane that is free, and lowers wake to when
// the next one will be due.
func (d *Dispatcher) selectSteps(all map[threadKey][]Delivery, now time.Time, wake *time.Time) map[Destination]step {
	best := make(map[Destination]step)
	for at, ds := range all {
		l := d.channel(at.destination)
		if l.busy {
			continue // its end begins a round
		}
		for _, s := range nextSteps(ds, d.threadRef(at, now)) {
			due := s.dueAt(d.o.LookupDelay)
			if free := l.availableAt(s); free.After(due) {
				due = free
			}
			if due.After(now) {
				*wake = earlier(*wake, due)
				continue
			}
			if b, ok := best[at.destination]; !ok || s.precedes(b) {
				best[at.destination] = s
			}
			break
		}
	}
	return best
}

// startStep claims a step and starts it. It returns false if the claim could not be
// recorded, and the step can wait.
func (d *Dispatcher) startStep(ctx context.Context, l *channel, s step, now time.Time) bool {
	if !s.lookup {
		s.delivery.Notification.Late = now.Sub(s.delivery.Created) > d.o.LateAfter
		s.delivery.State, s.delivery.Attempts, s.delivery.LastAttempt, s.delivery.Reason = Sending, s.delivery.Attempts+1, now, ""
		for i := range s.added {
			s.added[i].ID = d.o.NewID()
		}
		c := Changes{Add: s.added, Update: append(s.dropped, s.delivery)}
		if !d.claim(s, c, now) {
			return false
		}
		for _, x := range s.dropped {
			d.o.Metrics.count(x.Destination, ResultDropped)
		}
	}
	l.reserve(s, now, d.o)
	l.busy, l.thread = true, s.delivery.threadKey()
	go d.runStep(ctx, s)
	return true
}

// claim records that a step is being sent. What is urgent is sent even if that
// fails, as long as memory can hold it.
func (d *Dispatcher) claim(s step, c Changes, now time.Time) bool {
	if _, held := d.buffer.deliveries[s.delivery.Key()]; !held && d.save(c, now) {
		return true
	} else if !held && (!urgent(s.delivery) || d.buffer.full()) {
		return false
	}
	d.buffer.add(c)
	return true
}

// runStep runs beside the deliverer's goroutine and reports to it.
func (d *Dispatcher) runStep(ctx context.Context, s step) {
	ctx, cancel := context.WithTimeout(ctx, d.o.SendTimeout)
	defer cancel()
	r := stepResult{step: s}
	defer func() {
		if p := recover(); p != nil {
			// What it was may hold what was to be sent: it is not told.
			r = stepResult{step: s, send: SendResult{Outcome: Malformed, Reason: "the sender panicked"}, err: ErrLookupUnavailable}
			d.o.Log.Error("a sender panicked", "destination", s.delivery.Destination, "delivery", s.delivery.ID)
		}
		d.results <- r
	}()
	sender := d.o.Notifiers[s.delivery.Destination]
	switch {
	case sender == nil && s.lookup:
		r.err = ErrLookupUnavailable
	case sender == nil:
		r.send = SendResult{Outcome: PermanentFailure, Reason: errNoNotifier.Error()}
	case s.lookup:
		r.ref, r.found, r.err = sender.Lookup(ctx, s.delivery, s.root)
	default:
		r.send = sender.Send(ctx, s.delivery, s.root, s.delivery.PlainText)
	}
}

// handleResult records what a step has come to.
func (d *Dispatcher) handleResult(r stepResult) {
	now := time.Now()
	l := d.channel(r.step.delivery.Destination)
	l.busy = false
	var res decision
	if r.step.lookup {
		res = d.rules.applyLookup(r.step, r.ref, r.found, r.err, now)
	} else {
		res = d.rules.applySend(r.step, r.send, now)
	}
	if res.channelHold > 0 { // the receiver speaks for the whole channel
		l.heldUntil = now.Add(res.channelHold)
	}
	for _, root := range res.changes.Threads {
		d.threads[threadKey{root.Incident, root.Destination}] = root.Ref
	}
	// What memory holds is newer than the record: it is saved whole, or later.
	held := !d.buffer.empty()
	if held || !d.save(res.changes, now) {
		d.buffer.add(res.changes)
	}
	d.o.Metrics.count(r.step.delivery.Destination, res.result)
	d.logResult(r.step, res)
}

func (d *Dispatcher) logResult(s step, res decision) {
	last := res.changes.Update[0]
	log := d.o.Log.With("incident", last.Incident, "seq", last.Seq, "kind", last.Kind, "destination", last.Destination)
	switch res.result {
	case ResultSent:
		log.Debug("delivered", "attempts", last.Attempts)
	case ResultDead:
		log.Error("will not be delivered there", "reason", last.Reason)
	default:
		log.Warn("not delivered yet", "result", res.result, "reason", last.Reason, "attempts", last.Attempts)
	}
	if res.undeliverable != nil {
		d.o.OnUndeliverable(*res.undeliverable)
	}
}

// save writes changes, unless the outbox has failed just before.
func (d *Dispatcher) save(c Changes, now time.Time) bool {
	if c.Empty() {
		return true
	}
	return d.callOutbox("save", now, func(ctx context.Context) error { return d.o.Outbox.Save(ctx, c) })
}

// flush records what is held in memory.
func (d *Dispatcher) flush(now time.Time) {
	if !d.buffer.empty() && d.save(d.buffer.changes(), now) {
		d.o.Log.Info("what was held in memory has been recorded", "count", len(d.buffer.deliveries))
		d.buffer.clear()
	}
}

// pending reads the outbox. While that fails, what was read last is no guide:
// only memory counts.
func (d *Dispatcher) pending(now time.Time) (ds []Delivery, ok bool) {
	ok = d.callOutbox("pending", now, func(ctx context.Context) (err error) {
		ds, err = d.o.Outbox.Pending(ctx, d.o.MaxPending)
		return err
	})
	return ds, ok
}

// threadRef says where a stream's message stands. If that cannot be read, it stands
// nowhere: a second message is better than none.
func (d *Dispatcher) threadRef(at threadKey, now time.Time) Ref {
	if ref, ok := d.buffer.threads[at]; ok {
		return ref
	}
	if ref, ok := d.threads[at]; ok {
		return ref
	}
	var ref Ref
	if d.callOutbox("root", now, func(ctx context.Context) (err error) {
		ref, err = d.o.Outbox.Thread(ctx, at.incident, at.destination)
		return err
	}) {
		d.threads[at] = ref
	}
	return ref
}

// callOutbox calls the outbox within its time, and leaves it alone for a while after an
// error.
func (d *Dispatcher) callOutbox(op string, now time.Time, f func(context.Context) error) bool {
	if now.Before(d.outboxRetryAt) {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), d.o.OutboxTimeout)
	defer cancel()
	err := f(ctx)
	if err == nil {
		return true
	}
	d.o.Metrics.outboxErrors.WithLabelValues(op).Inc()
	d.o.Log.Error("the outbox failed", "op", op, "err", err)
	d.outboxRetryAt = time.Now().Add(d.o.OutboxRetry)
	return false
}

// pruneThreads keeps the cache of roots as small as what is pending.
func (d *Dispatcher) pruneThreads(all map[threadKey][]Delivery) {
	for at := range d.threads {
		if _, pending := all[at]; !pending && !d.channel(at.destination).busy {
			delete(d.threads, at)
		}
	}
}

func (d *Dispatcher) channel(to Destination) *channel {
	l := d.channels[to]
	if l == nil {
		l = &channel{}
		d.channels[to] = l
	}
	return l
}

// saveBuffer holds what could not be recorded yet. What it says of a delivery or a
// root counts, whatever the outbox says. Only the deliverer's goroutine uses it.
type saveBuffer struct {
	limit      int
	deliveries map[Key]Delivery
	threads    map[threadKey]Ref
}

func newSaveBuffer(limit int) *saveBuffer {
	return &saveBuffer{limit: limit, deliveries: make(map[Key]Delivery), threads: make(map[threadKey]Ref)}
}

func (m *saveBuffer) empty() bool { return len(m.deliveries) == 0 && len(m.threads) == 0 }

func (m *saveBuffer) full() bool { return len(m.deliveries) >= m.limit }

// add keeps changes that could not be saved. It knows no limit: they are results
// of what was accepted within it.
func (m *saveBuffer) add(c Changes) {
	for _, d := range c.Add {
		if _, there := m.deliveries[d.Key()]; !there {
			m.deliveries[d.Key()] = d
		}
	}
	for _, d := range c.Update {
		m.deliveries[d.Key()] = d
	}
	for _, r := range c.Threads {
		m.threads[threadKey{r.Incident, r.Destination}] = r.Ref
	}
}

// changes returns all of it, to be saved.
func (m *saveBuffer) changes() Changes {
	c := Changes{Update: slices.Collect(maps.Values(m.deliveries))}
	for s, ref := range m.threads {
		c.Threads = append(c.Threads, Thread{Incident: s.incident, Destination: s.destination, Ref: ref})
	}
	return c
}

func (m *saveBuffer) clear() {
	clear(m.deliveries)
	clear(m.threads)
}

// mergeByThread lays the memory over what the outbox has returned, and sorts both into
// streams.
func (m *saveBuffer) mergeByThread(recorded []Delivery) map[threadKey][]Delivery {
	all := make(map[threadKey][]Delivery)
	for _, d := range recorded {
		if _, newer := m.deliveries[d.Key()]; !newer {
			all[d.threadKey()] = append(all[d.threadKey()], d)
		}
	}
	for _, d := range m.deliveries {
		if d.State.Pending() {
			all[d.threadKey()] = append(all[d.threadKey()], d)
		}
	}
	return all
}

// oldestCreated returns when the oldest of them was created; zero if there are none.
func oldestCreated(all map[threadKey][]Delivery) time.Time {
	var t time.Time
	for _, ds := range all {
		for _, d := range ds {
			if t.IsZero() || d.Created.Before(t) {
				t = d.Created
			}
		}
	}
	return t
}
