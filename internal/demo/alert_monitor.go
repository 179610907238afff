package demo

import (
	"context"
	"net/http"
	"time"

	"headgate/internal/loadgen"
	"headgate/internal/modelstub"
)

const (
	// resolveLimit is how long incidents are waited for once everything has been
	// answered, in scenario time; sendLimit comes on top, on the wall clock, since
	// Slack takes one message a second at any speed.
	resolveLimit      = 15 * time.Minute
	sendLimit         = 15 * time.Second
	alertPollInterval = 200 * time.Millisecond // on the wall clock

	// The tail is what a quiet evening would bring: enough calls for shares and
	// quantiles to mean something, and at most this part of what the workers can do.
	tailRate = 0.3 // calls per second of scenario time
	tailLoad = 0.4
)

// alertMonitor is how the demo follows what is told about the gated side.
type alertMonitor struct {
	channel *slackChannel
	admin   *adminClient
}

// close ends what New has begun. The gated side must have been stopped.
func (w *alertMonitor) close() error {
	if w == nil {
		return nil
	}
	if w.admin != nil {
		w.admin.close()
	}
	return w.channel.close()
}

// AlertState is what has been told about the gated side, and what came of it.
type AlertState struct {
	Mode, By     string // of the gate, and who set it
	Pages, Warns int    // open incidents
	Opened       int    // so far
	MessageCounts
	LastMessage string // the latest message, on one line
}

// poll looks. What cannot be asked is left as it was.
func (w *alertMonitor) poll(before *AlertState) *AlertState {
	a := &AlertState{}
	a.MessageCounts, a.LastMessage = w.channel.messageCounts()
	if now, err := w.admin.poolMode(context.Background()); err == nil {
		a.Mode, a.By = now.Mode, now.By
	} else if before != nil {
		a.Mode, a.By = before.Mode, before.By
	}
	all, err := w.admin.incidents(context.Background()) // its client has a limit
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

// resolved is closed when all incidents are over and told, or ctx ends.
func (w *alertMonitor) resolved(ctx context.Context) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(alertPollInterval)
		defer tick.Stop()
		for !w.admin.allResolved(ctx) {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	}()
	return done
}

// waitResolved looks on until the incidents are over, for a while.
func (d *Demo) waitResolved(ctx context.Context, every time.Duration, watch func(State) error) error {
	ctx, stop := context.WithTimeout(ctx, d.plan.Wall(resolveLimit)+sendLimit)
	defer stop()
	d.settling = true
	done := d.monitor.resolved(ctx)
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
func (y *instance) tail(ctx context.Context, p Plan) {
	source, err := loadgen.Constant(tailRate, p.DrainLimit+2*resolveLimit)
	if err != nil { // a plan that long has no end that anybody waits for
		return
	}
	service := p.tailService().String()
	_, _ = loadgen.Run(ctx, loadgen.Config{
		URL: "http://" + y.app.DataAddr() + "/v1", Speed: p.Speed,
		HeaderFor: func(int) http.Header { return http.Header{modelstub.HeaderService: {service}} },
	}, source)
}
