package tsdb

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"headgate/engine"
)

const (
	maxBytes = 2 << 30 // of the blocks on disk; the log of the last hour comes on top

	staleIntervals = 10              // intervals without a sample, after which a series has no value
	maxLookback    = 5 * time.Minute // at most

	queryTimeout = time.Second // for one expression
	querySamples = 2_000_000   // that one expression may hold at once
	rangePoints  = 11_000      // that one series of a range may have
	rangeSeries  = 200         // that a range may have
	maxExpr      = 8 << 10     // bytes of an expression
)

// Options say where samples are kept and where they come from.
type Options struct {
	// Dir is the folder of the samples. Empty: one in the system's temporary folder, which Close removes.
	Dir string
	// Interval is the time between two samples. 0: 1 s.
	Interval time.Duration
	// Retention is how long samples are kept. 0: 7 days.
	Retention time.Duration
	// Gatherer provides the metric families. Nil: samples come from Append alone.
	Gatherer prometheus.Gatherer
	// Registerer gets the metrics of the samples themselves. Nil: nowhere.
	Registerer prometheus.Registerer
	// Clock returns the timestamps of samples. It should be the clock of the queries: the wall clock of the start plus
	// monotonic time. Nil: such a clock, from Open on.
	Clock func() time.Time
	// Log is required.
	Log *slog.Logger
}

// withDefaults fills in defaults and refuses impossible values.
func (o Options) withDefaults() (Options, error) {
	if o.Log == nil {
		return o, errors.New("samples need a Log")
	}
	if o.Interval < 0 || o.Retention < 0 {
		return o, fmt.Errorf("interval %s and retention %s must not be negative", o.Interval, o.Retention)
	}
	o.Interval = cmp.Or(o.Interval, time.Second)
	o.Retention = cmp.Or(o.Retention, 7*24*time.Hour)
	if o.Clock == nil {
		o.Clock = engine.MonotonicClock()
	}
	return o, nil
}

// lookback is the age at which the latest sample of a series is stale.
func (o Options) lookback() time.Duration {
	return min(staleIntervals*o.Interval, max(maxLookback, 2*o.Interval))
}
