package slack

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// interactionMetrics count what came from Slack, and what pretended to.
type interactionMetrics struct {
	handled  *prometheus.CounterVec
	rejected *prometheus.CounterVec
}

// rejectReasons are the reasons for which a callback gets to no worker.
func rejectReasons() []string {
	return []string{"signature", "replayed", "repeated", "senseless", "busy"}
}

func newInteractionMetrics(reg prometheus.Registerer) (*interactionMetrics, error) {
	m := &interactionMetrics{
		handled: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "headgate_slack_presses_total", Help: "Buttons pressed and commands typed in Slack, by what they ask for and what became of it.",
		}, []string{"action", "ending"}),
		rejected: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "headgate_slack_turned_away_total", Help: "Callbacks that got to nobody: forged, replayed, repeated by Slack, senseless, or too many at once.",
		}, []string{"reason"}),
	}
	for _, a := range Actions() {
		for _, e := range []Result{Done, Refused, Failed} {
			m.handled.WithLabelValues(string(a), string(e))
		}
	}
	for _, why := range rejectReasons() {
		m.rejected.WithLabelValues(why)
	}
	return m, errors.Join(reg.Register(m.handled), reg.Register(m.rejected))
}
