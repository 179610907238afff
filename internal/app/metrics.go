package app

import (
	"fmt"

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
