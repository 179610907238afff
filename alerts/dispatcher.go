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

// Limits and durations of a Dispatcher.
const (
	postInterval  = time.Second             // between two posts in a channel
	editInterval  = 1250 * time.Millisecond // between two edits or look-ups there
	pollInterval  = 5 * time.Second         // longest time between two reads of the outbox
	sendTimeout   = 15 * time.Second        // of one attempt
	outboxTimeout = 3 * time.Second         // of one call of the outbox
	outboxRetry   = time.Second             // pause after an error of the outbox
	lookupDelay   = 2 * time.Second         // before a look-up of an ambiguous attempt
	lateAfter     = time.Minute             // a message sent this long after its event is marked late
	abortGrace    = time.Second             // that aborted attempts have to return

	maxPending    = 1000 // deliveries read in one round
	maxUnrecorded = 256  // deliveries buffered while the outbox fails
)

// Options configure a Dispatcher. All are required, except Random.
type Options struct {
	Outbox    Outbox
	Notifiers map[Destination]Notifier // one for each of Routes.Destinations
	Routes    Routes
	Metrics   *Metrics
	Log       *slog.Logger
	NewID     func() string  // returns a UUIDv7, for a delivery to the fallback
	Random    func() float64 // returns numbers from [0, 1), which spread retries; nil: the runtime's
}

func (o Options) validate() error {
	if o.Outbox == nil || o.Metrics == nil || o.Log == nil || o.NewID == nil {
		return errors.New("a dispatcher needs an outbox, metrics, a log and a source of IDs")
	}
	for _, to := range o.Routes.Destinations() {
		if o.Notifiers[to] == nil {
			return fmt.Errorf("no notifier configured for destination %q", to)
		}
	}
	return nil
}

// Dispatcher sends what is in the outbox until it is known to have arrived. One goroutine makes all decisions and calls
// the outbox; attempts run beside it, one at a time for each destination. Its methods may be called from any goroutine.
type Dispatcher struct {
	o Options

	wake    chan struct{}
	stop    chan struct{}
	done    chan struct{}
	results chan stepResult

	mu      sync.Mutex
	inbox   []Delivery // unrecorded deliveries that the goroutine has not taken yet
	started bool
	stopCtx context.Context // of Stop
	stopErr error           // of Stop

	// The following belong to the dispatcher's goroutine.
	buffer        *saveBuffer
	channels      map[Destination]*channel
	threads       map[threadKey]Ref // cache of what is pending
	outboxRetryAt time.Time         // earliest next call of an outbox that failed
}

// stepResult is the result of an attempt or a look-up.
type stepResult struct {
	step  step
	send  SendResult
	ref   Ref
	found bool
	err   error
}

// New returns a Dispatcher that is not running yet.
func New(o Options) (*Dispatcher, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	if o.Random == nil {
		o.Random = rand.Float64
	}
	return &Dispatcher{
		o:    o,
		wake: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}),
		results:  make(chan stepResult, 8),
		buffer:   &saveBuffer{deliveries: make(map[Key]Delivery), threads: make(map[threadKey]Ref)},
		channels: make(map[Destination]*channel), threads: make(map[threadKey]Ref),
	}, nil
}

// Start begins to send. Further calls do nothing.
func (d *Dispatcher) Start() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.started {
		return
	}
	d.started = true
	go d.run()
}

