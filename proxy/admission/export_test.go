package admission

import "time"

// Resize changes the number of permits and nothing else, which a Reconfigure in
// a test would have to repeat.
func (g *Gate) Resize(now time.Time, workers int) error {
	c := g.config()
	c.Workers = workers
	return g.Reconfigure(now, c)
}

// SetPolicy changes the policy and nothing else.
func (g *Gate) SetPolicy(now time.Time, p Policy) {
	c := g.config()
	c.Policy = p
	if err := g.Reconfigure(now, c); err != nil {
		panic(err)
	}
}

func (g *Gate) config() Config {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.settings
}

// Bypassing says whether the policy is left out already.
func (g *Gate) PassThrough() bool { return g.passThrough.Load() }

// Queued returns how long the task waited for its permit; 0 if it has none yet.
func (t *Ticket) Queued() time.Duration {
	if t.granted.IsZero() {
		return 0
	}
	return t.granted.Sub(t.offered)
}
