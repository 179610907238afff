package engine

import "slices"

// Snapshot is how everything stood after the latest change.
type Snapshot struct {
	Rules     []RuleStatus
	Incidents []Incident // open ones, and those that may be reopened; oldest first
	Silences  []Silence  // that are not over
}

// publish makes a new snapshot for readers.
func (e *Engine) publish(rules []Rule) {
	s := &Snapshot{
		Rules: e.machine.Statuses(rules), Incidents: e.machine.Incidents(), Silences: e.machine.Silences(),
	}
	e.snapshot.Store(s)
	e.o.Metrics.snapshot.Store(s)
}

// Incidents returns the open incidents, and those that may be reopened, oldest
// first.
func (e *Engine) Incidents() []Incident { return slices.Clone(e.snapshot.Load().Incidents) }

// States returns how every rule stands, those included that watch signals.
func (e *Engine) States() []RuleStatus {
	all := slices.Clone(e.snapshot.Load().Rules)
	for n := range all {
		all[n].State.FlapTimes = slices.Clone(all[n].State.FlapTimes)
	}
	return all
}

// Silences returns the silences that are not over.
func (e *Engine) Silences() []Silence { return slices.Clone(e.snapshot.Load().Silences) }
