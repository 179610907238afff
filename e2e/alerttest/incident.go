package alerttest

import (
	"net/http"
	"net/url"
	"testing"
	"time"
)

// Incident is one as the API shows it; events and deliveries only alone.
type Incident struct {
	ID         string     `json:"id"`
	Rule       string     `json:"rule"`
	Pool       string     `json:"pool"`
	Level      string     `json:"level"`
	Peak       string     `json:"peak"`
	Opened     time.Time  `json:"opened_at"`
	Ended      *time.Time `json:"ended_at"`
	Ending     *string    `json:"ending"`
	Value      float64    `json:"value"`
	Threshold  float64    `json:"threshold"`
	AckedBy    *string    `json:"acked_by"`
	Silenced   bool       `json:"silenced"`
	Recorded   bool       `json:"recorded"`
	Events     []Event    `json:"events"`
	Deliveries []Delivery `json:"deliveries"`
}

// Event is a step in the life of an incident.
type Event struct {
	Seq   int       `json:"seq"`
	At    time.Time `json:"at"`
	Kind  string    `json:"kind"`
	Level string    `json:"level"`
	Muted bool      `json:"muted"`
}

// Delivery is what became of a message.
type Delivery struct {
	Seq         int    `json:"seq"`
	Kind        string `json:"kind"`
	Destination string `json:"destination"`
	State       string `json:"state"`
	Reason      string `json:"reason"`
	Attempts    int    `json:"attempts"`
}

// Open says whether it is not over.
func (i Incident) Open() bool { return i.Ended == nil }

// Has says whether it has had an event of that kind.
func (i Incident) Has(kind string) bool {
	for _, e := range i.Events {
		if e.Kind == kind {
			return true
		}
	}
	return false
}

// settled says whether nothing more is going to be sent about it: the record has
// caught up with how it stands, and all of that was sent or need not be.
func (i Incident) settled() bool {
	if !i.Recorded || len(i.Events) == 0 {
		return false
	}
	last := i.Events[len(i.Events)-1]
	if i.Open() && last.Level != i.Level || !i.Open() && !i.Has("resolved") {
		return false // it is further on in memory
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

// Incidents returns all that there are, newest first.
func (d *Instance) Incidents(t testing.TB) []Incident {
	t.Helper()
	var all []Incident
	for after := ""; ; {
		var page struct {
			Items []Incident
			Next  string
		}
		if err := d.Call(http.MethodGet, "incidents?limit=1000&after="+url.QueryEscape(after), "", &page); err != nil {
			t.Fatal(err)
		}
		all = append(all, page.Items...)
		if after = page.Next; after == "" {
			return all
		}
	}
}

// Incident returns one with its events and deliveries.
func (d *Instance) Incident(t testing.TB, id string) Incident {
	t.Helper()
	var i Incident
	if err := d.Call(http.MethodGet, "incidents/"+id, "", &i); err != nil {
		t.Fatal(err)
	}
	return i
}

// AwaitIncident waits until the newest incident of a rule, with its events and
// deliveries, is as it should be.
func (d *Instance) AwaitIncident(t testing.TB, rule, what string, holds func(Incident) bool) Incident {
	t.Helper()
	var found Incident
	Eventually(t, "the incident of "+rule+" is "+what, func() bool {
		for _, i := range d.IncidentsOf(t, rule) {
			if found = d.Incident(t, i.ID); holds(found) {
				return true
			}
		}
		return false
	})
	return found
}

// IncidentsOf returns the incidents of a rule, newest first, those that are over too.
func (d *Instance) IncidentsOf(t testing.TB, rule string) []Incident {
	t.Helper()
	var page struct{ Items []Incident }
	if err := d.Call(http.MethodGet, "incidents?limit=1000&rule="+rule, "", &page); err != nil {
		t.Fatal(err)
	}
	return page.Items
}

// AwaitFiring waits until an incident of a rule is open at a level.
func (d *Instance) AwaitFiring(t testing.TB, rule, level string) Incident {
	t.Helper()
	return d.AwaitIncident(t, rule, "open at "+level, func(i Incident) bool { return i.Open() && i.Level == level })
}

// AwaitEnded waits until the newest incident of a rule is over.
func (d *Instance) AwaitEnded(t testing.TB, rule string) Incident {
	t.Helper()
	return d.AwaitIncident(t, rule, "over", func(i Incident) bool { return !i.Open() })
}

// AwaitSettled waits until nothing more is going to be sent about an incident.
func (d *Instance) AwaitSettled(t testing.TB, id string) Incident {
	t.Helper()
	var i Incident
	Eventually(t, "everything is sent about "+id, func() bool {
		i = d.Incident(t, id)
		return i.settled()
	})
	return i
}
