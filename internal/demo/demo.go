package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"headgate/internal/loadgen"
)

// stopTimeout bounds how long a demo takes to go down, on the wall clock.
const stopTimeout = 2 * time.Second

// errDrainLimit ends a load whose backlog takes too long to drain.
var errDrainLimit = errors.New("the backlog took too long")

// Demo is two running sides. Close it.
type Demo struct {
	plan           Plan
	workload       workload
	gated, ungated *instance
	monitor        *alertMonitor // nil without Slack
	alertState     *AlertState   // latest, of the goroutine that looks on
	settling       bool
	dir            string
	failed         chan error // of an endpoint that stopped by itself
	closeOnce      sync.Once
	closeErr       error
}

// New starts both sides, on loopback addresses that are free. Data goes to a
// temporary directory. When it fails, nothing is left.
func New(o Options) (*Demo, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	s, err := newWorkload(o)
	if err != nil {
		return nil, err
	}
	d := &Demo{plan: newPlan(o, s), workload: s, failed: make(chan error, 3)}
	if d.dir, err = os.MkdirTemp("", "headgate-demo-"); err != nil {
		return nil, err
	}
	if err := d.start(o); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// start starts what the demo is made of. What has been started is taken down by
// Close.
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
		d.monitor.admin = newAdminClient(d.gated.app.AdminAddr(), d.gated.token)
	}
	d.ungated, err = newInstance("passthrough", o, d.plan, d.workload, nil, d.dir, d.failed)
	return err
}

// Plan returns what will be played.
func (d *Demo) Plan() Plan { return d.plan }

// Close stops both sides, within a few seconds, and removes their data. It may be
// called more than once, not while Play runs.
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

// Play sends the load to both sides and waits until everything has been
// answered, ctx ends, or the backlog takes too long; the summary says which. With
// Slack it then waits, for a while, until all incidents are over and told. It
// calls watch at once, every so often on the wall clock, and at the end, from one
// goroutine; an error of watch ends the load and is returned with the summary.
// Play once.
func (d *Demo) Play(ctx context.Context, every time.Duration, watch func(State) error) (*Summary, error) {
	load, cut := context.WithCancelCause(ctx)
	defer cut(nil)
	defer time.AfterFunc(d.plan.Wall(d.plan.Duration+d.plan.DrainLimit), func() { cut(errDrainLimit) }).Stop()

	evening, end := context.WithCancel(ctx)
	p := d.startLoad(load, evening)
	defer p.tailDone.Wait()
	defer end()
	err := d.watch(p.done, every, watch)
	if err != nil {
		cut(err)
	}
	<-p.done
	now := d.gated.tracker.now()
	if err == nil {
		err = p.failure()
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

// summarizeAlerts waits for the incidents to end, and sums them up.
func (d *Demo) summarizeAlerts(ctx context.Context, sum *Summary, every time.Duration, watch func(State) error) (err error) {
	if err := d.waitResolved(ctx, every, watch); err != nil {
		return err
	}
	sum.Slack, err = d.alertSummary()
	sum.Notes = sum.notes()
	return err
}

// playback is the load on its way.
type playback struct {
	done     chan struct{}
	tailDone sync.WaitGroup     // calls on the gated side after the load
	reports  [2]*loadgen.Report // once done, as sides has them
	errs     [2]error
}

// startLoad sends the load until ctx ends. When a side that is watched has had its
// load, a quiet evening follows until that ends.
func (d *Demo) startLoad(ctx, evening context.Context) *playback {
	p := &playback{done: make(chan struct{})}
	start := time.Now()
	var wg sync.WaitGroup
	for i, y := range d.sides() {
		y.tracker.start = start
		wg.Go(func() {
			p.reports[i], p.errs[i] = y.play(ctx, d.plan, d.workload)
			if y.channel != nil {
				p.tailDone.Go(func() { y.tail(evening, d.plan) })
			}
		})
	}
	go func() { wg.Wait(); close(p.done) }()
	return p
}

// cancelled says whether the load was ended before it was over.
func (p *playback) cancelled() bool {
	return p.reports[0] != nil && p.reports[0].Cancelled || p.reports[1] != nil && p.reports[1].Cancelled
}

// failure is what went wrong by itself: a load that was cut is none.
func (p *playback) failure() error {
	if p.cancelled() {
		return nil
	}
	return errors.Join(p.errs[0], p.errs[1])
}

// watch looks on until the load is done or something fails.
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

func (d *Demo) state(now time.Duration) State {
	s := State{
		At: now, Phase: d.plan.Phase(now),
		Gated: d.gated.reading(d.plan.SLO, now), Ungated: d.ungated.reading(d.plan.SLO, now),
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

// Addresses are where a side can be looked at.
type Addresses struct {
	Data     string // base URL for OpenAI clients
	Metrics  string // URL
	Endpoint string // base URL of the stand-in behind it
	Slack    string // page of what stands in for Slack; empty: nobody is told
}

// Addresses returns those of both sides.
func (d *Demo) Addresses() (gated, ungated Addresses) {
	return d.gated.addresses(), d.ungated.addresses()
}
