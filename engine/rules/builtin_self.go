package rules

import (
	"time"

	"headgate/engine"
)

// processRules returns the rules by which headgate watches itself.
func processRules() []engine.Rule {
	return []engine.Rule{
		{
			Name: "delivery_stuck", Unit: "s",
			Signal:  `headgate_delivery_oldest_pending_seconds`,
			Warn:    threshold(60, 30*time.Second),
			Page:    threshold(300, time.Minute),
			Clear:   engine.Clear{Below: 30, For: time.Minute},
			Summary: "messages to people do not arrive",
			Impact:  "nothing by itself: but you may not hear of trouble",
		},
		{
			Name: "delivery_dead", Unit: "messages",
			Signal:  `round(sum(increase(headgate_deliveries_total{result=~"dead|lost"}[15m])))`,
			Warn:    threshold(1, 10*time.Second),
			Clear:   engine.Clear{Below: 1, For: time.Minute},
			Summary: "a message to people was given up",
			Impact:  "nothing by itself: but you have not heard of something",
		},
		{
			Name: "evaluation_late", Unit: "ratio",
			Signal: `round((rate(headgate_evaluations_late_total[2m]) + rate(headgate_evaluations_skipped_total[2m]))` +
				` / (rate(headgate_evaluation_seconds_count[2m]) + rate(headgate_evaluations_skipped_total[2m])), 0.0001)`,
			Warn:    threshold(0.1, 2*time.Minute),
			Page:    threshold(0.5, 5*time.Minute),
			Clear:   engine.Clear{Below: 0.05, For: 2 * time.Minute},
			Summary: "rules are evaluated late",
			Impact:  "nothing by itself: but trouble is noticed late, and the machine is probably overloaded",
		},
		{
			Name: "journal_failing", Unit: "errors",
			Signal: `round(sum(increase(headgate_journal_errors_total[2m]))` +
				` + (sum(increase(headgate_outbox_errors_total[2m])) or vector(0)))`,
			Warn:    threshold(3, 10*time.Second),
			Page:    threshold(15, time.Minute),
			Clear:   engine.Clear{Below: 1, For: 2 * time.Minute},
			Summary: "the record cannot be written or read",
			Impact:  "nothing by itself: but what happens now may be forgotten at the next restart",
		},
	}
}
