package proxy

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"headgate/proxy/admission"
)

// gateCollector reads a pool's state from its gate when it is scraped: all values of
// one scrape belong to one instant.
type gateCollector struct {
	pool *poolMetrics
	gate *admission.Gate

	depth, oldestAge, inFlight, workers, paused, staleFor, mode, lastCompletion *prometheus.Desc
}

func newGateCollector(p *poolMetrics, gate *admission.Gate) *gateCollector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, p.labels)
	}
	return &gateCollector{
		pool: p, gate: gate,
		depth:          desc("headgate_queue_depth", "Tasks that wait for a permit."),
		oldestAge:      desc("headgate_queue_oldest_age_seconds", "Age of the oldest waiting task, 0 if none waits."),
		inFlight:       desc("headgate_in_flight", "Permits that are out."),
		workers:        desc("headgate_workers", "Permits that there are."),
		paused:         desc("headgate_paused", "1 while the pool is paused: no permit is handed out."),
		staleFor:       desc("headgate_gate_behind_seconds", "For how long the state of the gate could not be read because it was busy."),
		mode:           desc("headgate_mode", "1 for the mode that the pool is in, 0 for the others.", "mode"),
		lastCompletion: desc("headgate_last_completion_timestamp_seconds", "When a task was last completed, 0 if none was."),
	}
}

// Describe implements prometheus.Collector.
func (g *gateCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{g.depth, g.oldestAge, g.inFlight, g.workers, g.paused, g.staleFor, g.mode, g.lastCompletion} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (g *gateCollector) Collect(ch chan<- prometheus.Metric) {
	s := g.gate.Snapshot(time.Now())
	send := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	send(g.depth, float64(s.Depth))
	send(g.oldestAge, s.OldestAge.Seconds())
	send(g.inFlight, float64(s.InFlight))
	send(g.workers, float64(s.Workers))
	send(g.staleFor, s.StaleFor.Seconds())
	send(g.paused, boolGauge(!s.PausedUntil.IsZero()))
	send(g.lastCompletion, float64(g.pool.lastCompletion.Load())/1000)
	for _, m := range admission.Modes() {
		send(g.mode, boolGauge(m == s.Mode), m.String())
	}
}

func boolGauge(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
