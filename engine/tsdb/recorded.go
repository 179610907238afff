package tsdb

import (
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
)

// LongWindow is the shortest window that has to read recorded series.
const LongWindow = 3600 // seconds

const (
	recordedPrefix = "headgate:"
	recordedSuffix = ":1m"
)

// recordable are the families that are recorded once a minute: those of pools that
// count tasks, and the histograms that quantiles over long windows are taken of.
var recordable = map[string]bool{
	"headgate_arrivals_total": true, "headgate_tasks_total": true,
	"headgate_refusals_total": true, "headgate_would_refuse_total": true, "headgate_upstream_refusals_total": true,
	"headgate_slo_tasks_total": true, "headgate_slo_bad_tasks_total": true,
	"headgate_service_seconds_bucket": true, "headgate_service_seconds_sum": true, "headgate_service_seconds_count": true,
	"headgate_turnaround_seconds_bucket": true, "headgate_turnaround_seconds_sum": true, "headgate_turnaround_seconds_count": true,
}

// RecordedName returns the name of the recorded series of a counter, and whether it
// has one: headgate_slo_tasks_total has headgate:slo_tasks:1m.
func RecordedName(counter string) (string, bool) {
	if !recordable[counter] {
		return "", false
	}
	base := strings.TrimSuffix(strings.TrimPrefix(counter, prefix), "_total")
	return recordedPrefix + base + recordedSuffix, true
}

// CounterName returns the counter that a recorded series is of, and whether there is
// one of that name.
func CounterName(recorded string) (string, bool) {
	for name := range recordable {
		if r, _ := RecordedName(name); r == recorded {
			return name, true
		}
	}
	return "", false
}

// IsRecorded says whether a name is one of recorded series.
func IsRecorded(name string) bool {
	_, ok := CounterName(name)
	return ok
}

func recordedLabels(l labels.Labels) labels.Labels {
	name, ok := RecordedName(l.Get(model.MetricNameLabel))
	if !ok {
		return labels.EmptyLabels()
	}
	b := labels.NewBuilder(l)
	b.Set(model.MetricNameLabel, name)
	return b.Labels()
}
