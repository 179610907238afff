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

// Metrics is the Observer that counts. All label values come from the settings
// and from this project's enums, and all counters exist from the start.
type Metrics struct {
	reg       prometheus.Registerer
	gate      prometheus.Histogram
	panics    *prometheus.CounterVec // by where
	timeScale float64                // than the scenario that is played; 1: it is no scenario

	mu    sync.RWMutex
	pools map[string]*poolMetrics
}

// NewMetrics registers what belongs to no pool, and the counters of tasks that
// never found theirs.
func NewMetrics(reg prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		reg: reg, pools: make(map[string]*poolMetrics), timeScale: 1,
		gate: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "headgate_gate_seconds", Help: "Time spent in the gate's own decisions, a task.",
			Buckets: prometheus.ExponentialBuckets(250e-9, 4, 14),
		}),
		panics: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "headgate_panics_total", Help: "Panics that were caught.",
		}, []string{"where"}),
	}
	for _, where := range []string{inProxy, inGate} {
		m.panics.WithLabelValues(where)
	}
	unrouted := newPoolMetrics(Unrouted)
	if err := register(reg, m.gate, m.panics, unrouted.arrivals, unrouted.tasks, unrouted.refusals); err != nil {
		return nil, err
	}
	m.pools[Unrouted] = unrouted
	return m, nil
}

// SetTimeScale divides the bounds of histograms of durations, so that quantiles of a
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

// AddPool registers the metrics of a pool. Call it before tasks arrive there,
// and again when its SLO has changed: the counters go on, the histograms begin
// anew with a bucket at the new SLO.
func (m *Metrics) AddPool(name string, slo time.Duration, gate *admission.Gate) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	old := m.pools[name]
	if old == nil {
		p := newPoolMetrics(name)
		p.gate, p.histograms = newGateMetrics(name), newHistograms(name, slo, m.timeScale)
		collectors := slices.Concat(p.counters(), p.gate.all(), []prometheus.Collector{newGateCollector(p, gate)})
		if err := register(m.reg, collectors...); err != nil {
			return err
		}
		m.pools[name] = p
		return register(m.reg, p.histograms.all()...)
	}
	if old.histograms.slo == slo {
		return nil
	}
	for _, c := range old.histograms.all() {
		m.reg.Unregister(c)
	}
	p := *old
	p.histograms = newHistograms(name, slo, m.timeScale)
	m.pools[name] = &p
	return register(m.reg, p.histograms.all()...)
}

func (m *Metrics) pool(name string) *poolMetrics {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.pools[name]
}

// Recent returns what a pool's last minute was like.
func (m *Metrics) Recent(pool string, now time.Time) Recent {
	if p := m.pool(pool); p != nil {
		return p.window.recent(now)
	}
	return Recent{}
}

// SLOCounts are a pool's tasks that count for its SLO since the start.
type SLOCounts struct{ Tasks, Bad int64 }

// SLO returns the counts of all pools.
func (m *Metrics) SLO() map[string]SLOCounts {
	m.mu.RLock()
	defer m.mu.RUnlock()
	all := make(map[string]SLOCounts, len(m.pools))
	for name, p := range m.pools {
		if p.histograms != nil {
			all[name] = SLOCounts{Tasks: counterValue(p.sloTasks), Bad: counterValue(p.sloBad)}
		}
	}
	return all
}

// counterValue reads a counter that is only ever incremented by one.
func counterValue(c prometheus.Counter) int64 {
	var m dto.Metric
	if c.Write(&m) != nil { // plain counters always write
		return 0
	}
	return int64(m.GetCounter().GetValue())
}

// OnArrival counts a task that has come.
func (m *Metrics) OnArrival(pool string) {
	if p := m.pool(pool); p != nil {
		p.arrivals.Inc()
		p.window.arrived(time.Now())
	}
}

