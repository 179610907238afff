package rig

import "headgate/e2e/sabotage"

const (
	leaseGo    = "proxy/fault/lease.go"
	injectorGo = "proxy/fault/injector.go"
	befallGo   = "proxy/fault/befall.go"
	loadGo     = "internal/app/twin_load.go"
	twinGo     = "internal/app/twin.go"
	stepsGo    = "internal/app/twin_steps.go"
	serviceGo  = "internal/modelstub/service.go"

	injects  = "	l := &Lease{owner: i, fault: f,"
	finishes = "func (l *Lease) finish() (held int) {\n	l.mu.Lock()\n	defer l.mu.Unlock()\n"
)

// injectionFaults are in what disturbs: it does not, or does not end.
func injectionFaults() []Fault {
	return []Fault{
		{"faults do not clear", "upstream-errors", "did not clear|brakes", []sabotage.Edit{
			at(leaseGo, finishes, "	if sabotaged(\"faults do not clear\") {\n		return l.held\n	}\n"),
			instead(leaseGo, "	if !l.over && !now.Before(l.ends) {\n", "	if !l.over && !now.Before(l.ends) && !sabotaged(\"faults do not clear\") {\n"),
		}},
		{"faults only say that they clear", "upstream-errors", "when it was not in force: it did not clear", []sabotage.Edit{
			at(leaseGo, finishes, "	if l.fault.Kind == Status && (sabotaged(\"faults only say that they clear\") || sabotaged(\"faults do not end\")) {\n		return 0\n	}\n"),
			instead(leaseGo, "	return !l.over\n}\n", "	return !l.over || l.fault.Kind == Status && (sabotaged(\"faults only say that they clear\") || sabotaged(\"faults do not end\"))\n}\n"),
			instead(injectorGo, "	r.Took, r.LetGo = time.Since(began), letGo\n", "	r.Took, r.LetGo = time.Since(began), letGo\n	if sabotaged(\"faults only say that they clear\") {\n		r.Standing, r.Held = 0, 0\n	}\n"),
			instead("internal/app/twin_place.go", "	c.Confirmed = !l.Stands() && err == nil // others may stand\n", "	c.Confirmed = (!l.Stands() || sabotaged(\"faults only say that they clear\")) && err == nil\n"),
		}},
		{"faults do not end", "upstream-errors", "did not clear", nil},
		{"held calls are not let go", "hung-upstream", "did not clear|brakes", one(instead(leaseGo, "		case <-l.gone:\n			timer.Stop()\n			return nil\n",
			"		case <-l.gone:\n			if sabotaged(\"held calls are not let go\") {\n				time.Sleep(5 * time.Second)\n			}\n			timer.Stop()\n			return nil\n"))},
		{"a share of nothing", "upstream-errors", "befell none", one(before(injectorGo, injects,
			"	if f.Kind != Hang && sabotaged(\"a share of nothing\") {\n		f.Share = 0\n	}\n"))},
		{"twice the share", "upstream-errors", "should befall about", one(before(injectorGo, injects,
			"	if sabotaged(\"twice the share\") {\n		f.Share = min(1, 2*f.Share)\n	}\n"))},
		{"a tenth of the delay", "slow-upstream", "did not slow down", one(before(injectorGo, injects,
			"	if sabotaged(\"a tenth of the delay\") {\n		f.Delay, f.Jitter = f.Delay/10, f.Jitter/10\n	}\n"))},
		{"no delay", "slow-upstream", "did not slow down", one(before(befallGo, "		if err := l.hold(r.Context(), d); err != nil {\n",
			"		if d != forever && sabotaged(\"no delay\") {\n			d = 0\n		}\n"))},
		{"hung calls go on", "hung-upstream", "did not hold the canary", one(before(befallGo, "		if err := l.hold(r.Context(), d); err != nil {\n",
			"		if d == forever && sabotaged(\"hung calls go on\") {\n			d = 0\n		}\n"))},
		{"streams are not cut", "truncated-streams", "the answers did not break", one(instead("proxy/fault/body.go", "	c.spent = true\n	if !c.lease.strike(c.ctx) {\n",
			"	c.spent = true\n	if !c.lease.strike(c.ctx) || sabotaged(\"streams are not cut\") {\n"))},
		{"faults lapse", "slow-upstream", "befell [0-9]+ of [0-9]+ calls", one(at(leaseGo, "func (l *Lease) Renew(ttl time.Duration) error {\n",
			"	if sabotaged(\"faults lapse\") {\n		return nil\n	}\n"))},
		{"Slack stays reachable", "slack-outage", "no fault befell a message", one(instead("internal/app/twin_standin.go", "	d.way = d.receiver.attempts(d.faults)\n",
			"	d.way = d.receiver.attempts(d.faults)\n	if sabotaged(\"Slack stays reachable\") {\n		d.way = d.receiver.attempts(d.receiver.acceptances(d.transport))\n	}\n"))},
		{"the record is not locked", "database-locked", "the record was not locked", one(at(stepsGo, "func lockRecord(ctx context.Context, path string) (unlock func(context.Context) error, err error) {\n",
			"	if sabotaged(\"the record is not locked\") {\n		return func(context.Context) error { return nil }, nil\n	}\n"))},
		{"no slots are lost", "worker-loss", "lost no slots", one(instead(stepsGo, "		w.slots.change(-s.Count)\n",
			"		if !sabotaged(\"no slots are lost\") {\n			w.slots.change(-s.Count)\n		}\n"))},
		{"slots do not come back", "worker-loss", "did not get its slots back", one(instead(stepsGo, "			w.slots.change(s.Count)\n",
			"			if !sabotaged(\"slots do not come back\") {\n				w.slots.change(s.Count)\n			}\n"))},
	}
}

