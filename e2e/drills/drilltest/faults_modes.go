package drilltest

import "headgate/e2e/mutation"

// modeFaults are in rollback and restore.
func modeFaults() []Fault {
	return []Fault{
		{"a rollback that is only reported", "rollback", "did not stop refusals|says that it is in mode enforce",
			edits(setMode.Start().Code(
				`if m == PassThrough && mutated() { return Enforce }`))},
		{"a restore that is only reported", "rollback", "nothing was refused after the restore", edits(setMode.Start().Code(
			`if m == Enforce && g.passThrough.Load() && mutated() { return PassThrough }`))},
		{"another pool is rolled back", "rollback", "did not stop refusals|says that it is in mode enforce",
			edits(applyMode.Before(mutation.Call("SetMode")).Code(
				`if mutated() {
				gate, err := admission.New(admission.Config{Workers: 1, Policy: admission.None{}, QueueLimit: 1, AssumedService: time.Second})
				if err != nil { panic(err) }
				p = &pool{gate, p.state}
			}`))},
		{"observed and not passed through", "rollback", "mode observe", edits(setMode.Start().Code(
			`if m == PassThrough && mutated() { m = Observe }`))},
		{"a rollback drops those who wait", "rollback", "rejected by the rollback|refused with status 503",
			edits(setMode.Start().Code(
				`if m == PassThrough && mutated() {
				g.Drain(now)
				g.mu.Lock()
				g.draining = false
				g.mu.Unlock()
			}`))},
		{"a slow rollback", "rollback", "flip_time", edits(setMode.Start().Code(
			`if m == PassThrough && mutated() {
				time.AfterFunc(3*time.Second, func() { g.mu.Lock(); defer g.unlock(); g.settings.Mode = m })
				return Enforce
			}`))},
		{"a rollback for half a second", "rollback", "did not stop refusals", edits(setMode.Start().Code(
			`if m == PassThrough && mutated() {
				time.AfterFunc(500*time.Millisecond, func() { g.SetMode(time.Now(), Enforce) })
			}`))},
		{"a restore that refuses all", "rollback", "refuses too early", edits(admissionResult.Code(
			`if mutated() && g.firstSeqOfMode > 0 { verdict = Verdict{ReasonQueueDepth, time.Second} }`))},
	}
}
