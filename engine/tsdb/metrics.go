package tsdb

import "github.com/prometheus/client_golang/prometheus"

// metrics are about the samples themselves.
type metrics struct {
	appended, appendErrors, gatherErrors, queryErrors prometheus.Counter
}

func newMetrics(reg prometheus.Registerer, db *DB) (*metrics, error) {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	gauge := func(name, help string, f func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, f)
	}
	m := &metrics{
		appended:     counter("headgate_samples_appended_total", "Samples written."),
		appendErrors: counter("headgate_samples_append_errors_total", "Failed writes of samples."),
		gatherErrors: counter("headgate_samples_gather_errors_total",
			"Collections at which some metrics could not be gathered."),
		queryErrors: counter("headgate_samples_query_errors_total", "Signals that could not be read."),
	}
	if reg == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{
		m.appended, m.appendErrors, m.gatherErrors, m.queryErrors,
		gauge("headgate_samples_series", "Series with samples of the last hour.", db.seriesCount),
		gauge("headgate_samples_bytes", "Size of the samples on disk, without the log of the last hour.",
			db.blockBytes),
	} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (db *DB) seriesCount() float64 {
	if store := db.store(); store != nil {
		return float64(store.Head().NumSeries())
	}
	return 0
}

func (db *DB) blockBytes() float64 {
	store := db.store()
	if store == nil {
		return 0
	}
	sum := int64(0)
	for _, b := range store.Blocks() {
		sum += b.Size()
	}
	return float64(sum)
}
