package drilltest

import "headgate/e2e/mutation"

// messageFaults are in alerts and their delivery.
func messageFaults() []Fault {
	return []Fault{
		{"no post", "alert-path", "no message was accepted by Slack: no attempt",
			edits(attempt.ReplaceStatement(mutation.Call("Send")).Code(
				`if mutated() { r.send = SendResult{Outcome: Delivered, Ref: Ref{Channel: "C1", TS: "1.1"}} } else { $ }`))},
		{"Slack says no place", "alert-path", "no warning arrived|no message was accepted by Slack, of [0-9]+ tries",
			edits(acceptMessage.After(mutation.Call("add")).Code(
				`if mutated() { return object{"ok": true, "channel": c.ID} }`))},
		{"Slack refuses all", "alert-path", "no message was accepted by Slack, of [0-9]+ tries",
			edits(acceptMessage.Start().Code(
				`if mutated() { return errorObject("fatal_error") }`))},
		{"no warnings", "alert-path", "the warning was accepted .*time_to_warn",
			edits(reachedLevel.Replace(mutation.Expr("_ >= _.Warn.For")).Code(
				`$ && !mutated()`))},
		{"no alerts", "alert-path", "no message was accepted by Slack: no attempt", edits(reachedLevel.Start().Code(
			`if mutated() { return LevelNone }`))},
		{"no pages", "alert-path", "no page arrived",
			edits(reachedLevel.Replace(mutation.Expr("_ >= _.Page.For")).Code(
				`$ && !mutated()`))},
		{"warnings are pages", "alert-path", "breaches its limit",
			edits(reachedLevel.Before(mutation.Expr("LevelWarn")).Code(
				`if mutated() { return LevelPage }`))},
		{"never resolved", "alert-path", "announced the end", edits(planEvent.Start().Code(
			`if e.Kind == engine.EventResolved && mutated() { return nil }`))},
		{"over too early", "alert-path", "no page arrived", edits(updateOpen.After(mutation.Assign("inc")).Code(
			`if b.breach() && t.now.Sub(inc.Opened) > 2*time.Second && mutated() {
				t.resolve(s, Recovered)
				return
			}`))},
		{"another pool is named", "alert-path", "names pool", edits(poolSuffix.Code(
			`if mutated() { pool = "another" }`))},
		{"no pool is named", "alert-path", "does not name the pool", edits(poolSuffix.Code(
			`if mutated() { return "" }`))},
		{"DRILL is missing", "alert-path", "does not say DRILL", edits(drillPrefix.Start().Code(
			`if mutated() { return "" }`))},
		{"no value", "alert-path", "value", edits(valueText.Start().Code(
			`if mutated() { return "too much" }`))},
		{"a wrong value", "alert-path", "value", edits(valueText.Start().Code(
			`if mutated() { inc.Value = 0 }`))},
		{"message late", "alert-path", "too late", edits(attempt.After(mutation.Assign("notifier")).Code(
			`if mutated() && s.delivery.Kind == Post { time.Sleep(8 * time.Second) }`))},
		{"message twice", "alert-path", "sent twice",
			edits(postMessage.Before(mutation.Call("PostMessageWithResponseContext")).Code(
				`if mutated() {
				_, _, _, _ = b.api.PostMessageWithResponseContext(ctx, to, opts...)
				time.Sleep(1100 * time.Millisecond)
			}`))},
		{"messages stay as they were", "alert-path", "still says", edits(editMessage.Start().Code(
			`if mutated() { return alerts.SendResult{Outcome: alerts.Delivered, Ref: root} }`))},
		{"given up at once", "slack-outage", "no message announced|no resolved message arrived",
			edits(settleAttempt.Start().Code(
				`if result.Outcome != Delivered && mutated() { result.Outcome = PermanentFailure }`))},
	}
}
