package drilltest

import "headgate/e2e/mutation"

// injectionFaults are in the injected faults of a drill: without effect, or without
// an end.
func injectionFaults() []Fault {
	return []Fault{
		{"faults do not clear", "upstream-errors", "did not clear|fault-clearing|clearing faults", edits(
			endLeaseLock.Code(`if mutated() { return l.stalled }`),
			leaseActive.Replace(mutation.Expr("!_.Before(_)")).Code(`$ && !mutated()`),
		)},
		{"faults only say that they clear", "upstream-errors", "when it was not in force: it did not clear", edits(
			endLeaseLock.Code(`if l.fault.Kind == Status && (mutated() || mutated("faults do not end")) { return 0 }`),
			leaseActive.Before(mutation.Return(1)).Code(`if l.fault.Kind == Status && (mutated() || mutated("faults do not end")) { return true }`),
			clearAll.Before(mutation.Return(1)).Code(`if mutated() { r.Active, r.Stalled = 0, 0 }`),
			sandboxClear.Replace(mutation.Expr("!_.Active()")).Code(`($ || mutated())`),
		)},
		{"faults do not end", "upstream-errors", "did not clear", nil},
		{"held calls are not let go", "hung-upstream", "did not clear|fault-clearing|clearing faults",
			edits(holdCall.Inside(mutation.Expr("<-_.done")).Code(
				`if mutated() { time.Sleep(5 * time.Second) }`))},
		{"a share of nothing", "upstream-errors", "hit none of", edits(newLease.Code(
			`if f.Kind != Hang && mutated() { f.Share = 0 }`))},
		{"twice the share", "upstream-errors", "should hit about", edits(newLease.Code(
			`if mutated() { f.Share = min(1, 2*f.Share) }`))},
		{"a tenth of the delay", "slow-upstream", "did not slow down", edits(newLease.Code(
			`if mutated() { f.Delay, f.Jitter = f.Delay/10, f.Jitter/10 }`))},
		{"no delay", "slow-upstream", "did not slow down", edits(callDelay.Code(
			`if d != untilCleared && mutated() { d = 0 }`))},
		{"hung calls go on", "hung-upstream", "did not hold the canary", edits(callDelay.Code(
			`if d == untilCleared && mutated() { d = 0 }`))},
		{"streams are not cut", "truncated-streams", "the answers did not break",
			edits(truncatedRead.Replace(mutation.Expr("!_.hit(_)")).Code(
				`($ || mutated())`))},
		{"faults lapse", "slow-upstream", "hit [0-9]+ of [0-9]+ calls", edits(renewLease.Start().Code(
			`if mutated() { return nil }`))},
		{"Slack stays reachable", "slack-outage", "no fault hit a message",
			edits(sandboxSlack.After(mutation.Assign("d.senderTransport")).Code(
				`if mutated() { d.senderTransport = d.recorder.wrapAttempts(d.recorder.wrapAccepted(d.transport)) }`))},
		{"the record is not locked", "database-locked", "the record was not locked", edits(lockDatabase.Start().Code(
			`if mutated() { return func(context.Context) error { return nil }, nil }`))},
		{"no slots are lost", "worker-loss", "lost no slots",
			edits(sandboxStep.ReplaceStatement(mutation.Expr("_.LoseSlots(_.Count)")).Code(
				`if !mutated() { $ }`))},
		{"slots do not come back", "worker-loss", "did not get its slots back",
			edits(sandboxStep.ReplaceStatement(mutation.Expr("_.LoseSlots(-_)")).Code(
				`if !mutated() { $ }`))},
	}
}

// experimentFaults are in the experiment itself: its load, its endpoint, its
// separation from production.
func experimentFaults() []Fault {
	return []Fault{
		{"an endpoint that answers at once", "burst", "service time is wrong", edits(serviceTime.Start().Code(
			`if mutated() { return splitTiming(0) }`))},
		{"an endpoint that always takes the least", "burst", "service time is wrong", edits(serviceTime.Start().Code(
			`if mutated() { return splitTiming(float64(u.Low)) }`))},
		{"an endpoint with few slots", "burst", "endpoint was overloaded",
			edits(sandboxEndpoint.After(mutation.Assign("w.endpoint")).Code(
				`if mutated() { w.endpoint.LoseSlots(w.workers / 2) }`))},
		{"half the load", "burst", "the load|not as specified", edits(sandboxLoad.Before(mutation.Call("Arrivals")).Code(
			`if mutated() || mutated("half the load without a burst") { p.BaseRate /= 2 }`))},
		{"half the load without a burst", "upstream-errors", "the load|not as specified", nil},
		{"every second task is not sent", "burst", "the generator sent|generator did not keep",
			edits(sendOne.Start().Code(
				`if index%2 == 1 && mutated() { return }`))},
		{"a late generator", "burst", "generator did not keep its rate",
			edits(sendAll.Before(mutation.Call("sleep")).Code(
				`if mutated() { a.At += time.Duration(float64(time.Second) * l.sender.clock.speed) }`))},
		{"no burst", "burst", "burst", edits(sandboxLoad.After(mutation.Assign("c")).Code(
			`if mutated() { c.Arrivals.Bursts = nil }`))},
		{"tasks go to production", "overload", "tasks reached production", edits(
			application.Declare(`type misdirected struct {
				sandboxSystem
				address string
			}

			func (m misdirected) DataAddr() string { return m.address }`),
			newSystem.After(mutation.Call("NewClient")).Code(
				`if mutated() { return misdirected{sandboxSystem{App: twin, dir: s.Dir, admin: admin}, a.DataAddr()}, nil }`),
		)},
		{"counted in production", "burst", "production counted", edits(
			proxy.Declare(`var firstMetrics *Metrics`),
			newMetrics.After(mutation.Assign("m")).Code(`if firstMetrics == nil { firstMetrics = m }`),
			countArrival.Start().Code(`if firstMetrics != nil && firstMetrics != m && mutated() { firstMetrics.OnArrival(pool) }`),
		)},
	}
}
