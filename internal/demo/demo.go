package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"headgate/internal/loadgen"
	"headgate/web/api"
)

// stopTimeout bounds the shutdown of a demo, on the wall clock.
const stopTimeout = 2 * time.Second

// errDrainLimit ends a load whose backlog takes too long to drain.
var errDrainLimit = errors.New("the backlog took too long")

// Demo is two running sides. Close it.
type Demo struct {
	plan           Plan
	workload       workload
	gated, ungated *instance
	monitor        *alertMonitor // nil without Slack
	alertState     *AlertState   // latest; owned by the goroutine that watches
	settling       bool
	dir            string
	failed         chan error // of a server that stopped unexpectedly
	closeOnce      sync.Once
	closeErr       error
}

// New starts both sides on free loopback addresses, with their data in a temporary
// directory. A failed New leaves nothing behind.
func New(o Options) (*Demo, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	w, err := newWorkload(o)
	if err != nil {
		return nil, err
	}
	d := &Demo{plan: newPlan(o, w), workload: w, failed: make(chan error, 3)}
	if d.dir, err = os.MkdirTemp("", "headgate-demo-"); err != nil {
		return nil, err
	}
	if err := d.start(o); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// start starts the parts. Close stops those that were started.
func (d *Demo) start(o Options) (err error) {
	var slack *slackChannel
	if o.Slack {
		if slack, err = newChannel(d.plan, d.failed); err != nil {
			return err
		}
		d.monitor = &alertMonitor{channel: slack}
	}
	if d.gated, err = newInstance("enforce", o, d.plan, d.workload, slack, d.dir, d.failed); err != nil {
		return err
	}
	if d.monitor != nil {
		if d.monitor.admin, err = api.NewClient(api.ClientConfig{URL: d.gated.adminURL(), Token: d.gated.token}); err != nil {
			return err
		}
	}
	d.ungated, err = newInstance("passthrough", o, d.plan, d.workload, nil, d.dir, d.failed)
	return err
}

// Plan returns what will be played.
func (d *Demo) Plan() Plan { return d.plan }

// Close stops both sides, within a few seconds, and removes their data. It may be
// called repeatedly, but not while Play runs.
func (d *Demo) Close() error {
	d.closeOnce.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
		defer cancel()
		var errs [2]error
		var wg sync.WaitGroup
		for i, y := range d.sides() {
			if y != nil {
				wg.Go(func() { errs[i] = y.stop(ctx) })
			}
		}
		wg.Wait()
		d.closeErr = errors.Join(errs[0], errs[1], d.monitor.close(), os.RemoveAll(d.dir))
	})
	return d.closeErr
}

func (d *Demo) sides() [2]*instance { return [2]*instance{d.gated, d.ungated} }

// Play sends the load to both sides and waits until everything has been answered,
// ctx ends, or the backlog takes too long; the summary says which. With Slack it then
// waits, for a bounded time, until all incidents have ended and their messages are
// sent. It calls watch from one goroutine: at once, at the given interval of the wall
// clock, and at the end. An error of watch ends the load and is returned with the
// summary. Play may be called once.
func (d *Demo) Play(ctx context.Context, every time.Duration, watch func(State) error) (*Summary, error) {
	load, cancelLoad := context.WithCancelCause(ctx)
	defer cancelLoad(nil)
	defer time.AfterFunc(d.plan.Wall(d.plan.Duration+d.plan.DrainLimit), func() { cancelLoad(errDrainLimit) }).Stop()

	tail, endTail := context.WithCancel(ctx)
	p := d.startLoad(load, tail)
	defer p.tailDone.Wait()
	defer endTail()
	err := d.watch(p.done, every, watch)
	if err != nil {
		cancelLoad(err)
	}
	<-p.done
	now := d.gated.tracker.now()
	if err == nil && !p.cancelled() {
		err = errors.Join(p.errs[0], p.errs[1])
	}
	sum := d.summary(now, p, context.Cause(load))
	if err == nil && d.monitor != nil {
		err = d.summarizeAlerts(ctx, sum, every, watch)
		now = d.gated.tracker.now()
	}
	if err == nil {
		final := d.state(now)
		final.Outcome = sum.Outcome
		err = watch(final)
	}
	return sum, err
}

