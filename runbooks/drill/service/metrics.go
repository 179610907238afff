package service

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"headgate/runbooks/drill"
	"headgate/runbooks/drill/schedule"
)

// Metrics are the metrics of drills.
type Metrics struct {
	runs                       *prometheus.CounterVec
	lastPass, firstDue, period *prometheus.GaugeVec
}

// NewMetrics registers the metrics.
func NewMetrics(reg prometheus.Registerer) (*Metrics, error) {
	gauge := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, []string{"drill"})
	}
	m := &Metrics{
		runs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "headgate_drill_runs_total", Help: "Runs of drills that have ended, by verdict.",
		}, []string{"drill", "verdict"}),
		lastPass: gauge("headgate_drill_last_pass_timestamp_seconds",
			"End of the latest run of the drill that passed; absent before the first."),
		firstDue: gauge("headgate_drill_first_due_timestamp_seconds",
			"First scheduled time observed for the drill; absent before."),
		period: gauge("headgate_drill_period_seconds",
			"Time between two due times of the drill; absent without a schedule."),
	}
	return m, errors.Join(reg.Register(m.runs), reg.Register(m.lastPass), reg.Register(m.firstDue), reg.Register(m.period))
}

// SetSpecs creates the counters of drills at zero, and sets their periods.
func (m *Metrics) SetSpecs(specs []drill.Spec, now time.Time) {
	m.period.Reset()
	for _, s := range specs {
		for _, v := range drill.Verdicts() {
			m.runs.WithLabelValues(s.ID, string(v))
		}
		due, err := schedule.ParseSchedule(s.Schedule, s.Zone)
		if s.Schedule == "" || err != nil { // invalid ones were refused with the settings
			continue
		}
		if p := due.Period(now); p > 0 {
			m.period.WithLabelValues(s.ID).Set(p.Seconds())
		}
	}
}

func (m *Metrics) observe(r drill.Run) {
	m.runs.WithLabelValues(r.Drill, string(r.Verdict)).Inc()
	if r.Verdict == drill.Passed {
		setTime(m.lastPass, r.Drill, r.Ended)
	}
}

func setTime(g *prometheus.GaugeVec, id string, at time.Time) {
	g.WithLabelValues(id).Set(float64(at.UnixMilli()) / 1000)
}

// VerdictText states the verdict of a run, how close it was, and where to read more. The owner of a failed drill
// is named unless the message mentions them.
func VerdictText(r drill.Run, externalURL string, mentioned bool) string {
	var s strings.Builder
	fmt.Fprintf(&s, "Drill %s: %s.", r.Name, strings.ToUpper(string(r.Verdict)))
	if r.Reason != "" {
		fmt.Fprintf(&s, " %s.", strings.TrimSuffix(r.Reason, "."))
	}
	if h, ok := r.Tightest(); ok && r.Verdict != drill.Passed {
		fmt.Fprintf(&s, " Closest to its limit: %s, at %s (margin %.2f).",
			h.Expectation, drill.FormatAmount(h.Value, h.Unit), h.Margin)
	}
	if r.Spec.Owner != "" && r.Verdict == drill.Failed && !mentioned {
		fmt.Fprintf(&s, " Owner: %s.", r.Spec.Owner)
	}
	if externalURL != "" {
		return s.String() + " " + strings.TrimSuffix(externalURL, "/") + "/drills/runs/" + r.ID
	}
	return s.String() + " Details: headgate drill show " + r.ID
}
