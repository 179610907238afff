package slack

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// receptionMetrics count what came from Slack, and what pretended to.
type receptionMetrics struct {
	handled *prometheus.CounterVec
	refused *prometheus.CounterVec
}

// turnedAway are the reasons for which a callback gets to no worker.
func turnedAway() []string {
	return []string{"signature", "replayed", "repeated", "senseless", "busy"}
}

func newReceptionMetrics(reg prometheus.Registerer) (*receptionMetrics, error) {
	m := &receptionMetrics{
		handled: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "headgate_slack_presses_total", Help: "Buttons pressed and commands typed in Slack, by what they ask for and what became of it.",
		}, []string{"action", "ending"}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "headgate_slack_turned_away_total", Help: "Callbacks that got to nobody: forged, replayed, repeated by Slack, senseless, or too many at once.",
		}, []string{"reason"}),
	}
	for _, a := range Actions() {
		for _, e := range []Ending{Done, Refused, Failed} {
			m.handled.WithLabelValues(string(a), string(e))
		}
	}
	for _, why := range turnedAway() {
		m.refused.WithLabelValues(why)
	}
	return m, errors.Join(reg.Register(m.handled), reg.Register(m.refused))
}
