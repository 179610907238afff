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
	l := &loop{
		send:    send,
		slots:   make(chan struct{}, cfg.MaxOutstanding),
		results: make(chan Result, 1024),
	}
	tallied := make(chan *tally, 1)
	go func() { tallied <- gather(cfg, l.results) }()
	err = l.play(ctx, src)
	l.finish()
	cancelled := ctx.Err() != nil
	if cancelled {
		err = fmt.Errorf("load ended early: %w", context.Cause(ctx))
	}
	t := <-tallied
	t.peak = l.peak
	return t.report(cancelled), err
}

// loop sends arrivals at their times. It belongs to one goroutine, which never
// waits for anything but the clock and its source.
type loop struct {
	send    *sender
	slots   chan struct{} // one taken by each outstanding arrival
	results chan Result
	wg      sync.WaitGroup
	peak    int
	drops   []Result // not yet taken by the collector
}

func (l *loop) play(ctx context.Context, src Source) error {
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
		if !pause(ctx, l.send.clock.until(a.At)) {
			return nil // Run sees that the context has ended
		}
		l.arrive(ctx, index, a)
	}
}

// arrive sends one arrival, or drops it when too many are outstanding.
func (l *loop) arrive(ctx context.Context, index int, a Arrival) {
	defer l.flush()
	select {
	case l.slots <- struct{}{}:
	default:
		l.drops = append(l.drops, Result{
			Index: index, Large: a.Large, Intended: a.At, End: l.send.clock.now(), Outcome: Dropped,
		})
		return
	}
	l.peak = max(l.peak, len(l.slots))
	l.wg.Go(func() {
		defer func() { <-l.slots }()
		l.results <- l.send.play(ctx, index, a)
	})
}

// flush hands over drops without ever waiting for the collector, which may be
// held up by a slow observer.
func (l *loop) flush() {
	for len(l.drops) > 0 {
		select {
		case l.results <- l.drops[0]:
			l.drops = l.drops[1:]
		default:
			return
		}
	}
}

// finish waits for what is outstanding and lets the collector end.
func (l *loop) finish() {
	l.wg.Wait()
	for _, r := range l.drops {
		l.results <- r
	}
	close(l.results)
}