// summarizeAlerts waits, for a bounded time, until the incidents have ended, and sums
// them up.
func (d *Demo) summarizeAlerts(ctx context.Context, sum *Summary, every time.Duration, watch func(State) error) error {
	ctx, stop := context.WithTimeout(ctx, d.plan.Wall(resolveLimit)+sendLimit)
	defer stop()
	d.settling = true
	done := d.monitor.resolved(ctx)
	err := d.watch(done, every, watch)
	stop()
	<-done
	if err != nil {
		return err
	}
	sum.Slack, err = d.alertSummary()
	sum.Notes = sum.notes()
	return err
}

// playback is a load in progress.
type playback struct {
	done     chan struct{}
	tailDone sync.WaitGroup
	reports  [2]*loadgen.Report // valid after done, in the order of sides
	errs     [2]error
}

// startLoad sends the load until ctx ends. On a side that is watched, the tail follows
// until its own context ends.
func (d *Demo) startLoad(ctx, tail context.Context) *playback {
	p := &playback{done: make(chan struct{})}
	start := time.Now()
	var wg sync.WaitGroup
	for i, y := range d.sides() {
		y.tracker.start = start
		wg.Go(func() {
			p.reports[i], p.errs[i] = y.play(ctx, d.plan, d.workload)
			if y.channel != nil {
				p.tailDone.Go(func() { y.tail(tail, d.plan) })
			}
		})
	}
	go func() { wg.Wait(); close(p.done) }()
	return p
}

// cancelled reports whether the load ended early.
func (p *playback) cancelled() bool {
	return p.reports[0] != nil && p.reports[0].Cancelled || p.reports[1] != nil && p.reports[1].Cancelled
}

// watch calls watch until done is closed or something fails.
func (d *Demo) watch(done <-chan struct{}, every time.Duration, watch func(State) error) error {
	ticker := time.NewTicker(max(every, time.Millisecond))
	defer ticker.Stop()
	for {
		if err := watch(d.state(d.gated.tracker.now())); err != nil {
			return err
		}
		select {
		case <-done:
			return nil
		case err := <-d.failed:
			return err
		case err := <-d.gated.app.Failed():
			return fmt.Errorf("with the gate: %w", err)
		case err := <-d.ungated.app.Failed():
			return fmt.Errorf("without the gate: %w", err)
		case <-ticker.C:
		}
	}
}

// Hold keeps both sides running until ctx ends, or one of them fails.
func (d *Demo) Hold(ctx context.Context) error {
	return d.watch(ctx.Done(), time.Hour, func(State) error { return nil })
}

// state reads both sides and, with Slack, the admin API.
func (d *Demo) state(now time.Duration) State {
	s := State{
		At: now, Phase: d.plan.Phase(now),
		Gated: d.gated.reading(d.plan, now), Ungated: d.ungated.reading(d.plan, now),
	}
	if d.settling && s.Phase == Draining {
		s.Phase = Settling
	}
	if d.monitor != nil {
		d.alertState = d.monitor.poll(d.alertState)
		s.Alerts = d.alertState
	}
	queued := max(s.Gated.Queued, s.Ungated.Queued)
	s.DrainEstimate = time.Duration(queued+1) * d.plan.MeanService / time.Duration(d.plan.Workers)
	return s
}

// Addresses are the URLs of a side.
type Addresses struct {
	Data    string // base URL for OpenAI clients
	Metrics string
	Slack   string // page of the stand-in for Slack; empty without one
}

// Addresses returns those of both sides.
func (d *Demo) Addresses() (gated, ungated Addresses) {
	return d.gated.addresses(), d.ungated.addresses()
}
