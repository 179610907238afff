package loadgen

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Run sends the arrivals of src, each at its intended time whatever became of
// the others, waits until all have ended, and reports.
//
// When ctx ends, Run sends no more, cuts what is outstanding, and returns the
// report of the part that was played together with an error that wraps the
// context's cause. A source out of order or out of bounds ends the run in the
// same way, except that outstanding arrivals finish. A Config that cannot be
// gives an error and no report. Run leaves no goroutine behind.
func Run(ctx context.Context, cfg Config, src Source) (*Report, error) {
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
	err = l.run(ctx, src)
	l.finish()
	cancelled := ctx.Err() != nil
	if cancelled {
		err = fmt.Errorf("load ended early: %w", context.Cause(ctx))
	}
	t := <-tallied
	t.peak = l.peak
	return t.report(cancelled), err
}

// generator sends arrivals at their times. It belongs to one goroutine, which never
// waits for anything but the clock and its source.
type generator struct {
	sender       *sender
	slots        chan struct{} // one taken by each outstanding arrival
	results      chan Result
	wg           sync.WaitGroup
	peak         int
	pendingDrops []Result // not yet taken by the collector
}

func (l *generator) run(ctx context.Context, src Source) error {
	var last time.Duration
	for index := 0; ; index++ {
		a, ok := src.Next()
		if !ok {
			return nil
		}
		if index == MaxArrivals {
			return fmt.Errorf("load generator: source has more than %d arrivals", MaxArrivals)
		}
		if err := a.check(last); err != nil {
			return fmt.Errorf("load generator: arrival %d: %w", index, err)
		}
		last = a.At
		if !sleep(ctx, l.sender.clock.until(a.At)) {
			return nil // Run sees that the context has ended
		}
		l.dispatch(ctx, index, a)
	}
}

// dispatch sends one arrival, or drops it when too many are outstanding.
func (l *generator) dispatch(ctx context.Context, index int, a Arrival) {
	defer l.flush()
	select {
	case l.slots <- struct{}{}:
	default:
		l.pendingDrops = append(l.pendingDrops, Result{
			Index: index, Large: a.Large, Intended: a.At, End: l.sender.clock.now(), Outcome: Dropped,
		})
		return
	}
	l.peak = max(l.peak, len(l.slots))
	l.wg.Go(func() {
		defer func() { <-l.slots }()
		l.results <- l.sender.send(ctx, index, a)
	})
}

// flush hands over drops without ever waiting for the collector, which may be
// held up by a slow observer.
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

// finish waits for what is outstanding and lets the collector end.
func (l *generator) finish() {
	l.wg.Wait()
	for _, r := range l.pendingDrops {
		l.results <- r
	}
	close(l.results)
}
