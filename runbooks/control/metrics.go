package control

import (
	"github.com/prometheus/client_golang/prometheus"

	"headgate/proxy/admission"
)

// Metrics counts changes of mode and failures to record them.
type Metrics struct {
	changes *prometheus.CounterVec
	errors  *prometheus.CounterVec
}

// NewMetrics registers the counters.
func NewMetrics(reg prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		changes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "headgate_mode_changes_total", Help: "Mode changes by new mode and requesting interface.",
		}, []string{"pool", "mode", "actor"}),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "headgate_journal_errors_total", Help: "Failed reads and writes of the record by operation.",
		}, []string{"op"}),
	}
	for _, op := range []string{"record_mode", "read_requests", "record_entry", "record_guard", "record_pause"} {
		m.errors.WithLabelValues(op)
	}
	for _, c := range []prometheus.Collector{m.changes, m.errors} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// addPool creates a pool's counters at zero.
func (m *Metrics) addPool(name string) {
	for _, mode := range admission.Modes() {
		for _, via := range Vias() {
			m.changes.WithLabelValues(name, mode.String(), string(via))
		}
	}
}

func (m *Metrics) countChange(c ModeChange) {
	m.changes.WithLabelValues(c.Pool, c.To.String(), string(c.Via)).Inc()
}

func (m *Metrics) countError(op string) { m.errors.WithLabelValues(op).Inc() }
