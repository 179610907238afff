package rules

import (
	"time"

	"headgate/engine"
)

// drillOverdueRule watches that what was proved once is proved again: the age of the
// oldest last pass, in periods of its drill's schedule. One that never passed counts
// from when it was first due. Without schedules it is 0.
func drillOverdueRule() engine.Rule {
	return engine.Rule{
		Name: "drill_overdue", Unit: "periods",
		Signal: `round(max((time() - (headgate_drill_last_pass_timestamp_seconds or headgate_drill_first_due_timestamp_seconds))` +
			` / on (drill) headgate_drill_period_seconds) or vector(0), 0.01)`,
		Warn:    threshold(1.5, time.Minute),
		Clear:   engine.Clear{Below: 1.5, For: time.Minute},
		Summary: "a drill has not passed for too long",
		Impact:  "nothing by itself: but it is no longer known that gate, alerts and rollback work",
	}
}
