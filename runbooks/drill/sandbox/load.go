package sandbox

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"headgate/internal/lifecycle"
	"headgate/internal/loadgen"
	"headgate/runbooks/drill"
)

// recoveryTail is how much longer than the recovery limit load is sent, in scenario time, so that the recovery can be
// observed up to its limit.
const recoveryTail = 2 * time.Minute

// maxSendLag is how much later than intended tasks may be sent, on the wall clock, at the 99th percentile. It is more
// than the generator's own limit: a twin shares its machine with production, and turnaround counts from the intended
// arrival.
const maxSendLag = 200 * time.Millisecond

// generatedLoad sends the tasks of a run and records how they end.
type generatedLoad struct {
	clock    *scenarioClock
	arrivals loadgen.Arrivals
	baseline time.Duration // of scenario time, from the first arrival to zero
	stream   bool
	slo      time.Duration

	stalls stallDetector

	mu       sync.Mutex
	task     *lifecycle.Task // ends when nothing is outstanding; nil before start
	stopped  bool
	entries  []taskEntry // by index
	err      error       // why the load ended early
	finished bool
}

// taskEntry is what is known of an arrival.
type taskEntry struct {
	sent   time.Time
	result loadgen.Result
	ended  bool
	bytes  int64
	sum    uint64
	hasSum bool
	clean  bool // the body came to its end
}

// newGeneratedLoad computes all arrivals: baseline, scenario and recovery.
func newGeneratedLoad(s drill.Spec, slo time.Duration, clock *scenarioClock) (*generatedLoad, error) {
	c := s.Scenario
	p := loadgen.Profile{
		Duration: c.Baseline + c.Duration, BaseRate: c.Arrivals.Rate, LargeShare: c.Arrivals.LargeShare,
		Small: loadgen.SmallShape(), Large: loadgen.LargeShape(), Poisson: true, Seed: c.Seed,
	}
	for _, b := range c.Arrivals.Bursts {
		p.Bursts = append(p.Bursts, loadgen.Burst{From: c.Baseline + b.From, To: c.Baseline + b.To, Multiple: b.Multiple})
	}
	if c.Arrivals.Rest > 0 {
		from := p.Duration
		p.Duration += s.Recovery + recoveryTail
		p.Bursts = append(p.Bursts, loadgen.Burst{From: from, To: p.Duration, Multiple: c.Arrivals.Rest / c.Arrivals.Rate})
	}
	arrivals, err := p.Arrivals()
	if err != nil {
		return nil, err
	}
	return &generatedLoad{
		clock: clock, arrivals: arrivals, baseline: c.Baseline, stream: c.Arrivals.Stream, slo: slo,
		entries: make([]taskEntry, len(arrivals)),
	}, nil
}

// start sends the load to a data plane, in the background, and returns when the first task may go. The clock runs from
// then on.
func (l *generatedLoad) start(address string) time.Time {
	begun := make(chan struct{})
	l.mu.Lock()
	if l.stopped {
		l.mu.Unlock()
		return time.Now()
	}
	task := lifecycle.Go(func(ctx context.Context) {
		ctx, cancel := context.WithCancel(ctx)
		var detector sync.WaitGroup
		detector.Go(func() { l.stalls.watch(ctx, l.clock) })
		err := l.send(ctx, address, begun)
		cancel()
		detector.Wait()
		l.mu.Lock()
		defer l.mu.Unlock()
		l.finished, l.err = true, err
	})
	l.task = task
	l.mu.Unlock()
	select {
	case <-begun:
	case <-task.Done(): // it failed at once, which the evidence says
	}
	if zero := l.clock.zero.Load(); zero != nil {
		return *zero
	}
	return time.Now()
}

// send sends all tasks; begun is closed when the first may go.
func (l *generatedLoad) send(ctx context.Context, address string, begun chan<- struct{}) error {
	most := max(len(l.arrivals), 1)
	transport := &http.Transport{MaxIdleConnsPerHost: most, DisableCompression: true}
	defer transport.CloseIdleConnections()
	_, err := loadgen.Run(ctx, loadgen.Config{
		URL: "http://" + address + "/v1", Stream: l.stream, Speed: l.clock.speed, SLO: l.slo,
		MaxOutstanding: most, HeaderFor: l.headerFor, Observe: l.recordResult,
		// Each task asks for something else, so that the answer of another does not pass for its own.
		User: func(i int) string { return "drill-" + strconv.Itoa(i) },
		Client: &http.Client{Transport: roundTripperFunc(func(r *http.Request) (*http.Response, error) {
			res, err := transport.RoundTrip(r)
			if err != nil {
				return nil, err
			}
			i := headerIndex(r.Header, taskHeader)
			res.Body = countBody(res.Body, func(n int64, sum uint64, complete bool) { l.recordBody(i, n, sum, complete) })
			return res, nil
		})},
	}, func(yield func(loadgen.Arrival) bool) {
		// The generator's clock starts when it first reads its source.
		zero := time.Now().Add(l.clock.wall(l.baseline))
		l.clock.zero.Store(&zero)
		close(begun)
		l.arrivals.Source()(yield)
	})
	return err
}

