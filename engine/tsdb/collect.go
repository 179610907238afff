package tsdb

import (
	"context"
	"fmt"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
)

// prefix of the families that are kept.
const prefix = "headgate_"

// Sample is a value of one series.
type Sample struct {
	Labels labels.Labels // with the name as __name__
	V      float64
}

// Collect gathers the process's own families once, and writes them at now. What
// goes wrong is noted in Health.
func (db *DB) Collect(ctx context.Context, now time.Time) {
	if db.o.Gatherer == nil {
		return
	}
	all, err := db.gather(now)
	if err != nil {
		db.metrics.gatherErrors.Inc()
		db.o.Log.Debug("some metrics could not be gathered", "error", err)
	}
	_ = db.Append(ctx, now, all) // noted in Health
}

// gather returns what there is, also beside an error: one bad collector does not
// blind the rules on the others.
func (db *DB) gather(now time.Time) (all []Sample, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("a collector panicked: %v", v)
		}
	}()
	families, err := db.o.Gatherer.Gather()
	var ours []*dto.MetricFamily
	for _, f := range families {
		if strings.HasPrefix(f.GetName(), prefix) {
			ours = append(ours, f)
		}
	}
	vector, extractErr := expfmt.ExtractSamples(&expfmt.DecodeOptions{Timestamp: model.TimeFromUnixNano(now.UnixNano())}, ours...)
	if err == nil {
		err = extractErr
	}
	all = make([]Sample, 0, len(vector))
	for _, s := range vector {
		all = append(all, Sample{Labels: sortedLabels(s.Metric), V: float64(s.Value)})
	}
	return all, err
}

// sortedLabels returns the labels of a metric as the storage takes them.
func sortedLabels(m model.Metric) labels.Labels {
	b := labels.NewScratchBuilder(len(m))
	for name, value := range m {
		b.Add(string(name), string(value))
	}
	b.Sort()
	return b.Labels()
}
