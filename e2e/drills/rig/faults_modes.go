package rig

const (
	controlGo = "proxy/admit/control.go"
	setsMode  = "	if m == PassThrough {\n		g.leaving.Store(true)"
)

// modeFaults are in what takes the gate out and puts it back.
func modeFaults() []Fault {
	return []Fault{
		{"a rollback that only says so", "rollback", "did not stop refusals|says that it is in mode enforce", one(before(controlGo, setsMode,
			"	if m == PassThrough && sabotaged(\"a rollback that only says so\") {\n		return Enforce\n	}\n"))},
		{"a restore that only says so", "rollback", "nothing was refused after the restore", one(before(controlGo, setsMode,
			"	if m == Enforce && g.leaving.Load() && sabotaged(\"a restore that only says so\") {\n		return PassThrough\n	}\n"))},
		{"another pool is rolled back", "rollback", "did not stop refusals|says that it is in mode enforce", one(before("runbooks/controller.go", "	p.gate.SetMode(now, to)\n	change := Change{",
			"	if sabotaged(\"another pool is rolled back\") {\n		gate, err := admit.New(admit.Config{Workers: 1, Policy: admit.None{}, QueueLimit: 1, AssumedService: time.Second})\n		if err != nil {\n			panic(err)\n		}\n		p = &pool{gate, p.standing}\n	}\n"))},
		{"observed and not passed through", "rollback", "mode observe", one(before(controlGo, setsMode,
			"	if m == PassThrough && sabotaged(\"observed and not passed through\") {\n		m = Observe\n	}\n"))},
		{"a rollback drops those who wait", "rollback", "turned away by the rollback|refused with status 503", one(before(controlGo, setsMode,
			"	if m == PassThrough && sabotaged(\"a rollback drops those who wait\") {\n		g.Drain(now)\n		g.mu.Lock()\n		g.draining = false\n		g.mu.Unlock()\n	}\n"))},
		{"a slow rollback", "rollback", "flip_time", one(before(controlGo, setsMode,
			"	if m == PassThrough && sabotaged(\"a slow rollback\") {\n		time.AfterFunc(3*time.Second, func() { g.control(now, func() { g.settings.Mode = m }) })\n		return Enforce\n	}\n"))},
		{"a rollback for half a second", "rollback", "did not stop refusals", one(before(controlGo, setsMode,
			"	if m == PassThrough && sabotaged(\"a rollback for half a second\") {\n		time.AfterFunc(500*time.Millisecond, func() { g.SetMode(time.Now(), Enforce) })\n	}\n"))},
		{"a restore that refuses all", "rollback", "refuses before it is due", one(before(gateGo, "	if g.settings.Mode == Enforce && verdict.Reason != ReasonNone {\n",
			"	if sabotaged(\"a restore that refuses all\") && g.honoured > 0 {\n		verdict = Verdict{ReasonQueueDepth, time.Second}\n	}\n"))},
	}
}
