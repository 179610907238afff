package app

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"headgate/proxy"
)

// newMetrics registers what belongs to the whole process, and the data plane's.
func newMetrics(reg *prometheus.Registry, version string) (*proxy.Metrics, error) {
	build := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "headgate_build_info", Help: "1; the version is in the label.",
		ConstLabels: prometheus.Labels{"version": version},
	}, func() float64 { return 1 })
	for _, c := range []prometheus.Collector{
		build, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("metrics of the process: %w", err)
		}
	}
	return proxy.NewMetrics(reg)
}

// envelopeUse is the part of a pool's capacity that the arrivals of the last
// minute take: arrival rate times mean service time, over workers (Little, "A
// proof for the queuing formula L = λW", 1961). False: nothing has been served
// yet, so that nobody knows.
func (a *App) envelopeUse(now time.Time, p Pool) (float64, bool) {
	gate := p.Gate.Snapshot(now)
	recent := a.metrics.Recent(p.Name, now)
	rate := float64(max(recent.Arrivals-recent.Invalid, 0)) / time.Minute.Seconds() // what is invalid asks for no worker
	return rate * gate.Service.Mean.Seconds() / float64(gate.Workers), gate.Service.Measured
}

// registerEnvelopeGauge registers the use of a pool's envelope; 0 while it is not known.
func (a *App) registerEnvelopeGauge(p Pool) error {
	return a.registry.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "headgate_envelope_use_ratio", Help: "Arrival rate of the last minute times mean service time, over workers.",
		ConstLabels: prometheus.Labels{"pool": p.Name},
	}, func() float64 {
		use, known := a.envelopeUse(time.Now(), p)
		if !known {
			return 0
		}
		return use
	}))
}
