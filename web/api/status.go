package api

import (
	"math"
	"net/http"
	"time"
)

// Status is how headgate stands: GET /api/v1/status.
type Status struct {
	Version       string       `json:"version"`
	Pools         []PoolStatus `json:"pools"`
	IncidentsOpen []Incident   `json:"incidents_open"` // newest first; filled in by the admin API
}

// PoolStatus is how one pool stands. A pointer is nil while there is no value.
type PoolStatus struct {
	Name         string    `json:"name"`
	Mode         string    `json:"mode"`          // enforce, observe or passthrough
	ModeSince    time.Time `json:"mode_since"`    // UTC, to the millisecond
	ModeBy       string    `json:"mode_by"`       // who changed it, as they said
	ModeReason   string    `json:"mode_reason"`   // empty if none was given
	ModeBefore   *string   `json:"mode_before"`   // what restore returns to; nil unless in passthrough
	ModeRecorded *bool     `json:"mode_recorded"` // false: a restart would forget the mode; nil: not known
	Policy       string    `json:"policy"`

	AutoRollback *AutoRollbackStatus `json:"guard"`  // the automatic rollback; nil: there is none
	Paused       *PauseStatus        `json:"paused"` // nil: permits are handed out

	Workers         int      `json:"workers"`
	InFlight        int      `json:"in_flight"`
	QueueDepth      int      `json:"queue_depth"`
	QueueOldestAgeS float64  `json:"queue_oldest_age_s"` // 0 if none waits
	Overdue         int      `json:"overdue"`            // waiting tasks that can no longer end in time
	DrainS          float64  `json:"drain_s"`            // until all who wait now have a permit, projected
	Draining        bool     `json:"draining"`           // the pool takes no new tasks
	P95TurnaroundS  *float64 `json:"p95_turnaround_s"`   // of the last minute; nil if nothing ended
	SLOS            float64  `json:"slo_s"`
	EnvelopeUse     *float64 `json:"envelope_use"` // share of the capacity in use; nil if not measured
	Refused1m       int      `json:"refused_1m"`
	Admitted1m      int      `json:"admitted_1m"`
}

// AutoRollbackStatus is how the automatic rollback of a pool stands.
type AutoRollbackStatus struct {
	State          string  `json:"state"`         // armed, flipping, flipped or cooldown
	RollbacksToday int     `json:"flips_today"`   // in the last 24 hours
	HoldUntil      *string `json:"latched_until"` // until then somebody's decision stands; nil: none does
	Reason         string  `json:"why"`           // what keeps it from rolling back, or made it; empty: nothing
}

// PauseStatus says until when a pool hands out no permit, and who said so.
type PauseStatus struct {
	Since  string `json:"since"`
	Until  string `json:"until"`
	By     string `json:"by"`
	Reason string `json:"reason"`
}

// FormatTime returns a time as the API shows it.
func FormatTime(t time.Time) string { return formatTime(t) }

// Seconds returns a duration as the API shows it: seconds, to the millisecond.
func Seconds(d time.Duration) float64 {
	return math.Round(float64(d)/float64(time.Millisecond)) / 1000
}

func (a *Admin) status(w http.ResponseWriter, r *http.Request) {
	if _, p := parseQuery(r); p != nil {
		WriteProblem(w, *p)
		return
	}
	now := time.Now()
	s := a.statusSource.Status(now)
	if s.Pools == nil {
		s.Pools = []PoolStatus{}
	}
	s.IncidentsOpen = a.openIncidents(now)
	writeJSON(w, http.StatusOK, "application/json", s)
}
