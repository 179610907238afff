package loadgen

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"time"
)

// Run sends the arrivals of src, each at its intended time independently of the
// others, waits until all have ended, and returns a report.
//
// When ctx ends, Run stops sending, cancels outstanding arrivals, and returns the
// report of the part that was played together with an error that wraps the
// context's cause. An invalid Config gives an error and no report. Run leaves no
// goroutine behind.
func Run(ctx context.Context, cfg Config, src iter.Seq[Arrival]) (*Report, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("load generator: %w", err)
	}
	send, err := newSender(cfg)
	if err != nil {
		return nil, fmt.Errorf("load generator: %w", err)
	}
	defer send.close()
	send.clock = clock{start: time.Now(), speed: cfg.Speed}
	l := &generator{
		sender:  send,
		slots:   make(chan struct{}, cfg.MaxOutstanding),
		results: make(chan Result, 1024),
	}
	tallied := make(chan *aggregator, 1)
	go func() { tallied <- aggregate(cfg, l.results) }()
	l.run(ctx, src)
	l.finish()
	report := (<-tallied).report(ctx.Err() != nil)
	if report.Cancelled {
		return report, fmt.Errorf("load ended early: %w", context.Cause(ctx))
	}
	return report, nil
}

// generator sends arrivals at their times. It belongs to one goroutine, which waits
// for nothing but the clock and the source.
type generator struct {
	sender       *sender
	slots        chan struct{} // one taken by each outstanding arrival
	results      chan Result
	wg           sync.WaitGroup
	pendingDrops []Result // not yet passed to the aggregator
}

func (l *generator) run(ctx context.Context, src iter.Seq[Arrival]) {
	index := 0
	for a := range src {
		if !sleep(ctx, l.sender.clock.until(a.At)) {
			return // Run sees that the context has ended
		}
		l.dispatch(ctx, index, a)
		index++
	}
}

// dispatch sends one arrival, or drops it when too many are outstanding.
func (l *generator) dispatch(ctx context.Context, index int, a Arrival) {
	defer l.flush()
	select {
	case l.slots <- struct{}{}:
	default:
		l.pendingDrops = append(l.pendingDrops, Result{
			Index: index, Intended: a.At, End: l.sender.clock.now(), Outcome: Dropped,
		})
		return
	}
	l.wg.Go(func() {
		defer func() { <-l.slots }()
		l.results <- l.sender.send(ctx, index, a)
	})
}

// flush passes drops on without waiting for the aggregator, which a slow observer may
// block.
func (l *generator) flush() {
	for len(l.pendingDrops) > 0 {
		select {
		case l.results <- l.pendingDrops[0]:
			l.pendingDrops = l.pendingDrops[1:]
		default:
			return
		}
	}
}

// finish waits for outstanding arrivals and ends the aggregator.
func (l *generator) finish() {
	l.wg.Wait()
	for _, r := range l.pendingDrops {
		l.results <- r
	}
	close(l.results)
}

// Outcome is how an arrival ended. There is exactly one for each.
type Outcome string

// The outcomes.
const (
	OK        Outcome = "ok"        // 2xx and a whole response
	Refused   Outcome = "refused"   // 429, or 503 with a Headgate-Reason
	Failed    Outcome = "error"     // for the reason in Result.Cause
	Truncated Outcome = "truncated" // 2xx, and then cut short or without its terminal event
	Dropped   Outcome = "dropped"   // never sent: the generator was at MaxOutstanding
	Cancelled Outcome = "cancelled" // the run was ended while it was outstanding
)

// outcomes in the order of reports.
var outcomes = [...]Outcome{OK, Refused, Failed, Truncated, Dropped, Cancelled}

// Cause is the reason for the outcome Failed.
type Cause string

// The causes.
const (
	Timeout    Cause = "timeout"   // no end within Config.Timeout
	Connect    Cause = "connect"   // no connection
	Transport  Cause = "transport" // no response headers, for any other reason
	BadStatus  Cause = "status"    // neither 2xx nor a refusal
	ErrorEvent Cause = "stream"    // the stream carried an error event
	Protocol   Cause = "protocol"  // not as requested: other content type, or compressed
)

// Result describes one arrival that has ended. Times are scenario time from the start.
type Result struct {
	Index     int           // of the arrival in its source, from 0
	Intended  time.Duration // when it should have been sent; latency counts from here
	Sent      time.Duration // when the first attempt began; 0 when dropped
	FirstByte time.Duration // first byte of the last response's body; 0 without one
	End       time.Duration // last byte, or when the outcome was known

	Outcome     Outcome
	Cause       Cause  // when Failed
	ErrorDetail string // why there is no whole response, for people; without the address
	Status      int    // of the last response; 0 without one
	Bytes       int64  // of the last response's body

	Attempts     int // requests sent
	Refusals     int // refused responses among them
	NoReason     int // refused responses without Headgate-Reason
	NoRetryAfter int // refused responses without a valid Retry-After
	Reason       string
	RetryAfter   RetryAfter
	TaskID       string // Headgate-Task-Id
}

// RetryAfter is the header of a refusal. It is wall clock at every speed, as for a
// real client.
type RetryAfter struct {
	Raw   string        // as it came, cut at 128 bytes
	Delay time.Duration // from Retry-After-Ms if valid, else from Retry-After; 0 when not OK
	OK    bool          // Retry-After is a whole number from 1 to 59, the only form all clients honour
}

// Turnaround is from the intended arrival to the end.
func (r Result) Turnaround() time.Duration { return r.End - r.Intended }
