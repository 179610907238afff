package engine

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Operations on the journal, as they are counted when they fail.
const (
	opLoad = "load_incidents"
	opSave = "save_incidents"
)

// Metrics are the metrics of one Engine. They are safe for concurrent use.
type Metrics struct {
	duration      prometheus.Histogram
	late          prometheus.Counter
	skipped       prometheus.Counter
	failed        prometheus.Counter
	dropped       prometheus.Counter
	journalErrors *prometheus.CounterVec
	unsaved       atomic.Int64
	snapshot      atomic.Pointer[Snapshot]
}

// NewMetrics registers an engine's metrics. A headgate_journal_errors_total that is registered already is shared.
func NewMetrics(reg prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "headgate_evaluation_seconds", Help: "Duration of an evaluation of the rules.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2, 5},
		}),
		late: counter("headgate_evaluations_late_total",
			"Evaluations that started late or took longer than the interval."),
		skipped: counter("headgate_evaluations_skipped_total",
			"Evaluations skipped because an earlier one took too long."),
		failed: counter("headgate_evaluations_failed_total",
			"Evaluations that hung or panicked; their signals count as missing."),
		dropped: counter("headgate_incident_events_dropped_total",
			"Incident events dropped because too many waited for the journal."),
		journalErrors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "headgate_journal_errors_total", Help: "Failed reads and writes of the record by operation.",
		}, []string{"op"}),
	}
	unsaved := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "headgate_incident_events_unrecorded", Help: "Incident events that wait for the journal.",
	}, func() float64 { return float64(m.unsaved.Load()) })
	for _, c := range []prometheus.Collector{m.duration, m.late, m.skipped, m.failed, m.dropped, unsaved, stateCollector{m}} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	if err := m.registerJournalErrors(reg); err != nil {
		return nil, err
	}
	m.journalErrors.WithLabelValues(opLoad)
	m.journalErrors.WithLabelValues(opSave)
	return m, nil
}

func counter(name, help string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
}

// registerJournalErrors registers the counter of journal errors, or shares the one that another package has registered.
func (m *Metrics) registerJournalErrors(reg prometheus.Registerer) error {
	err := reg.Register(m.journalErrors)
	var there prometheus.AlreadyRegisteredError
	if errors.As(err, &there) {
		if vec, ok := there.ExistingCollector.(*prometheus.CounterVec); ok {
			m.journalErrors = vec
			return nil
		}
	}
	return err
}

func (m *Metrics) countJournalError(op string) { m.journalErrors.WithLabelValues(op).Inc() }

func (m *Metrics) observeEvaluation(took time.Duration, late bool) {
	m.duration.Observe(took.Seconds())
	if late {
		m.late.Inc()
	}
}

var (
	ruleStateDesc = prometheus.NewDesc("headgate_rule_state",
		"1 for the current state of a rule, 0 for the others.", []string{"rule", "pool", "state"}, nil)
	incidentsOpenDesc = prometheus.NewDesc("headgate_incidents_open", "Open incidents by severity.",
		[]string{"severity"}, nil)
)

// stateCollector derives metrics from the latest snapshot.
type stateCollector struct{ m *Metrics }

// Describe implements prometheus.Collector.
func (stateCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- ruleStateDesc
	ch <- incidentsOpenDesc
}

// Collect implements prometheus.Collector.
func (s stateCollector) Collect(ch chan<- prometheus.Metric) {
	now := s.m.snapshot.Load()
	if now == nil {
		now = &Snapshot{}
	}
	for _, r := range now.Rules {
		is := r.State.Label()
		for _, name := range StateLabels() {
			ch <- prometheus.MustNewConstMetric(ruleStateDesc, prometheus.GaugeValue, boolToFloat(name == is),
				r.Rule.Name, r.Rule.Pool, name)
		}
	}
	open := map[Level]float64{}
	for _, i := range now.Incidents {
		if i.Open() {
			open[i.Level]++
		}
	}
	for _, l := range []Level{LevelWarn, LevelPage} {
		ch <- prometheus.MustNewConstMetric(incidentsOpenDesc, prometheus.GaugeValue, open[l], l.String())
	}
}

func boolToFloat(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// StateLabels returns what State.Label can return.
func StateLabels() []string { return []string{"ok", "pending", "warn", "page", "recovering"} }

// Label returns the state as metrics and tests of rules call it.
func (s State) Label() string {
	switch s.Phase {
	case Pending:
		return "pending"
	case Firing:
		return s.Level.String()
	case Recovering:
		return "recovering"
	default:
		return "ok"
	}
}
