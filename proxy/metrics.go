package proxy

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"headgate/proxy/admission"
)

var _ Observer = (*Metrics)(nil)

// Metrics is the Observer that counts. All label values come from the settings
// and from this project's enums, and all counters exist from the start.
type Metrics struct {
	reg       prometheus.Registerer
	gate      prometheus.Histogram
	panics    *prometheus.CounterVec // by where
	timeScale float64                // scenario seconds in one second of the wall clock; 1 outside of scenarios

	mu    sync.RWMutex
	pools map[string]*poolMetrics
}

// NewMetrics registers the metrics that belong to no pool, and the counters of
// tasks that were never routed.
func NewMetrics(reg prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		reg: reg, timeScale: 1,
		gate: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "headgate_gate_seconds", Help: "Time that the gate's own decisions took, per task.",
			Buckets: prometheus.ExponentialBuckets(250e-9, 4, 14),
		}),
		panics: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "headgate_panics_total", Help: "Panics that were caught.",
		}, []string{"where"}),
	}
	for _, where := range []string{inProxy, inGate} {
		m.panics.WithLabelValues(where)
	}
	unrouted := newPoolMetrics(Unrouted, nil)
	unrouted.durations = newDurations(Unrouted, 0, 1)
	m.pools = map[string]*poolMetrics{Unrouted: unrouted}
	if err := register(reg, m.gate, m.panics, unrouted.arrivals, unrouted.tasks, unrouted.refusals); err != nil {
		return nil, err
	}
	return m, nil
}

// SetTimeScale divides the bucket bounds of durations, so that quantiles of a
// scenario that is played faster are as fine as in its own time. Call it before
// AddPool; a speed below 1 changes nothing.
func (m *Metrics) SetTimeScale(speed float64) { m.timeScale = max(speed, 1) }

// Where panics are caught.
const (
	inProxy = "proxy"
	inGate  = "gate"
)

func register(reg prometheus.Registerer, all ...prometheus.Collector) error {
	for _, c := range all {
		if err := reg.Register(c); err != nil {
			return err
		}
	}
	return nil
}

// AddPool registers the metrics of a pool. Call it before tasks arrive there, and
// again when its SLO has changed: the counters continue, the histograms restart
// with a bucket at the new SLO.
func (m *Metrics) AddPool(name string, slo time.Duration, gate *admission.Gate) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.pools[name]
	switch {
	case p == nil:
		p = newPoolMetrics(name, gate)
		if err := register(m.reg, append(p.collectors, newGateCollector(name, p))...); err != nil {
			return err
		}
	case p.durations.slo == slo:
		return nil
	default:
		for _, c := range p.durations.collectors {
			m.reg.Unregister(c)
		}
		changed := *p
		p = &changed
	}
	p.durations = newDurations(name, slo, m.timeScale)
	m.pools[name] = p
	return register(m.reg, p.durations.collectors...)
}

func (m *Metrics) pool(name string) *poolMetrics {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.pools[name]
}

// Recent returns the counts of a pool's last minute.
func (m *Metrics) Recent(pool string, now time.Time) Recent {
	if p := m.pool(pool); p != nil {
		return p.window.recent(now)
	}
	return Recent{}
}

// EnvelopeUse returns the share of a pool's capacity that the arrivals of the last
// minute need. False: no task has been served yet, so the service time is unknown.
func (m *Metrics) EnvelopeUse(pool string, now time.Time) (use float64, known bool) {
	if p := m.pool(pool); p != nil {
		return p.envelopeUse(now, p.gate.Snapshot(now))
	}
	return 0, false
}

// SLOCounts are a pool's tasks that count for its SLO since the start.
type SLOCounts struct{ Tasks, Bad int64 }

// SLO returns the counts of all pools.
func (m *Metrics) SLO() map[string]SLOCounts {
	m.mu.RLock()
	defer m.mu.RUnlock()
	all := make(map[string]SLOCounts, len(m.pools))
	for name, p := range m.pools {
		if name != Unrouted {
			all[name] = SLOCounts{Tasks: counterValue(p.sloTasks), Bad: counterValue(p.sloBad)}
		}
	}
	return all
}

