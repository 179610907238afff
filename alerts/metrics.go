package alerts

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// resultLost is a result in metrics that no delivery has as its state: it could not be recorded, and the buffer was
// full.
const resultLost State = "lost"

// Metrics counts deliveries. All label values exist from the start.
type Metrics struct {
	deliveries    *prometheus.CounterVec
	outboxErrors  *prometheus.CounterVec
	oldestPending atomic.Int64 // when the oldest pending delivery was created, Unix ms; 0: none is pending
}

func allDestinations() []Destination { return []Destination{ToWarn, ToPage, ToDrills, ToFallback} }

// NewMetrics registers the metrics of deliveries.
func NewMetrics(reg prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		deliveries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "headgate_deliveries_total", Help: "Delivery attempts by result.",
		}, []string{"channel", "result"}),
		outboxErrors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "headgate_outbox_errors_total", Help: "Failed reads and writes of the outbox of messages.",
		}, []string{"op"}),
	}
	for _, to := range allDestinations() {
		for _, result := range []State{Sent, Retry, Uncertain, Dead, Dropped, resultLost} {
			m.deliveries.WithLabelValues(string(to), string(result))
		}
	}
	for _, op := range []string{"pending", "save", "root"} {
		m.outboxErrors.WithLabelValues(op)
	}
	oldest := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "headgate_delivery_oldest_pending_seconds",
		Help: "Age of the oldest message that has not arrived; 0 if all have.",
	}, func() float64 {
		ms := m.oldestPending.Load()
		if ms == 0 {
			return 0
		}
		return max(0, time.Since(time.UnixMilli(ms)).Seconds())
	})
	for _, c := range []prometheus.Collector{m.deliveries, m.outboxErrors, oldest} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *Metrics) count(to Destination, result State) {
	if slices.Contains(allDestinations(), to) { // label values come from this list only
		m.deliveries.WithLabelValues(string(to), string(result)).Inc()
	}
}

func (m *Metrics) setOldestPending(all map[threadKey][]Delivery) {
	var oldest int64
	for _, ds := range all {
		for _, d := range ds {
			if ms := max(1, d.Created.UnixMilli()); oldest == 0 || ms < oldest {
				oldest = ms
			}
		}
	}
	m.oldestPending.Store(oldest)
}
