package harness

import "time"

// The types in this file decode replies of the admin API. They are declared here, and not
// imported, so that tests notice a key that changes, and do not link what the API needs.

// List is a page of items.
type List[T any] struct {
	Items []T    `json:"items"`
	Next  string `json:"next"` // key of the next page; empty: this is the last one
}

// ModeReply is the reply to a mode change.
type ModeReply struct {
	Recorded bool         `json:"recorded"`
	Changes  []ModeChange `json:"changes"`
}

// ModeChange is a change of mode of a pool.
type ModeChange struct {
	ID      string `json:"id"`
	At      string `json:"at"`
	Pool    string `json:"pool"`
	Action  string `json:"action"`
	From    string `json:"from"`
	To      string `json:"to"`
	Actor   string `json:"actor"`
	Via     string `json:"via"`
	Reason  string `json:"reason"`
	Running int    `json:"running"`
	Queued  int    `json:"queued"`
	Request int64  `json:"request"`
	Writer  string `json:"writer"`
}

// AuditEntry is an entry of the audit that is no mode change.
type AuditEntry struct {
	Kind   string            `json:"kind"`
	Action string            `json:"action"`
	Result string            `json:"result"`
	Pool   string            `json:"pool"`
	Actor  string            `json:"actor"`
	Reason string            `json:"reason"`
	Inputs map[string]string `json:"inputs"`
}

// PoolStatus is the status of a pool.
type PoolStatus struct {
	Name         string `json:"name"`
	Mode         string `json:"mode"`
	ModeBy       string `json:"mode_by"`
	ModeReason   string `json:"mode_reason"`
	ModeRecorded *bool  `json:"mode_recorded"`
	Workers      int    `json:"workers"`
	InFlight     int    `json:"in_flight"`
	QueueDepth   int    `json:"queue_depth"`
}

// Incident is an incident. Events and deliveries are in the report on one incident only.
type Incident struct {
	ID         string     `json:"id"`
	Rule       string     `json:"rule"`
	Pool       string     `json:"pool"`
	Level      string     `json:"level"`
	Peak       string     `json:"peak"`
	Opened     time.Time  `json:"opened_at"`
	Ended      *time.Time `json:"ended_at"`
	EndReason  *string    `json:"end_reason"`
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
	Seq      int       `json:"seq"`
	At       time.Time `json:"at"`
	Kind     string    `json:"kind"`
	Level    string    `json:"level"`
	Silenced bool      `json:"muted"`
}

// Delivery is the state of a message about an incident.
type Delivery struct {
	Seq         int    `json:"seq"`
	Kind        string `json:"kind"`
	Destination string `json:"destination"`
	State       string `json:"state"`
	Reason      string `json:"reason"`
	Attempts    int    `json:"attempts"`
}

// Open reports whether the incident has not ended.
func (i Incident) Open() bool { return i.Ended == nil }

// Has reports whether the incident has an event of a kind.
func (i Incident) Has(kind string) bool {
	for _, e := range i.Events {
		if e.Kind == kind {
			return true
		}
	}
	return false
}

// DrillRun is a run of a drill, as the API and `drill run --json` show it.
type DrillRun struct {
	ID      string       `json:"id"`
	Drill   string       `json:"drill"`
	Status  string       `json:"status"`
	Verdict string       `json:"verdict"` // empty until the run has ended
	Reason  string       `json:"reason"`
	Phases  []DrillPhase `json:"phases"`
}

// DrillPhase is a phase of a run.
type DrillPhase struct {
	Name string `json:"name"`
}