// OnGateEvent counts what says how a gate fares.
func (m *Metrics) OnGateEvent(w GateEvent) {
	if w.Panics > 0 {
		m.panics.WithLabelValues(inGate).Add(float64(w.Panics))
	}
	if p := m.pool(w.Pool); p != nil && p.gate != nil {
		p.gate.observe(w)
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

// poolMetrics are the metrics of one pool.
type poolMetrics struct {
	labels           prometheus.Labels
	arrivals         prometheus.Counter
	tasks            *prometheus.CounterVec
	refusals         *prometheus.CounterVec
	wouldRefuse      *prometheus.CounterVec
	upstreamRefusals prometheus.Counter
	announcedRetries prometheus.Counter
	sloTasks         prometheus.Counter
	sloBad           prometheus.Counter
	lastCompletion   *atomic.Int64 // unix milliseconds, 0: none yet
	window           *window
	gate             *gateMetrics // nil for tasks without a pool
	histograms       *histograms  // likewise
}

func newPoolMetrics(name string) *poolMetrics {
	f := metricFactory{labels: prometheus.Labels{"pool": name}}
	p := &poolMetrics{
		labels: f.labels, lastCompletion: new(atomic.Int64), window: new(window),
		arrivals:         f.counter("headgate_arrivals_total", "Tasks that came."),
		tasks:            f.counters("headgate_tasks_total", "Tasks that ended, by outcome; they add up to arrivals.", "outcome"),
		refusals:         f.counters("headgate_refusals_total", "Tasks that were turned away, by reason.", "reason"),
		wouldRefuse:      f.counters("headgate_would_refuse_total", "Tasks that mode enforce would have turned away, by reason.", "reason"),
		upstreamRefusals: f.counter("headgate_upstream_refusals_total", "Answers of the upstream with status 429."),
		announcedRetries: f.counter("headgate_announced_retries_total", "Tasks that their client announced as retries."),
		sloTasks:         f.counter("headgate_slo_tasks_total", "Tasks that count for the SLO."),
		sloBad:           f.counter("headgate_slo_bad_tasks_total", "Tasks that count for the SLO and were bad."),
	}
	for _, o := range admission.Outcomes() {
		p.tasks.WithLabelValues(o.String())
	}
	for _, r := range admission.Reasons() {
		p.refusals.WithLabelValues(r.String())
		p.wouldRefuse.WithLabelValues(r.String())
	}
	return p
}

func (p *poolMetrics) counters() []prometheus.Collector {
	return []prometheus.Collector{
		p.arrivals, p.tasks, p.refusals, p.wouldRefuse, p.upstreamRefusals, p.announcedRetries, p.sloTasks, p.sloBad,
	}
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
	if p.histograms == nil {
		return
	}
	p.histograms.observe(o)
	if counts, bad := classifyForSLO(o, p.histograms.slo); counts {
		p.sloTasks.Inc()
		if bad {
			p.sloBad.Inc()
		}
	}
}

// histograms are the durations of one pool: one histogram a pool, with the pool
// as a constant label, so that each has a bucket at its pool's SLO.
type histograms struct {
	slo                                       time.Duration
	queueWait, service, turnaround, firstByte prometheus.Histogram
}

func newHistograms(name string, slo time.Duration, faster float64) *histograms {
	f := metricFactory{prometheus.Labels{"pool": name}, buckets(slo, faster)}
	return &histograms{
		slo:        slo,
		queueWait:  f.histogram("headgate_queue_wait_seconds", "Time that granted tasks waited for their permit."),
		service:    f.histogram("headgate_service_seconds", "Time that permits were held."),
		turnaround: f.histogram("headgate_turnaround_seconds", "From arrival to the last byte, of tasks that went upstream."),
		firstByte:  f.histogram("headgate_first_byte_seconds", "From arrival to the first byte of the answer."),
	}
}

func (h *histograms) all() []prometheus.Collector {
	return []prometheus.Collector{h.queueWait, h.service, h.turnaround, h.firstByte}
}

func (h *histograms) observe(o *Observation) {
	if o.Granted {
		h.queueWait.Observe(o.Queued.Seconds())
		h.service.Observe(o.Service.Seconds())
		h.turnaround.Observe(o.Turnaround.Seconds())
	}
	if o.FirstByte > 0 {
		h.firstByte.Observe(o.FirstByte.Seconds())
	}
}

// metricFactory makes the metrics of one pool.
type metricFactory struct {
	labels  prometheus.Labels
	buckets []float64
}

func (f metricFactory) counter(name, help string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help, ConstLabels: f.labels})
}

func (f metricFactory) counters(name, help, label string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help, ConstLabels: f.labels}, []string{label})
}

func (f metricFactory) histogram(name, help string) prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, ConstLabels: f.labels, Buckets: f.buckets})
}

// buckets returns the bounds for durations in seconds: from 5 ms to ten
// minutes, so much faster, with the SLO and the three quarters of it where one is
// warned.
func buckets(slo time.Duration, faster float64) []float64 {
	b := []float64{
		.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 7.5, 10, 15, 20, 25, 30, 45, 60, 90, 120, 180, 300, 600,
	}
	for i := range b {
		b[i] /= faster
	}
	if slo > 0 {
		b = append(b, slo.Seconds(), slo.Seconds()*3/4)
	}
	slices.Sort(b)
	return slices.Compact(b)
}

// gateMetrics say how the gate of one pool itself fares. Load must not show in
// them: they are what takes a gate out.
type gateMetrics struct {
	falseRefusals *prometheus.CounterVec
	panics        prometheus.Counter
	fastPath      prometheus.Histogram
}

func newGateMetrics(pool string) *gateMetrics {
	f := metricFactory{prometheus.Labels{"pool": pool}, fastPathBuckets()}
	m := &gateMetrics{
		falseRefusals: f.counters("headgate_false_refusals_total", "Tasks that were refused though a second account of the pool would have let them in.", "reason"),
		panics:        f.counter("headgate_gate_panics_total", "Panics in the gate that were caught."),
		fastPath:      f.histogram("headgate_gate_free_seconds", "Time that each call on the gate took, of tasks that found a permit free."),
	}
	for _, r := range []admission.Reason{admission.ReasonQueueAge, admission.ReasonQueueDepth} {
		m.falseRefusals.WithLabelValues(r.String())
	}
	return m
}

// fastPathBuckets are few, with one bound at the second from which on a gate is too
// slow, so that no quantile below it is ever estimated to lie above.
func fastPathBuckets() []float64 {
	return []float64{10e-6, 100e-6, .001, .01, .1, .5, 1, 2, 5, 10, 30}
}

func (m *gateMetrics) all() []prometheus.Collector {
	return []prometheus.Collector{m.falseRefusals, m.panics, m.fastPath}
}

func (m *gateMetrics) observe(w GateEvent) {
	m.panics.Add(float64(w.Panics))
	if w.FalseRefusal != admission.ReasonNone {
		m.falseRefusals.WithLabelValues(w.FalseRefusal.String()).Inc()
	}
	if w.FastPath {
		m.fastPath.Observe(w.Took.Seconds())
	}
}

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