// Arrivals returns the tasks that have arrived since the start, in all pools and in none.
func (m *Metrics) Arrivals() (sum float64) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	for _, p := range m.pools {
		sum += float64(counterValue(p.arrivals))
	}
	return sum
}

// counterValue reads a counter that is only ever incremented by one.
func counterValue(c prometheus.Counter) int64 {
	var m dto.Metric
	if c.Write(&m) != nil { // plain counters always write
		return 0
	}
	return int64(m.GetCounter().GetValue())
}

// OnArrival counts a task that has arrived.
func (m *Metrics) OnArrival(pool string) {
	if p := m.pool(pool); p != nil {
		p.arrivals.Inc()
		p.window.arrived(time.Now())
	}
}

// OnGateEvent counts what an event says about the gate's health.
func (m *Metrics) OnGateEvent(e GateEvent) {
	m.panics.WithLabelValues(inGate).Add(float64(e.Panics))
	p := m.pool(e.Pool)
	if p == nil {
		return
	}
	p.gatePanics.Add(float64(e.Panics))
	if e.FalseRefusal != admission.ReasonNone {
		p.falseRefusals.WithLabelValues(e.FalseRefusal.String()).Inc()
	}
	if e.FastPath {
		p.fastPath.Observe(e.Took.Seconds())
	}
}

// OnUpstreamRetry counts a request that was sent to the upstream again.
func (m *Metrics) OnUpstreamRetry(pool string) {
	if p := m.pool(pool); p != nil {
		p.upstreamRetries.Inc()
	}
}

// OnEnd counts a task that has ended.
func (m *Metrics) OnEnd(o Observation) {
	if o.Panicked {
		m.panics.WithLabelValues(inProxy).Inc()
	}
	if o.Gate > 0 {
		m.gate.Observe(o.Gate.Seconds())
	}
	if p := m.pool(o.Pool); p != nil {
		p.ended(&o)
	}
}

// poolMetrics are the metrics of one pool. Of those of Unrouted, only arrivals,
// tasks and refusals are registered.
type poolMetrics struct {
	gate             *admission.Gate // nil for Unrouted
	arrivals         prometheus.Counter
	tasks            *prometheus.CounterVec
	refusals         *prometheus.CounterVec
	wouldRefuse      *prometheus.CounterVec
	upstreamRefusals prometheus.Counter
	upstreamRetries  prometheus.Counter
	announcedRetries prometheus.Counter
	sloTasks         prometheus.Counter
	sloBad           prometheus.Counter
	lastCompletion   *atomic.Int64 // unix milliseconds, 0: none yet
	window           *window

	// The gate's own health. Load must not show in these: they trigger the
	// automatic rollback.
	falseRefusals *prometheus.CounterVec
	gatePanics    prometheus.Counter
	fastPath      prometheus.Histogram

	collectors []prometheus.Collector // all of the above
	durations  durations
}