func (l *generatedLoad) headerFor(i int) http.Header {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries[i].sent = now
	return http.Header{taskHeader: {strconv.Itoa(i)}}
}

func (l *generatedLoad) recordResult(r loadgen.Result) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := &l.entries[r.Index]
	e.result, e.ended = r, true
}

func (l *generatedLoad) recordBody(i int, n int64, sum uint64, complete bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i >= 0 && i < len(l.entries) {
		e := &l.entries[i]
		e.bytes, e.sum, e.hasSum, e.clean = n, sum, true, complete
	}
}

// stop sends nothing more, cuts what is outstanding and waits for that. It may come before or during start, which then
// sends nothing.
func (l *generatedLoad) stop(ctx context.Context) error {
	l.mu.Lock()
	l.stopped = true
	task := l.task
	l.mu.Unlock()
	return task.Stop(ctx)
}

// addTo adds the tasks up to e.At.
func (l *generatedLoad) addTo(e *drill.Evidence) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var lags []time.Duration
	unsent := 0
	for i, a := range l.arrivals {
		due := a.At - l.baseline
		if due > e.At {
			break
		}
		e.Planned++
		entry := l.entries[i]
		if entry.sent.IsZero() && !entry.ended {
			continue
		}
		t := l.taskOf(i, due, entry)
		e.Tasks = append(e.Tasks, t)
		if t.Outcome == drill.Unsent {
			unsent++
			continue
		}
		lags = append(lags, t.Sent-t.Due)
	}
	e.LoadEnded = l.finished || len(l.arrivals) == 0 || e.At > l.arrivals[len(l.arrivals)-1].At-l.baseline
	e.Stalls = l.stalls.snapshot()
	e.KeptRate, e.RateNote = l.keptRate(lags, unsent)
	if l.err != nil {
		e.StaleReason = "the load ended early: " + l.err.Error()
	}
}

func (l *generatedLoad) taskOf(i int, due time.Duration, e taskEntry) drill.Task {
	t := drill.Task{ID: i, Due: due, Sent: l.clock.at(e.sent)}
	if !e.ended {
		return t
	}
	r := e.result
	t.Ended, t.Outcome, t.Status, t.Bytes = r.End-l.baseline, taskEnd(r), r.Status, r.Bytes
	t.Reason, t.RetryAfter, t.ConnError = r.Reason, r.RetryAfter.Raw, r.ErrorDetail
	if e.hasSum && e.bytes == r.Bytes {
		t.Checksum = e.sum
	}
	if r.FirstByte > 0 {
		t.FirstByte = r.FirstByte - l.baseline
	}
	t.CleanEOF = e.clean && (r.Outcome == loadgen.OK || r.Outcome == loadgen.Truncated)
	return t
}

// taskOutcomes are the outcomes of tasks that did not fail; others are unsent.
var taskOutcomes = map[loadgen.Outcome]drill.TaskOutcome{
	loadgen.OK: drill.Served, loadgen.Refused: drill.Refused, loadgen.Truncated: drill.Broken,
}

// taskEnd is the outcome of a task.
func taskEnd(r loadgen.Result) drill.TaskOutcome {
	switch {
	case r.Outcome != loadgen.Failed:
		return cmp.Or(taskOutcomes[r.Outcome], drill.Unsent)
	case r.Cause == loadgen.Timeout:
		return drill.TimedOut
	case r.Status >= 200 && r.Status < 300:
		return drill.Broken
	}
	return drill.Errored
}

// keptRate says whether the generator sent all tasks, and in time.
func (l *generatedLoad) keptRate(lags []time.Duration, unsent int) (kept bool, note string) {
	switch {
	case unsent > 0:
		return false, strconv.Itoa(unsent) + " tasks were not sent"
	case len(lags) == 0:
		return true, ""
	}
	if wall := l.clock.wall(loadgen.Quantile(lags, 0.99)); wall > maxSendLag {
		return false, fmt.Sprintf("1 in 100 tasks was sent %v late or more: the machine is too busy for this speed",
			wall.Round(time.Millisecond))
	}
	return true, ""
}

// A machine that is too busy is noticed by a goroutine that sleeps for stallTick: when it wakes more than
// stallThreshold late, the others could not work either.
const (
	stallTick      = 20 * time.Millisecond
	stallThreshold = 250 * time.Millisecond
	maxStalls      = 1000
)

// stallDetector records times at which the machine let nothing run. It is safe for concurrent use.
type stallDetector struct {
	mu  sync.Mutex
	all []drill.Stall
}

// watch records stalls until ctx ends.
func (l *stallDetector) watch(ctx context.Context, clock *scenarioClock) {
	tick := time.NewTicker(stallTick)
	defer tick.Stop()
	last := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			now := time.Now()
			l.record(clock.at(last), now.Sub(last)-stallTick)
			last = now
		}
	}
}

func (l *stallDetector) record(at, took time.Duration) {
	if took < stallThreshold {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.all) < maxStalls {
		l.all = append(l.all, drill.Stall{At: at, Took: took})
	}
}

func (l *stallDetector) snapshot() []drill.Stall {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.all)
}
