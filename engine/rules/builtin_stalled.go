package rules

import (
	"fmt"
	"time"

	"github.com/prometheus/common/model"

	"headgate/engine"
)

// stalledRule watches for workers that are all busy while nothing is finished. Its
// value is for how long that has been so, by how long it may be: the larger of the
// SLO and three times the 95th percentile of service. What it counts from is the
// latest of three moments: when something was completed last, when a worker was
// last free, and the first sample within the look-back. (An hour without work is no
// stall.) While permits come back, by errors too, it is 0.
func stalledRule(p Pool) engine.Rule {
	slo := p.SLO
	back := min(max(15*time.Minute, 4*slo), 50*time.Minute) // short of what has to be recorded
	most := percentOf(back.Seconds(), 90)                   // beyond it a wait could not be seen
	quiet := min(max(slo.Round(time.Second), 10*time.Second), back)
	sinceDone := fmt.Sprintf(`time() - max_over_time(headgate_last_completion_timestamp_seconds{pool="$pool"}[%s])`, model.Duration(back))
	sinceFree := fmt.Sprintf(`time() - max_over_time(((headgate_in_flight{pool="$pool"} < bool headgate_workers{pool="$pool"}) * time())[%s:5s])`, model.Duration(back))
	sinceFirst := fmt.Sprintf(`time() - min_over_time(timestamp(headgate_in_flight{pool="$pool"})[%s:5s])`, model.Duration(back))
	noneBack := fmt.Sprintf(`(rate(headgate_service_seconds_count{pool="$pool"}[%s]) == bool 0)`, model.Duration(quiet))
	service := `3 * histogram_quantile(0.95, sum_over_time(headgate:service_seconds_bucket:1m{pool="$pool"}[30m]))`
	limit := fmt.Sprintf(`clamp_max(%s > %s or on () vector(%[2]s), %s)`, service, formatNumber(min(slo.Seconds(), most)), formatNumber(most))
	return engine.Rule{
		Name: "stalled", Unit: "ratio",
		Signal: fmt.Sprintf(`round(clamp_max(clamp_max(%s, scalar(%s)), scalar(%s)) * on (pool) %s / scalar(%s), 0.01)`,
			sinceDone, sinceFree, sinceFirst, noneBack, limit),
		Page:    threshold(1, 10*time.Second),
		Clear:   engine.Clear{Below: 0.5, For: 30 * time.Second},
		Summary: "every worker is busy and nothing is finished",
		Impact:  "no answer comes to an end; what waits does not begin",
	}
}