func newPoolMetrics(name string, gate *admission.Gate) *poolMetrics {
	f := metricFactory{labels: prometheus.Labels{"pool": name}}
	p := &poolMetrics{
		gate: gate, lastCompletion: new(atomic.Int64), window: new(window),
		arrivals: f.counter("headgate_arrivals_total", "Tasks that arrived."),
		tasks: f.counters("headgate_tasks_total",
			"Tasks that ended, by outcome; they add up to arrivals.", "outcome"),
		refusals: f.counters("headgate_refusals_total", "Tasks that were refused, by reason.", "reason"),
		wouldRefuse: f.counters("headgate_would_refuse_total",
			"Tasks that mode enforce would have refused, by reason.", "reason"),
		upstreamRefusals: f.counter("headgate_upstream_refusals_total", "Upstream responses with status 429."),
		upstreamRetries: f.counter("headgate_upstream_retries_total",
			"Requests that were sent upstream again because their connection had ended."),
		announcedRetries: f.counter("headgate_announced_retries_total", "Tasks that their client announced as retries."),
		sloTasks:         f.counter("headgate_slo_tasks_total", "Tasks that count for the SLO."),
		sloBad:           f.counter("headgate_slo_bad_tasks_total", "Tasks that count for the SLO and were bad."),
		falseRefusals: f.counters("headgate_false_refusals_total",
			"Refusals that an independent check of the pool's state contradicts, by reason.", "reason"),
		gatePanics: f.counter("headgate_gate_panics_total", "Panics in the gate that were caught."),
		// One bound is at the second from which on a gate is too slow, so that no quantile
		// below it is ever estimated to lie above.
		fastPath: f.histogram("headgate_gate_free_seconds",
			"Time that each call of the gate took for tasks that found a permit free.",
			[]float64{10e-6, 100e-6, .001, .01, .1, .5, 1, 2, 5, 10, 30}),
	}
	for _, o := range admission.Outcomes() {
		p.tasks.WithLabelValues(o.String())
	}
	for _, r := range admission.Reasons() {
		p.refusals.WithLabelValues(r.String())
		p.wouldRefuse.WithLabelValues(r.String())
	}
	for _, r := range []admission.Reason{admission.ReasonQueueAge, admission.ReasonQueueDepth} {
		p.falseRefusals.WithLabelValues(r.String())
	}
	p.collectors = f.all
	return p
}

func (p *poolMetrics) ended(o *Observation) {
	end := o.Arrived.Add(o.Turnaround)
	p.window.ended(end, o)
	p.tasks.WithLabelValues(o.Outcome.String()).Inc()
	if o.Reason != admission.ReasonNone {
		p.refusals.WithLabelValues(o.Reason.String()).Inc()
	}
	if o.ObservedReason != admission.ReasonNone {
		p.wouldRefuse.WithLabelValues(o.ObservedReason.String()).Inc()
	}
	if o.Retry {
		p.announcedRetries.Inc()
	}
	switch o.Outcome {
	case admission.UpstreamRefused:
		p.upstreamRefusals.Inc()
	case admission.Completed:
		p.lastCompletion.Store(end.UnixMilli())
	}
	p.durations.observe(o)
	if counts, bad := classifyForSLO(o, p.durations.slo); counts {
		p.sloTasks.Inc()
		if bad {
			p.sloBad.Inc()
		}
	}
}

// envelopeUse is the arrival rate of the last minute times the mean service time,
// over the workers (Little, "A proof for the queuing formula L = λW", 1961).
// Invalid requests need no worker.
func (p *poolMetrics) envelopeUse(now time.Time, s admission.Snapshot) (use float64, known bool) {
	recent := p.window.recent(now)
	rate := float64(max(recent.Arrivals-recent.Invalid, 0)) / windowSeconds
	return rate * s.Service.Mean.Seconds() / float64(s.Workers), s.Service.Measured
}

// durations are the histograms of one pool. The pool is a constant label, so that
// each pool's histograms have a bucket at its SLO.
type durations struct {
	slo                                       time.Duration
	queueWait, service, turnaround, firstByte prometheus.Histogram
	collectors                                []prometheus.Collector
}

func newDurations(name string, slo time.Duration, speed float64) durations {
	f := metricFactory{labels: prometheus.Labels{"pool": name}}
	b := buckets(slo, speed)
	d := durations{
		slo:       slo,
		queueWait: f.histogram("headgate_queue_wait_seconds", "Time that granted tasks waited for their permit.", b),
		service:   f.histogram("headgate_service_seconds", "Time that permits were held.", b),
		turnaround: f.histogram("headgate_turnaround_seconds",
			"From arrival to the last byte, of tasks that went upstream.", b),
		firstByte: f.histogram("headgate_first_byte_seconds", "From arrival to the first byte of the answer.", b),
	}
	d.collectors = f.all
	return d
}

func (d *durations) observe(o *Observation) {
	if o.Granted {
		d.queueWait.Observe(o.Queued.Seconds())
		d.service.Observe(o.Service.Seconds())
		d.turnaround.Observe(o.Turnaround.Seconds())
	}
	if o.FirstByte > 0 {
		d.firstByte.Observe(o.FirstByte.Seconds())
	}
}