// experimentFaults are in what the experiment itself is made of.
func experimentFaults() []Fault {
	return []Fault{
		{"an endpoint that answers at once", "burst", "did not take its time", one(before(serviceGo, "	return split(float64(u.Low) + ",
			"	if sabotaged(\"an endpoint that answers at once\") {\n		return split(0)\n	}\n"))},
		{"an endpoint that always takes the least", "burst", "did not take its time", one(before(serviceGo, "	return split(float64(u.Low) + ",
			"	if sabotaged(\"an endpoint that always takes the least\") {\n		return split(float64(u.Low))\n	}\n"))},
		{"an endpoint with few slots", "burst", "endpoint was overloaded", one(instead(twinGo, "	w.slots = &slots{limit: w.workers}\n",
			"	w.slots = &slots{limit: w.workers}\n	if sabotaged(\"an endpoint with few slots\") {\n		w.slots.limit = (w.workers + 1) / 2\n	}\n"))},
		{"half the load", "burst", "the load|did not come", one(before(loadGo, "	source, err := p.Source()\n",
			"	if sabotaged(\"half the load\") || sabotaged(\"half the load without a burst\") {\n		p.BaseRate /= 2\n	}\n"))},
		{"half the load without a burst", "upstream-errors", "the load|did not come", nil},
		{"every second task is not sent", "burst", "the generator sent|generator did not keep", one(at("internal/loadgen/run.go", "func (l *loop) arrive(ctx context.Context, index int, a Arrival) {\n",
			"	if index%2 == 1 && sabotaged(\"every second task is not sent\") {\n		return\n	}\n"))},
		{"a late generator", "burst", "generator did not keep its rate", one(instead("internal/loadgen/run.go", "		if !pause(ctx, l.send.clock.until(a.At)) {\n",
			"		if sabotaged(\"a late generator\") {\n			a.At += time.Duration(float64(time.Second) * l.send.clock.speed)\n		}\n		if !pause(ctx, l.send.clock.until(a.At)) {\n"))},
		{"no burst", "burst", "burst", one(before(loadGo, "	for _, b := range c.Arrivals.Bursts {\n",
			"	if sabotaged(\"no burst\") {\n		c.Arrivals.Bursts = nil\n	}\n"))},
		{"tasks go to production", "overload", "tasks came to production", []sabotage.Edit{
			before(twinGo, "// Start implements drill.Scene.\n", "var realDoor *App\n\n"),
			instead(twinGo, "return w.load.start(w.app.DataAddr()), nil }", "\n	door := w.app\n	if sabotaged(\"tasks go to production\") {\n		door = realDoor\n	}\n	return w.load.start(door.DataAddr()), nil\n}"),
			before("internal/app/drill.go", "	a.drillMetrics.know(a.specs())\n", "	realDoor = a\n"),
		}},
		{"counted in production", "burst", "production counted", []sabotage.Edit{
			before("proxy/metrics.go", "// Arrived counts a task that has come.\n", "var firstMetrics *Metrics\n\n"),
			at("proxy/metrics.go", "func (m *Metrics) Arrived(pool string) {\n", "	if firstMetrics != nil && firstMetrics != m && sabotaged(\"counted in production\") {\n		firstMetrics.Arrived(pool)\n	}\n"),
			before("proxy/metrics.go", "	for _, where := range []string{inProxy, inGate} {\n", "	if firstMetrics == nil {\n		firstMetrics = m\n	}\n"),
		}},
	}
}
