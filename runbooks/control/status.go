package control

import (
	"time"

	"headgate/proxy/admission"
)

// PoolStatus is the state of one pool. The API, the pages, the commands and Slack show it. A pointer is nil while there
// is no value.
type PoolStatus struct {
	Name         string    `json:"name"`
	Mode         string    `json:"mode"`          // enforce, observe or passthrough
	ModeSince    time.Time `json:"mode_since"`    // UTC, to the millisecond
	ModeBy       string    `json:"mode_by"`       // who changed it
	ModeReason   string    `json:"mode_reason"`   // empty if none was given
	ModeBefore   *string   `json:"mode_before"`   // what restore returns to; nil unless in passthrough
	ModeRecorded *bool     `json:"mode_recorded"` // false: a restart would forget the mode; nil: unknown
	Policy       string    `json:"policy"`

	AutoRollback *AutoRollbackStatus `json:"auto_rollback"` // nil: there is none
	Paused       *Pause              `json:"paused"`        // nil: permits are granted

	Workers         int     `json:"workers"`
	InFlight        int     `json:"in_flight"`
	QueueDepth      int     `json:"queue_depth"`
	QueueOldestAgeS float64 `json:"queue_oldest_age_s"` // 0 if none waits
	Overdue         int     `json:"overdue"`            // queued tasks that can no longer finish in time
	DrainS          float64 `json:"drain_s"`            // until every queued task has a permit, projected
	Draining        bool    `json:"draining"`           // the pool takes no new tasks

	// What the proxy observed; Service does not fill it in.
	P95TurnaroundS *float64 `json:"p95_turnaround_s"` // of the last minute; nil if nothing ended
	SLOS           float64  `json:"slo_s"`
	EnvelopeUse    *float64 `json:"envelope_use"` // share of the capacity in use; nil if not measured
	Refused1m      int      `json:"refused_1m"`
	Admitted1m     int      `json:"admitted_1m"`
}

// AutoRollbackStatus is the state of the automatic rollback of a pool.
type AutoRollbackStatus struct {
	State          RollbackPhase `json:"state"`
	RollbacksToday int           `json:"auto_rollbacks_today"` // in the last 24 hours
	HoldUntil      time.Time     `json:"hold_until,omitzero"`  // until then a person's decision counts
	Reason         string        `json:"why"`                  // what prevents a rollback, or caused it; empty: nothing
}

// PoolStatus returns the status of a pool, but for what the proxy observed; false if there is no such pool.
func (s *Service) PoolStatus(now time.Time, pool string) (PoolStatus, bool) {
	gate := s.modes.gate(pool)
	state, ok := s.modes.State(pool)
	if gate == nil || !ok {
		return PoolStatus{}, false
	}
	snapshot, recorded := gate.Snapshot(now), s.modes.Recorded(pool)
	overdue, drain := gate.Overdue(now)
	status := PoolStatus{
		Name: pool, Mode: snapshot.Mode.String(), ModeSince: state.Since, ModeBy: state.Actor, ModeReason: state.Reason, ModeRecorded: &recorded,
		Policy: snapshot.Policy, Workers: snapshot.Workers, InFlight: snapshot.InFlight, QueueDepth: snapshot.Depth,
		QueueOldestAgeS: Seconds(snapshot.OldestAge), Overdue: overdue, DrainS: Seconds(drain), Draining: snapshot.Draining,
	}
	if state.Mode == admission.PassThrough {
		before := state.RestoreMode.String()
		status.ModeBefore = &before
	}
	if p, paused := s.pauses.Get(now, pool); paused {
		status.Paused = &p
	}
	if s.rollback != nil {
		status.AutoRollback = s.rollback.Status(pool)
	}
	return status, true
}
