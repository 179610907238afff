package alerts

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"
)

// Options are what a Dispatcher needs. A zero duration or number is replaced by
// its default.
type Options struct {
	Outbox    Outbox
	Notifiers map[Destination]Notifier // one for each of Routes.Destinations
	Routes    Routes
	Metrics   *Metrics
	Log       *slog.Logger

	// NewID returns a UUIDv7 for a delivery that was diverted.
	NewID func() string
	// OnUndeliverable is told of each delivery that will not arrive where it should have:
	// it is Dead, its Reason says why. It is called from the deliverer's goroutine
	// and must not block. Nil: nobody is told.
	OnUndeliverable func(Delivery)
	// Random returns numbers from [0, 1) that spread retries. Nil: the runtime's.
	Random func() float64

	PostInterval  time.Duration // between two posts in a channel; 1 s
	EditInterval  time.Duration // between two edits or look-ups there; 1.25 s
	Backoff       Backoff       // of attempts; from 1 s to 30 s
	PollInterval  time.Duration // looks at the outbox at least this often; 5 s
	SendTimeout   time.Duration // of one attempt; 15 s
	OutboxTimeout time.Duration // of one use of the outbox; 3 s
	OutboxRetry   time.Duration // the outbox is left alone for so long after an error; 1 s
	LookupDelay   time.Duration // before looking whether a message has arrived; 2 s
	LateAfter     time.Duration // a message sent so long after the event says that it is late; 1 min

	MaxPending    int // deliveries looked at in one round; 1000
	MaxUnrecorded int // deliveries kept in memory while the outbox fails; 256
}

func (o Options) withDefaults() Options {
	durations := []struct {
		d   *time.Duration
		def time.Duration
	}{
		{&o.PostInterval, time.Second}, {&o.EditInterval, 1250 * time.Millisecond},
		{&o.Backoff.Base, time.Second}, {&o.Backoff.Max, 30 * time.Second},
		{&o.PollInterval, 5 * time.Second}, {&o.SendTimeout, 15 * time.Second}, {&o.OutboxTimeout, 3 * time.Second},
		{&o.OutboxRetry, time.Second}, {&o.LookupDelay, 2 * time.Second}, {&o.LateAfter, time.Minute},
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
	if o.OnUndeliverable == nil {
		o.OnUndeliverable = func(Delivery) {}
	}
	return o
}

func (o Options) validate() error {
	if o.Outbox == nil || o.Metrics == nil || o.Log == nil || o.NewID == nil {
		return errors.New("a deliverer needs an outbox, metrics, a log and a source of IDs")
	}
	for _, to := range o.Routes.Destinations() {
		if o.Notifiers[to] == nil {
			return fmt.Errorf("no sender for the destination %q", to)
		}
	}
	for _, d := range []time.Duration{
		o.PostInterval, o.EditInterval, o.Backoff.Base, o.Backoff.Max, o.PollInterval, o.SendTimeout,
		o.OutboxTimeout, o.OutboxRetry, o.LookupDelay, o.LateAfter,
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
