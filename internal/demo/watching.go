package demo

import (
	"context"
	"net/http"
	"time"

	"headgate/internal/loadgen"
	"headgate/internal/modelstub"
)

const (
	// settleLimit is how long incidents are waited for once everything has been
	// answered, in scenario time; sendLimit comes on top, on the wall clock, since
	// Slack takes one message a second at any speed.
	settleLimit = 15 * time.Minute
	sendLimit   = 15 * time.Second
	lookEvery   = 200 * time.Millisecond // on the wall clock

	// The tail is what a quiet evening would bring: enough calls for shares and
	// quantiles to mean something, and at most this part of what the workers can do.
	tailRate = 0.3 // calls per second of scenario time
	tailLoad = 0.4
)

// watching is how the demo follows what is told about the gated side.
type watching struct {
	channel *channel
	desk    *desk
}

// close ends what New has begun. The gated side must have been stopped.
func (w *watching) close() error {
	if w == nil {
		return nil
	}
	if w.desk != nil {
		w.desk.close()
	}
	return w.channel.close()
}

// Alarms is what has been told about the gated side, and what came of it.
type Alarms struct {
	Mode, By     string // of the gate, and who set it
	Pages, Warns int    // open incidents
	Opened       int    // so far
	Traffic
	Last string // the latest message, on one line
}

// alarms looks. What cannot be asked is left as it was.
func (w *watching) alarms(before *Alarms) *Alarms {
	a := &Alarms{}
	a.Traffic, a.Last = w.channel.traffic()
	if now, err := w.desk.stands(context.Background()); err == nil {
		a.Mode, a.By = now.Mode, now.By
	} else if before != nil {
		a.Mode, a.By = before.Mode, before.By
	}
	all, err := w.desk.list(context.Background()) // its client has a limit
	if err != nil {
		if before != nil {
			a.Pages, a.Warns, a.Opened = before.Pages, before.Warns, before.Opened
		}
		return a
	}
	a.Opened = len(all)
	for _, i := range all {
		switch {
		case i.Ended != nil:
		case i.Level == "page":
			a.Pages++
		default:
			a.Warns++
		}
	}
	return a
}

// settled is closed when all incidents are over and told, or ctx ends.
func (w *watching) settled(ctx context.Context) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(lookEvery)
		defer tick.Stop()
		for !w.desk.quiet(ctx) {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	}()
	return done
}

// settle looks on until the incidents are over, for a while.
func (d *Demo) settle(ctx context.Context, every time.Duration, watch func(State) error) error {
	ctx, stop := context.WithTimeout(ctx, d.plan.Wall(settleLimit)+sendLimit)
	defer stop()
	d.settling = true
	done := d.watching.settled(ctx)
	err := d.watch(done, every, watch)
	stop()
	<-done
	return err
}

// tailService is how long a call of the tail takes.
func (p Plan) tailService() time.Duration {
	return min(p.MeanService, time.Duration(tailLoad*float64(p.Workers)/tailRate*float64(time.Second)))
}

// tail sends short calls until ctx ends, so that what is watched goes on meaning
// something. What becomes of them is not counted.
func (y *system) tail(ctx context.Context, p Plan) {
	source, err := loadgen.Constant(tailRate, p.DrainLimit+2*settleLimit)
	if err != nil { // a plan that long has no end that anybody waits for
		return
	}
	service := p.tailService().String()
	_, _ = loadgen.Run(ctx, loadgen.Config{
		URL: "http://" + y.gate.DataAddr() + "/v1", Speed: p.Speed,
		HeaderFor: func(int) http.Header { return http.Header{modelstub.HeaderService: {service}} },
	}, source)
}
