package rig

const (
	zoneGo   = "engine/zone.go"
	lifeGo   = "engine/advance.go"
	planGo   = "alerts/plan.go"
	roundGo  = "alerts/round.go"
	settleGo = "alerts/settle.go"
	botGo    = "alerts/slack/bot.go"
	wordsGo  = "alerts/slack/words.go"
	fakeGo   = "internal/fakeslack/chat.go"

	planBegins = "	n := p.note(inc, e)\n	home := "
	sends      = "	default:\n		r.attempt = sender.Send("
	pretends   = "Outcome: Arrived, Ref: Ref{Channel: \"C1\", TS: \"1.1\"}"
)

// messageFaults are in what people are told.
func messageFaults() []Fault {
	return []Fault{
		{"nobody posts", "alert-path", "no message was accepted by Slack: nobody tried", one(before(roundGo, sends,
			"	case sabotaged(\"nobody posts\"):\n		r.attempt = Attempt{"+pretends+"}\n"))},
		{"Slack says no place", "alert-path", "a warning never came|no message was accepted by Slack, of [0-9]+ tries", one(before(fakeGo,
			"	return reply{\"ok\": true, \"channel\": c.ID, \"ts\": m.TS, \"message\": m.json(true)}\n",
			"	if sabotaged(\"Slack says no place\") {\n		return reply{\"ok\": true, \"channel\": c.ID}\n	}\n"))},
		{"Slack refuses all", "alert-path", "no message was accepted by Slack, of [0-9]+ tries", one(at(fakeGo, "func (s *Server) post(v url.Values) reply {\n",
			"	if sabotaged(\"Slack refuses all\") {\n		return refusal(\"fatal_error\")\n	}\n"))},
		{"no warnings", "alert-path", "the warning was accepted .*time_to_warn", one(instead(zoneGo, "	case r.Warn.Set && s.zone.breach() && s.WarnFor >= r.Warn.For:\n",
			"	case r.Warn.Set && s.zone.breach() && s.WarnFor >= r.Warn.For && !sabotaged(\"no warnings\"):\n"))},
		{"no alerts", "alert-path", "no message was accepted by Slack: nobody tried", one(before(zoneGo,
			"	switch {\n	case r.Page.Set && s.zone == zonePage && s.PageFor", "	if sabotaged(\"no alerts\") {\n		return LevelNone\n	}\n"))},
		{"no pages", "alert-path", "a page never came", one(instead(zoneGo,
			"	case r.Page.Set && s.zone == zonePage && s.PageFor >= r.Page.For:\n", "	case r.Page.Set && s.zone == zonePage && s.PageFor >= r.Page.For && !sabotaged(\"no pages\"):\n"))},
		{"warnings are pages", "alert-path", "breaches its limit", one(instead(zoneGo, "		return LevelWarn\n",
			"		if sabotaged(\"warnings are pages\") {\n			return LevelPage\n		}\n		return LevelWarn\n"))},
		{"never resolved", "alert-path", "said to be over", one(before(planGo, planBegins,
			"	if e.Kind == engine.EventResolved && sabotaged(\"never resolved\") {\n		return nil\n	}\n"))},
		{"over too early", "alert-path", "a page never came", one(before(lifeGo, "	switch {\n	case z == zoneClear && s.ClearFor >= r.Clear.For:\n",
			"	if z.breach() && t.now.Sub(inc.Opened) > 2*time.Second && sabotaged(\"over too early\") {\n		t.resolve(s, Recovered)\n		return\n	}\n"))},
		{"another pool is named", "alert-path", "names pool", one(before(wordsGo, "	return \" (pool \" + pool + \")\"\n",
			"	if sabotaged(\"another pool is named\") {\n		pool = \"another\"\n	}\n"))},
		{"no pool is named", "alert-path", "does not name the pool", one(before(wordsGo, "	return \" (pool \" + pool + \")\"\n",
			"	if sabotaged(\"no pool is named\") {\n		return \"\"\n	}\n"))},
		{"DRILL is missing", "alert-path", "does not say DRILL", one(instead(wordsGo, "	if n.Drill {\n		return \"DRILL",
			"	if n.Drill && !sabotaged(\"DRILL is missing\") {\n		return \"DRILL"))},
		{"no value", "alert-path", "value", one(before(wordsGo, "	return fmt.Sprintf(\"%s, limit %s\"",
			"	if sabotaged(\"no value\") {\n		return \"too much\"\n	}\n"))},
		{"a wrong value", "alert-path", "value", one(before(wordsGo, "	return fmt.Sprintf(\"%s, limit %s\"",
			"	if sabotaged(\"a wrong value\") {\n		inc.Value = 0\n	}\n"))},
		{"told late", "alert-path", "too late", one(before(roundGo, "	sender := d.o.Senders[s.d.Destination]\n	switch {\n",
			"	if sabotaged(\"told late\") && s.d.Kind == Post {\n		time.Sleep(8 * time.Second)\n	}\n"))},
		{"told twice", "alert-path", "said twice", one(before(botGo, "	channel, ts, m, err := b.api.PostMessageWithResponseContext(ctx, to, opts...)\n",
			"	if sabotaged(\"told twice\") {\n		_, _, _, _ = b.api.PostMessageWithResponseContext(ctx, to, opts...)\n		time.Sleep(1100 * time.Millisecond)\n	}\n"))},
		{"messages stay as they were", "alert-path", "still says", one(before(botGo, "	channel, ts, _, err := b.api.UpdateMessageContext(",
			"	if sabotaged(\"messages stay as they were\") {\n		return alerts.Attempt{Outcome: alerts.Arrived, Ref: root}\n	}\n"))},
		{"given up at once", "slack-outage", "nobody was told|that all is over never came", one(before(settleGo, "	d.Reason = a.Reason\n	opens := ",
			"	if a.Outcome != Arrived && sabotaged(\"given up at once\") {\n		a.Outcome = Never\n	}\n"))},
	}
}
