package alerts

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"
)

// Options are what a Deliverer needs. A zero duration or number is replaced by
// its default.
type Options struct {
	Outbox  Outbox
	Senders map[Destination]Sender // one for each of Routes.Used
	Routes  Routes
	Metrics *Metrics
	Log     *slog.Logger

	// NewID returns a UUIDv7 for a delivery that was diverted.
	NewID func() string
	// OnStuck is told of each delivery that will not arrive where it should have:
	// it is Dead, its Reason says why. It is called from the deliverer's goroutine
	// and must not block. Nil: nobody is told.
	OnStuck func(Delivery)
	// Random returns numbers from [0, 1) that spread retries. Nil: the runtime's.
	Random func() float64

	Spacing     time.Duration // between two posts in a channel; 1 s
	EditSpacing time.Duration // between two edits or look-ups there; 1.25 s
	Backoff     Backoff       // of attempts; from 1 s to 30 s
	Poll        time.Duration // looks at the outbox at least this often; 5 s
	SendTimeout time.Duration // of one attempt; 15 s
	SaveTimeout time.Duration // of one use of the outbox; 3 s
	SaveRetry   time.Duration // the outbox is left alone for so long after an error; 1 s
	LookWait    time.Duration // before looking whether a message has arrived; 2 s
	LateAfter   time.Duration // a message sent so long after the event says that it is late; 1 min

	MaxPending    int // deliveries looked at in one round; 1000
	MaxUnrecorded int // deliveries kept in memory while the outbox fails; 256
}

func (o Options) withDefaults() Options {
	durations := []struct {
		d   *time.Duration
		def time.Duration
	}{
		{&o.Spacing, time.Second}, {&o.EditSpacing, 1250 * time.Millisecond},
		{&o.Backoff.Base, time.Second}, {&o.Backoff.Max, 30 * time.Second},
		{&o.Poll, 5 * time.Second}, {&o.SendTimeout, 15 * time.Second}, {&o.SaveTimeout, 3 * time.Second},
		{&o.SaveRetry, time.Second}, {&o.LookWait, 2 * time.Second}, {&o.LateAfter, time.Minute},
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
	if o.OnStuck == nil {
		o.OnStuck = func(Delivery) {}
	}
	return o
}

func (o Options) check() error {
	if o.Outbox == nil || o.Metrics == nil || o.Log == nil || o.NewID == nil {
		return errors.New("a deliverer needs an outbox, metrics, a log and a source of IDs")
	}
	for _, to := range o.Routes.Used() {
		if o.Senders[to] == nil {
			return fmt.Errorf("no sender for the destination %q", to)
		}
	}
	for _, d := range []time.Duration{
		o.Spacing, o.EditSpacing, o.Backoff.Base, o.Backoff.Max, o.Poll, o.SendTimeout,
		o.SaveTimeout, o.SaveRetry, o.LookWait, o.LateAfter,
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
