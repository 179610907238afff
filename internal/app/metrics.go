package app

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"headgate/alerts"
	"headgate/engine"
	"headgate/proxy"
	"headgate/runbooks/control"
	"headgate/runbooks/drill/service"
)

// metrics are registered when an App is built, so that every series exists from the start.
type metrics struct {
	registry *prometheus.Registry
	proxy    *proxy.Metrics
	control  *control.Metrics
	engine   *engine.Metrics
	alerts   *alerts.Metrics
	drills   *service.Metrics
}

// newMetrics registers what belongs to the whole process, and the metrics of all parts.
func newMetrics(version string, scale engine.TimeScale) (m metrics, err error) {
	m.registry = prometheus.NewRegistry()
	build := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "headgate_build_info", Help: "1; the version is in the label.",
		ConstLabels: prometheus.Labels{"version": version},
	}, func() float64 { return 1 })
	m.registry.MustRegister(
		build, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	if m.proxy, err = proxy.NewMetrics(m.registry); err != nil {
		return m, err
	}
	m.proxy.SetTimeScale(float64(scale))
	if m.control, err = control.NewMetrics(m.registry); err != nil {
		return m, err
	}
	if m.engine, err = engine.NewMetrics(m.registry); err != nil {
		return m, err
	}
	if m.alerts, err = alerts.NewMetrics(m.registry); err != nil {
		return m, err
	}
	m.drills, err = service.NewMetrics(m.registry)
	return m, err
}

// addPools registers the metrics of pools. A pool that is known already keeps its own.
func (m metrics) addPools(pools []Pool) error {
	for _, pool := range pools {
		if err := m.proxy.AddPool(pool.Name, pool.SLO, pool.Gate); err != nil {
			return fmt.Errorf("metrics of pool %q: %w", pool.Name, err)
		}
	}
	return nil
}

// sloTotals returns the SLO counts of the proxy as the engine records them.
func (m metrics) sloTotals() map[string]engine.SLOTotals {
	totals := map[string]engine.SLOTotals{}
	for pool, c := range m.proxy.SLO() {
		totals[pool] = engine.SLOTotals(c)
	}
	return totals
}