// buckets returns the bounds for durations in seconds: from 5 ms to ten minutes,
// divided by speed, with the SLO and the three quarters of it that warn.
func buckets(slo time.Duration, speed float64) []float64 {
	b := []float64{
		.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 7.5, 10, 15, 20, 25, 30, 45, 60, 90, 120, 180, 300, 600,
	}
	for i := range b {
		b[i] /= speed
	}
	if slo > 0 {
		b = append(b, slo.Seconds(), slo.Seconds()*3/4)
	}
	slices.Sort(b)
	return slices.Compact(b)
}

// metricFactory makes the metrics of one pool and collects them for registration.
type metricFactory struct {
	labels prometheus.Labels
	all    []prometheus.Collector
}

func (f *metricFactory) counter(name, help string) prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help, ConstLabels: f.labels})
	f.all = append(f.all, c)
	return c
}

func (f *metricFactory) counters(name, help, label string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help, ConstLabels: f.labels}, []string{label})
	f.all = append(f.all, c)
	return c
}

func (f *metricFactory) histogram(name, help string, bounds []float64) prometheus.Histogram {
	h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, ConstLabels: f.labels, Buckets: bounds})
	f.all = append(f.all, h)
	return h
}

// gateCollector reads a pool's gauges from its gate at each scrape: all values of
// one scrape belong to one instant.
type gateCollector struct {
	gate   *admission.Gate
	mode   *prometheus.Desc
	gauges []gateGauge
}

type gateGauge struct {
	desc  *prometheus.Desc
	value func(admission.Snapshot) float64
}

func newGateCollector(pool string, p *poolMetrics) *gateCollector {
	c := &gateCollector{gate: p.gate}
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, prometheus.Labels{"pool": pool})
	}
	add := func(name, help string, value func(admission.Snapshot) float64) {
		c.gauges = append(c.gauges, gateGauge{desc(name, help), value})
	}
	c.mode = desc("headgate_mode", "1 for the pool's current mode, 0 for the others.", "mode")
	add("headgate_queue_depth", "Tasks waiting for a permit.",
		func(s admission.Snapshot) float64 { return float64(s.Depth) })
	add("headgate_queue_oldest_age_seconds", "Age of the oldest waiting task, 0 if none waits.",
		func(s admission.Snapshot) float64 { return s.OldestAge.Seconds() })
	add("headgate_in_flight", "Permits in use.",
		func(s admission.Snapshot) float64 { return float64(s.InFlight) })
	add("headgate_workers", "Permits of the pool.",
		func(s admission.Snapshot) float64 { return float64(s.Workers) })
	add("headgate_paused", "1 while the pool is paused: no permit is granted.",
		func(s admission.Snapshot) float64 { return boolGauge(!s.PausedUntil.IsZero()) })
	add("headgate_gate_behind_seconds", "How long the gate has been too busy to read its state.",
		func(s admission.Snapshot) float64 { return s.StaleFor.Seconds() })
	add("headgate_last_completion_timestamp_seconds", "When a task was last completed, 0 if none was.",
		func(admission.Snapshot) float64 { return float64(p.lastCompletion.Load()) / 1000 })
	add("headgate_envelope_use_ratio", "Arrival rate of the last minute times mean service time, over workers.",
		func(s admission.Snapshot) float64 {
			if use, known := p.envelopeUse(time.Now(), s); known {
				return use
			}
			return 0
		})
	return c
}

// Describe sends the descriptions of the gauges.
func (c *gateCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.mode
	for _, g := range c.gauges {
		ch <- g.desc
	}
}

// Collect sends the values of the gauges.
func (c *gateCollector) Collect(ch chan<- prometheus.Metric) {
	s := c.gate.Snapshot(time.Now())
	for _, g := range c.gauges {
		ch <- prometheus.MustNewConstMetric(g.desc, prometheus.GaugeValue, g.value(s))
	}
	for _, m := range admission.Modes() {
		ch <- prometheus.MustNewConstMetric(c.mode, prometheus.GaugeValue, boolGauge(m == s.Mode), m.String())
	}
}

func boolGauge(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
