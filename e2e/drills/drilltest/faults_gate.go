package drilltest

import "headgate/e2e/mutation"

// gateFaults are in the gate: what it admits, queues and dispatches.
func gateFaults() []Fault {
	return []Fault{
		{"refusals off", "burst", "does not refuse", edits(admissionResult.Code(
			`if mutated() { verdict = Verdict{} }`))},
		{"everything refused", "burst", "refuses too early", edits(admissionResult.Code(
			`if mutated() { verdict = Verdict{ReasonQueueDepth, time.Second} }`))},
		{"refused by chance", "burst", "refuses too early", edits(admissionResult.Code(
			`if mutated() && now.UnixNano()%3 == 0 { verdict = Verdict{ReasonQueueDepth, time.Second} }`))},
		{"never recovers", "burst", "refuses too early", edits(
			admission.Declare(`var everRefused atomic.Bool`),
			admissionResult.Code(`if mutated() {
				if everRefused.Load() && now.UnixNano()%3 == 0 { verdict = Verdict{ReasonQueueDepth, time.Second} }
				if verdict.Reason != ReasonNone { everRefused.Store(true) }
			}`),
		)},
		{"permits leak", "burst", "permits are not returned", edits(permitReturn.Code(
			`if mutated() && t.seq%10 == 0 { t.state = ended; return true }`))},
		{"permits of errors leak", "upstream-errors", "permits are not returned", edits(permitReturn.Code(
			`if mutated() && s != Served { t.state = ended; return true }`))},
		{"permits of hung calls leak", "hung-upstream", "permits are not returned", edits(permitReturn.Code(
			`if mutated() && now.Sub(t.granted) > 1800*time.Millisecond { t.state = ended; return true }`))},
		{"one worker too many", "burst", "more calls at once than workers",
			edits(permitFree.Replace(mutation.Expr("_ < _")).Code(
				`($ || mutated() && g.inFlight == g.settings.Workers)`))},
		{"workers idle", "burst", "not granted|are not returned", edits(permitFree.Start().Code(
			`if mutated() && g.inFlight >= g.settings.Workers*3/4 { return false }`))},
		{"last in first out", "burst", "order of arrival", edits(queueFront.Start().Code(
			`if mutated() {
				var last *Ticket
				for t := range q.all() { last = t }
				return last
			}`))},
		{"an age that stays", "burst", "refuses too early", edits(
			admission.Declare(`var oldestEver time.Duration`),
			thresholdPolicy.Start().Code(`if oldestEver = max(oldestEver, v.OldestAge(t.Class)); mutated() && oldestEver > p.MaxQueueAge {
				return Verdict{ReasonQueueAge, time.Second}
			}`),
		)},
		{"a queue of 20 a worker", "burst", "does not refuse", edits(thresholdPolicy.Start().Code(
			`if mutated() { p.DepthMultiple, p.MaxQueueAge = 20, time.Hour }`))},
		{"no limit on age", "overload", "does not refuse when it should|ignores the queue age",
			edits(thresholdPolicy.Start().Code(
				`if mutated() { p.MaxQueueAge = time.Hour }`))},
		{"no limit on depth", "overload", "does not refuse when it should", edits(thresholdPolicy.Start().Code(
			`if mutated() { p.DepthMultiple = 1000 }`))},
		{"a fifth of the age", "burst", "refuses too early", edits(thresholdPolicy.Start().Code(
			`if mutated() { p.MaxQueueAge /= 5 }`))},
		{"a shorter queue", "burst", "refuses too early", edits(thresholdPolicy.Start().Code(
			`if excess := v.Depth - v.Workers; mutated() && excess > 0 { return Verdict{ReasonQueueDepth, v.DrainTime(excess)} }`))},
		{"a slow decision", "burst", "after the endpoint was done|refusals came|not granted",
			edits(admissionResult.Code(
				`if mutated() { time.Sleep(80 * time.Millisecond) }`))},
	}
}
