package alerttest

import (
	"net/url"
	"testing"
	"time"

	"headgate/e2e/harness"
	"headgate/internal/testkit"
)

// timeout limits the wait for a delivery: it is longer than the longest pause between two
// attempts.
var timeout = testkit.Timeout(3 * time.Minute)

// Eventually is [harness.Eventually] with a time limit that suits deliveries.
func Eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	harness.EventuallyWithin(t, timeout, what, condition)
}

// settled reports whether nothing more will be sent about an incident: the record is
// complete, and each message was sent or is not needed.
func settled(i harness.Incident) bool {
	if !i.Recorded || len(i.Events) == 0 {
		return false
	}
	last := i.Events[len(i.Events)-1]
	if i.Open() && last.Level != i.Level || !i.Open() && !i.Has("resolved") {
		return false // the record is behind
	}
	planned := false
	for _, d := range i.Deliveries {
		switch d.State {
		case "sent", "dead", "dropped":
		default:
			return false
		}
		planned = planned || d.Seq == last.Seq
	}
	return planned
}

// Incidents returns all incidents, newest first.
func (d *Instance) Incidents(t testing.TB) (all []harness.Incident) {
	t.Helper()
	for after := ""; ; {
		page := harness.Get[harness.List[harness.Incident]](t, d.Gate, "incidents?limit=1000&after="+url.QueryEscape(after))
		all = append(all, page.Items...)
		if after = page.Next; after == "" {
			return all
		}
	}
}

// IncidentsOf returns the incidents of a rule, newest first, open or ended.
func (d *Instance) IncidentsOf(t testing.TB, rule string) []harness.Incident {
	t.Helper()
	return harness.Get[harness.List[harness.Incident]](t, d.Gate, "incidents?limit=1000&rule="+rule).Items
}

// Incident returns an incident with its events and deliveries.
func (d *Instance) Incident(t testing.TB, id string) harness.Incident {
	t.Helper()
	return harness.Get[harness.Incident](t, d.Gate, "incidents/"+id)
}

// AwaitIncident waits until an incident of a rule, with its events and deliveries,
// satisfies a condition, and returns it.
func (d *Instance) AwaitIncident(t testing.TB, rule, what string, condition func(harness.Incident) bool) harness.Incident {
	t.Helper()
	var found harness.Incident
	Eventually(t, "the incident of "+rule+" is "+what, func() bool {
		for _, i := range d.IncidentsOf(t, rule) {
			if found = d.Incident(t, i.ID); condition(found) {
				return true
			}
		}
		return false
	})
	return found
}

// AwaitFiring waits until an incident of a rule is open at a level.
func (d *Instance) AwaitFiring(t testing.TB, rule, level string) harness.Incident {
	t.Helper()
	return d.AwaitIncident(t, rule, "open at "+level, func(i harness.Incident) bool { return i.Open() && i.Level == level })
}

// AwaitEnded waits until an incident of a rule has ended.
func (d *Instance) AwaitEnded(t testing.TB, rule string) harness.Incident {
	t.Helper()
	return d.AwaitIncident(t, rule, "ended", func(i harness.Incident) bool { return !i.Open() })
}

// AwaitSettled waits until nothing more will be sent about an incident.
func (d *Instance) AwaitSettled(t testing.TB, id string) harness.Incident {
	t.Helper()
	var i harness.Incident
	Eventually(t, "all messages about "+id+" are sent", func() bool {
		i = d.Incident(t, id)
		return settled(i)
	})
	return i
}