// Wake announces that the outbox may hold something new. It does not block. A nil Dispatcher does nothing.
func (d *Dispatcher) Wake() {
	if d == nil {
		return
	}
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// SubmitUnrecorded takes over deliveries that could not be recorded. Urgent ones go out at once, marked as unrecorded,
// and are recorded when the outbox works again. It returns how many it took: the others are not urgent, or do not fit
// the buffer (which is counted), and are sent once their event has been recorded. It does not block. A nil Dispatcher takes
// none.
func (d *Dispatcher) SubmitUnrecorded(ds []Delivery) int {
	if d == nil {
		return 0
	}
	d.mu.Lock()
	taken := 0
	for _, x := range ds {
		if !x.State.Pending() || !x.urgent() {
			continue
		}
		if len(d.inbox) >= maxUnrecorded {
			d.o.Metrics.count(x.Destination, resultLost)
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

// urgent deliveries go out even if that cannot be recorded: pings, notices, and missing signals, which may be the only
// sign of trouble.
func (d Delivery) urgent() bool {
	missing := d.Notification.Incident.Key.Rule == engine.SignalMissing
	return d.Notification.Ping || d.IsNotice() || missing && d.Kind != Edit
}

// Stop ends sending. It waits for attempts in flight until ctx ends, then aborts them, and records what is known. The
// error says what could not be recorded. It may be called more than once.
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

// shutdown waits for attempts, then aborts them, then saves what is left.
func (d *Dispatcher) shutdown(abort context.CancelFunc) {
	d.mu.Lock()
	limit := d.stopCtx
	d.mu.Unlock()
	d.waitInFlight(limit.Done())
	abort()
	grace, cancel := context.WithTimeout(context.Background(), abortGrace)
	defer cancel()
	d.waitInFlight(grace.Done())
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

// waitInFlight handles results until no attempt is in flight or enough is closed.
func (d *Dispatcher) waitInFlight(enough <-chan struct{}) {
	for slices.ContainsFunc(slices.Collect(maps.Values(d.channels)), func(c *channel) bool { return c.busy }) {
		select {
		case r := <-d.results:
			d.handleResult(r)
		case <-enough:
			return
		}
	}
}

// dispatch starts what can be started now, and returns when it has to be called again unless something happens before.
func (d *Dispatcher) dispatch(ctx context.Context, now time.Time) time.Duration {
	d.drainInbox()
	d.flush(now)
	recorded, known := d.pending(now)
	all := d.buffer.mergeByThread(recorded)
	if known || len(all) > 0 {
		d.o.Metrics.setOldestPending(all)
	}
	for at := range d.threads { // the cache holds no more than what is pending or in flight
		if _, pending := all[at]; !pending && !d.channel(at.destination).busy {
			delete(d.threads, at)
		}
	}
	wake := now.Add(pollInterval)
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

// drainInbox moves submitted deliveries into the buffer.
func (d *Dispatcher) drainInbox() {
	d.mu.Lock()
	in := d.inbox
	d.inbox = nil
	d.mu.Unlock()
	for _, x := range in {
		_, there := d.buffer.deliveries[x.Key()]
		switch {
		case there: // submitted twice
		case d.buffer.full():
			d.o.Metrics.count(x.Destination, resultLost)
			d.o.Log.Error("unrecorded buffer full, delivery dropped", "incident", x.Incident)
		default:
			d.buffer.add(Changes{Add: []Delivery{x}})
		}
	}
}

// selectSteps returns the best step of each free channel, and lowers wake to the due time of the next one.
func (d *Dispatcher) selectSteps(all map[threadKey][]Delivery, now time.Time, wake *time.Time) map[Destination]step {
	best := make(map[Destination]step)
	for at, ds := range all {
		c := d.channel(at.destination)
		if c.busy {
			continue // its result starts another round
		}
		for _, s := range nextSteps(ds, d.threadRef(at, now)) {
			due := s.dueAt()
			if free := c.availableAt(s); free.After(due) {
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

// startStep claims a step and starts it. It returns false if the claim could not be recorded and the step can wait.
func (d *Dispatcher) startStep(ctx context.Context, c *channel, s step, now time.Time) bool {
	if !s.lookup {
		x := &s.delivery
		x.Notification.Late = now.Sub(x.Created) > lateAfter
		x.State, x.Attempts, x.LastAttempt, x.Reason = Sending, x.Attempts+1, now, ""
		for i := range s.added {
			s.added[i].ID = d.o.NewID()
		}
		if !d.claim(s, Changes{Add: s.added, Update: append(s.dropped, *x)}, now) {
			return false
		}
		for _, x := range s.dropped {
			d.o.Metrics.count(x.Destination, Dropped)
		}
	}
	c.reserve(s, now)
	c.busy = true
	go d.runStep(ctx, s)
	return true
}

// claim records that a step is being sent. An urgent delivery is sent even if that fails, as long as the buffer can
// hold it.
func (d *Dispatcher) claim(s step, c Changes, now time.Time) bool {
	_, buffered := d.buffer.deliveries[s.delivery.Key()]
	switch {
	case buffered:
	case d.save(c, now):
		return true
	case !s.delivery.urgent() || d.buffer.full():
		return false
	}
	d.buffer.add(c)
	return true
}

// runStep runs beside the dispatcher's goroutine and reports to it.
func (d *Dispatcher) runStep(ctx context.Context, s step) {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	r := stepResult{step: s}
	defer func() {
		if p := recover(); p != nil {
			// The panic's value may hold what was to be sent, so it is not logged.
			send := SendResult{Outcome: Malformed, Reason: "the notifier panicked"}
			r = stepResult{step: s, send: send, err: ErrLookupUnavailable}
			d.o.Log.Error("notifier panicked", "destination", s.delivery.Destination, "delivery", s.delivery.ID)
		}
		d.results <- r
	}()
	notifier := d.o.Notifiers[s.delivery.Destination]
	switch {
	case notifier == nil: // a destination of earlier settings
		r.send = SendResult{Outcome: PermanentFailure, Reason: "no notifier configured for destination"}
		r.err = ErrLookupUnavailable
	case s.lookup:
		r.ref, r.found, r.err = notifier.Lookup(ctx, s.delivery, s.thread)
	default:
		r.send = notifier.Send(ctx, s.delivery, s.thread, s.delivery.PlainText)
	}
}

// handleResult records the result of a step.
func (d *Dispatcher) handleResult(r stepResult) {
	now := time.Now()
	c := d.channels[r.step.delivery.Destination]
	c.busy = false
	var res decision
	if r.step.lookup {
		res = d.o.applyLookup(r.step, r.ref, r.found, r.err, now)
	} else {
		res = d.o.applySend(r.step, r.send, now)
	}
	if res.channelHold > 0 {
		c.heldUntil = now.Add(res.channelHold)
	}
	for _, t := range res.changes.Threads {
		d.threads[threadKey{t.Incident, t.Destination}] = t.Ref
	}
	// The buffer is newer than the record: it is saved as a whole, or later.
	if !d.buffer.empty() || !d.save(res.changes, now) {
		d.buffer.add(res.changes)
	}
	d.report(res.changes.Update[0])
}

// report counts and logs the new state of a delivery.
func (d *Dispatcher) report(x Delivery) {
	d.o.Metrics.count(x.Destination, x.State)
	log := d.o.Log.With("incident", x.Incident, "seq", x.Seq, "kind", x.Kind, "destination", x.Destination, "attempts", x.Attempts)
	switch x.State {
	case Sent:
		log.Debug("delivered")
	case Dead:
		log.Error("delivery permanently failed", "reason", x.Reason)
	default:
		log.Warn("delivery attempt failed", "result", x.State, "reason", x.Reason)
	}
}

// save writes changes, unless the outbox failed just before.
func (d *Dispatcher) save(c Changes, now time.Time) bool {
	if c.Empty() {
		return true
	}
	return d.callOutbox("save", now, func(ctx context.Context) error { return d.o.Outbox.Save(ctx, c) })
}

// flush records what is buffered.
func (d *Dispatcher) flush(now time.Time) {
	if !d.buffer.empty() && d.save(d.buffer.changes(), now) {
		d.o.Log.Info("buffered deliveries recorded", "count", len(d.buffer.deliveries))
		d.buffer.clear()
	}
}

// pending reads the outbox. While that fails, only the buffer counts: what was read before may be outdated.
func (d *Dispatcher) pending(now time.Time) (ds []Delivery, ok bool) {
	ok = d.callOutbox("pending", now, func(ctx context.Context) (err error) {
		ds, err = d.o.Outbox.Pending(ctx, maxPending)
		return err
	})
	return ds, ok
}

func (d *Dispatcher) channel(to Destination) *channel {
	c := d.channels[to]
	if c == nil {
		c = &channel{}
		d.channels[to] = c
	}
	return c
}

// threadRef returns the reference of a thread's message. If that cannot be read, it returns the zero Ref: a second
// message is better than none.
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

// callOutbox calls the outbox within its time limit. After an error it skips all calls until outboxRetry has passed.
func (d *Dispatcher) callOutbox(op string, now time.Time, f func(context.Context) error) bool {
	if now.Before(d.outboxRetryAt) {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), outboxTimeout)
	defer cancel()
	err := f(ctx)
	if err == nil {
		return true
	}
	d.o.Metrics.outboxErrors.WithLabelValues(op).Inc()
	d.o.Log.Error("outbox error", "op", op, "error", err)
	d.outboxRetryAt = time.Now().Add(outboxRetry)
	return false
}

// saveBuffer holds what could not be recorded yet. Its version of a delivery or a thread takes precedence over the
// outbox's. Only the dispatcher's goroutine uses it.
type saveBuffer struct {
	deliveries map[Key]Delivery
	threads    map[threadKey]Ref
}

func (b *saveBuffer) empty() bool { return len(b.deliveries) == 0 && len(b.threads) == 0 }

func (b *saveBuffer) full() bool { return len(b.deliveries) >= maxUnrecorded }

// add keeps changes that could not be saved. It has no limit: they follow from deliveries that were accepted within it.
func (b *saveBuffer) add(c Changes) {
	for _, d := range c.Add {
		if _, there := b.deliveries[d.Key()]; !there {
			b.deliveries[d.Key()] = d
		}
	}
	for _, d := range c.Update {
		b.deliveries[d.Key()] = d
	}
	for _, t := range c.Threads {
		b.threads[threadKey{t.Incident, t.Destination}] = t.Ref
	}
}

// changes returns everything, to be saved.
func (b *saveBuffer) changes() Changes {
	c := Changes{Update: slices.Collect(maps.Values(b.deliveries))}
	for at, ref := range b.threads {
		c.Threads = append(c.Threads, Thread{Incident: at.incident, Destination: at.destination, Ref: ref})
	}
	return c
}

func (b *saveBuffer) clear() {
	clear(b.deliveries)
	clear(b.threads)
}

// mergeByThread groups what is pending by thread. Buffered deliveries replace recorded ones.
func (b *saveBuffer) mergeByThread(recorded []Delivery) map[threadKey][]Delivery {
	all := make(map[threadKey][]Delivery)
	for _, d := range recorded {
		if _, newer := b.deliveries[d.Key()]; !newer {
			all[d.threadKey()] = append(all[d.threadKey()], d)
		}
	}
	for _, d := range b.deliveries {
		if d.State.Pending() {
			all[d.threadKey()] = append(all[d.threadKey()], d)
		}
	}
	return all
}
