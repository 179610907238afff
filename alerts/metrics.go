package alerts

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Result is what an attempt, or a decision without one, has come to.
type Result string

// The results.
const (
	ResultSent      Result = "sent"
	ResultRetry     Result = "retry"
	ResultUncertain Result = "uncertain"
	ResultDead      Result = "dead"
	ResultDropped   Result = "dropped" // a newer one says it
	ResultLost      Result = "lost"    // could not be recorded, and memory was full
)

// Metrics counts deliveries. All label values exist from the start.
type Metrics struct {
	deliveries    *prometheus.CounterVec
	outboxErrors  *prometheus.CounterVec
	oldestPending atomic.Int64 // when the oldest pending one was created, unix ms; 0: none is pending
}

// NewMetrics registers the metrics of deliveries.
func NewMetrics(reg prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		deliveries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "headgate_deliveries_total", Help: "What attempts to deliver messages came to.",
		}, []string{"channel", "result"}),
		outboxErrors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "headgate_outbox_errors_total", Help: "Failed reads and writes of the record of deliveries.",
		}, []string{"op"}),
	}
	for _, to := range []Destination{ToWarn, ToPage, ToDrills, ToFallback} {
		for _, r := range []Result{ResultSent, ResultRetry, ResultUncertain, ResultDead, ResultDropped, ResultLost} {
			m.deliveries.WithLabelValues(string(to), string(r))
		}
	}
	for _, op := range []string{"pending", "save", "root"} {
		m.outboxErrors.WithLabelValues(op)
	}
	oldest := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "headgate_delivery_oldest_pending_seconds",
		Help: "Age of the oldest message that has not arrived; 0 if all have.",
	}, func() float64 { return m.oldestPendingAge(time.Now()).Seconds() })
	for _, c := range []prometheus.Collector{m.deliveries, m.outboxErrors, oldest} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *Metrics) count(to Destination, r Result) {
	switch to {
	case ToWarn, ToPage, ToDrills, ToFallback:
		m.deliveries.WithLabelValues(string(to), string(r)).Inc()
	}
}

func (m *Metrics) setOldestPending(t time.Time) {
	if t.IsZero() {
		m.oldestPending.Store(0)
		return
	}
	m.oldestPending.Store(max(1, t.UnixMilli()))
}

func (m *Metrics) oldestPendingAge(now time.Time) time.Duration {
	ms := m.oldestPending.Load()
	if ms == 0 {
		return 0
	}
	return max(0, now.Sub(time.UnixMilli(ms)))
}
