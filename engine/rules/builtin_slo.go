package rules

import (
	"fmt"
	"time"

	"headgate/engine"
)

// burnRules watch the error budget over four pairs of windows.
func burnRules() []engine.Rule {
	return []engine.Rule{
		burnRule("1h", "5m", engine.LevelPage, 14.4),
		burnRule("6h", "30m", engine.LevelPage, 6),
		burnRule("1d", "2h", engine.LevelWarn, 3),
		burnRule("3d", "6h", engine.LevelWarn, 1),
	}
}

// burnRule watches one pair. Between its two windows the smaller burn counts.
func burnRule(long, short string, level engine.Level, factor float64) engine.Rule {
	bad := func(window string) string {
		return fmt.Sprintf(`(sum_over_time(headgate:slo_bad_tasks:1m{pool="$pool"}[%s]) / sum_over_time(headgate:slo_tasks:1m{pool="$pool"}[%[1]s]))`, window)
	}
	r := engine.Rule{
		Name: "slo_burn_" + long, Unit: UnitBurn, Runbook: "slo_burn",
		Signal:    fmt.Sprintf(`round((%s < %s or %[2]s) / $budget, 0.01)`, bad(long), bad(short)),
		Events:    fmt.Sprintf(`sum_over_time(headgate:slo_tasks:1m{pool="$pool"}[%s])`, short),
		MinEvents: minEvents,
		Clear:     engine.Clear{Below: factor / 2, For: 5 * time.Minute},
		Summary:   fmt.Sprintf("the error budget of the SLO is used up %v times as fast as allowed, over %s and still over %s", factor, long, short),
		Impact:    "too many answers are late or fail",
	}
	if factor == 1 {
		r.Summary = fmt.Sprintf("the error budget of the SLO is used up faster than allowed, over %s and still over %s", long, short)
	}
	limit := threshold(factor, 150*time.Second)
	if level == engine.LevelPage {
		r.Page = limit
	} else {
		r.Warn = limit
	}
	return r
}
