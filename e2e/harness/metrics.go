package harness

import (
	"io"
	"math"
	"net/http"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Metrics is one scrape.
type Metrics map[string]*dto.MetricFamily

// Scrape reads /metrics and parses it.
func (g *Gate) Scrape(t testing.TB) Metrics {
	t.Helper()
	m, err := ParseMetrics(strings.NewReader(g.MetricsText(t)))
	if err != nil {
		t.Fatalf("parse /metrics: %v", err)
	}
	return m
}

// Metric returns the value of a metric, summed over the series that have the labels.
func (g *Gate) Metric(t testing.TB, name string, labels ...string) int {
	t.Helper()
	return int(g.Scrape(t).Sum(name, labels...))
}

// MetricsText returns /metrics as text.
func (g *Gate) MetricsText(t testing.TB) string {
	t.Helper()
	res, err := http.Get(g.Admin + "/metrics")
	if err != nil {
		t.Fatalf("scrape: %v", err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("scrape: status %d, error %v", res.StatusCode, err)
	}
	return string(text)
}

// ParseMetrics reads the text format of Prometheus.
func ParseMetrics(r io.Reader) (Metrics, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return parser.TextToMetricFamilies(r)
}

// Sum adds up the samples of a metric that have labels, given as name, value, name, value.
// For a histogram it returns the number of observations, for a metric that does not exist
// NaN, which equals nothing.
func (m Metrics) Sum(name string, labels ...string) float64 {
	family, ok := m[name]
	if !ok {
		return math.NaN()
	}
	sum := 0.0
	for _, sample := range family.GetMetric() {
		if hasLabels(sample, labels) {
			sum += value(sample)
		}
	}
	return sum
}

// By returns the samples of a metric by the values of a label, without zeros.
func (m Metrics) By(name, label string) map[string]int {
	out := map[string]int{}
	for _, sample := range m[name].GetMetric() {
		for _, l := range sample.GetLabel() {
			if l.GetName() == label && value(sample) != 0 {
				out[l.GetValue()] += int(value(sample))
			}
		}
	}
	return out
}

func hasLabels(sample *dto.Metric, labels []string) bool {
	for i := 0; i+1 < len(labels); i += 2 {
		found := false
		for _, l := range sample.GetLabel() {
			found = found || l.GetName() == labels[i] && l.GetValue() == labels[i+1]
		}
		if !found {
			return false
		}
	}
	return true
}

func value(sample *dto.Metric) float64 {
	switch {
	case sample.Counter != nil:
		return sample.GetCounter().GetValue()
	case sample.Gauge != nil:
		return sample.GetGauge().GetValue()
	case sample.Histogram != nil:
		return float64(sample.GetHistogram().GetSampleCount())
	default:
		return sample.GetUntyped().GetValue()
	}
}
