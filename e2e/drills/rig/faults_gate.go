package rig

import "headgate/e2e/sabotage"

const (
	gateGo      = "proxy/admit/gate.go"
	pauseGo     = "proxy/admit/pause.go"
	queueGo     = "proxy/admit/queue.go"
	thresholdGo = "proxy/admit/threshold.go"

	// anchors in them
	verdictLine = "	verdict := g.admitLocked(v, task)\n"
	admitBegins = "func (p Threshold) Admit(v View, t Task) Verdict {\n"
	returnsOne  = "	g.returnLocked(t)\n	if e == Served {"
)

// gateFaults are in the decision: who comes in, who waits, who is served.
func gateFaults() []Fault {
	return []Fault{
		{"refusals off", "burst", "does not refuse", one(at(gateGo, verdictLine,
			"	if sabotaged(\"refusals off\") {\n		verdict = Verdict{}\n	}\n"))},
		{"everything refused", "burst", "refuses before it is due", one(at(gateGo, verdictLine,
			"	if sabotaged(\"everything refused\") {\n		verdict = Verdict{ReasonQueueDepth, time.Second}\n	}\n"))},
		{"refused by chance", "burst", "refuses before it is due", one(at(gateGo, verdictLine,
			"	if sabotaged(\"refused by chance\") && now.UnixNano()%3 == 0 {\n		verdict = Verdict{ReasonQueueDepth, time.Second}\n	}\n"))},
		{"never recovers", "burst", "refuses before it is due", []sabotage.Edit{
			before(gateGo, "// Offer asks for", "var everRefused atomic.Bool\n\n"),
			at(gateGo, verdictLine, "	if sabotaged(\"never recovers\") {\n		if everRefused.Load() && now.UnixNano()%3 == 0 {\n			verdict = Verdict{ReasonQueueDepth, time.Second}\n		}\n		if verdict.Reason != ReasonNone {\n			everRefused.Store(true)\n		}\n	}\n"),
		}},
		{"permits leak", "burst", "permits do not come back", one(before(gateGo, returnsOne,
			"	if sabotaged(\"permits leak\") && t.seq%10 == 0 {\n		t.state = ended\n		return true, settled{}\n	}\n"))},
		{"permits of errors leak", "upstream-errors", "permits do not come back", one(before(gateGo, returnsOne,
			"	if sabotaged(\"permits of errors leak\") && e != Served {\n		t.state = ended\n		return true, settled{}\n	}\n"))},
		{"permits of hung calls leak", "hung-upstream", "permits do not come back", one(before(gateGo, returnsOne,
			"	if sabotaged(\"permits of hung calls leak\") && now.Sub(t.granted) > 1800*time.Millisecond {\n		t.state = ended\n		return true, settled{}\n	}\n"))},
		{"one worker too many", "burst", "more calls at once than workers", one(instead(pauseGo,
			"g.inFlight < g.settings.Workers\n", "(g.inFlight < g.settings.Workers || sabotaged(\"one worker too many\") && g.inFlight == g.settings.Workers)\n"))},
		{"workers idle", "burst", "not given out|do not come back", one(before(pauseGo, "	return g.paused.IsZero() &&",
			"	if sabotaged(\"workers idle\") && g.inFlight >= g.settings.Workers*3/4 {\n		return false\n	}\n"))},
		{"last in first out", "burst", "order in which they came", one(before(queueGo, "	return earliest(q.heads())\n",
			"	if sabotaged(\"last in first out\") {\n		var last *Ticket\n		for t := range q.all() {\n			last = t\n		}\n		return last\n	}\n"))},
		{"an age that stays", "burst", "refuses before it is due", []sabotage.Edit{
			before(thresholdGo, "// Admit applies", "var oldestEver time.Duration\n\n"),
			at(thresholdGo, admitBegins, "	if oldestEver = max(oldestEver, v.Oldest(t.Class)); sabotaged(\"an age that stays\") && oldestEver > p.MaxQueueAge {\n		return Verdict{ReasonQueueAge, time.Second}\n	}\n"),
		}},
		{"a queue of 20 a worker", "burst", "does not refuse", one(at(thresholdGo, admitBegins,
			"	if sabotaged(\"a queue of 20 a worker\") {\n		p.DepthMultiple, p.MaxQueueAge = 20, time.Hour\n	}\n"))},
		{"no limit on age", "overload", "does not refuse when it should|does not look at the age", one(at(thresholdGo, admitBegins,
			"	if sabotaged(\"no limit on age\") {\n		p.MaxQueueAge = time.Hour\n	}\n"))},
		{"no limit on depth", "overload", "does not refuse when it should", one(at(thresholdGo, admitBegins,
			"	if sabotaged(\"no limit on depth\") {\n		p.DepthMultiple = 1000\n	}\n"))},
		{"a fifth of the age", "burst", "refuses before it is due", one(at(thresholdGo, admitBegins,
			"	if sabotaged(\"a fifth of the age\") {\n		p.MaxQueueAge /= 5\n	}\n"))},
		{"a shorter queue", "burst", "refuses before it is due", one(at(thresholdGo, admitBegins,
			"	if excess := v.Depth - v.Workers; sabotaged(\"a shorter queue\") && excess > 0 {\n		return Verdict{ReasonQueueDepth, v.Drain(excess)}\n	}\n"))},
		{"a slow decision", "burst", "after the endpoint was done|refusals came|not given out", one(at(gateGo, verdictLine,
			"	if sabotaged(\"a slow decision\") {\n		time.Sleep(80 * time.Millisecond)\n	}\n"))},
	}
}
