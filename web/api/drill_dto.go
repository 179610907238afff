package api

import (
	"time"

	"headgate/runbooks/drill"
)

// DrillList is the reply to GET /api/v1/drills.
type DrillList struct {
	Freeze DrillFreeze    `json:"freeze"`
	Items  []DrillSummary `json:"items"`
	Next   string         `json:"next"` // always empty: there are never so many
}

// DrillFreeze says whether drills may run.
type DrillFreeze struct {
	Frozen bool    `json:"frozen"`
	By     string  `json:"by"`
	Reason string  `json:"reason"`
	Since  *string `json:"since"` // of this standing; null: it was always so
}

// DrillSummary is one drill, as it stands.
type DrillSummary struct {
	ID           string         `json:"id"` // stays when it is renamed
	Name         string         `json:"name"`
	Note         string         `json:"note"`
	Owner        string         `json:"owner"`
	BuiltIn      bool           `json:"built_in"`
	Target       string         `json:"target"` // twin or live
	Pool         string         `json:"pool"`   // empty: the first
	Schedule     string         `json:"schedule"`
	Zone         string         `json:"zone"`
	NextRuns     []DrillNextRun `json:"next_runs"` // five at most
	Running      *string        `json:"running"`   // ID of the run that goes on; null: none
	Last         *DrillLast     `json:"last"`      // the latest run that ended; null: none
	LastPassedAt *string        `json:"last_passed_at"`
	Overdue      bool           `json:"overdue"`  // the last pass is too long ago
	Problems     []string       `json:"problems"` // why it cannot run as it stands
}

// DrillNextRun is a due time.
type DrillNextRun struct {
	At    string `json:"at"`    // UTC
	Local string `json:"local"` // the same in the zone of the schedule
	Note  string `json:"note"`  // of clocks that go forward or back
}

// DrillLast is how a drill ended last.
type DrillLast struct {
	Run     string `json:"run"`
	Verdict string `json:"verdict"`
	Reason  string `json:"reason"`
	At      string `json:"at"`
}

// DrillRunList is the reply to GET /api/v1/runs.
type DrillRunList struct {
	Items []drill.Run `json:"items"` // without spec, rollbacks, messages and series
	Next  string      `json:"next"`  // for ?after=; empty if this is the last page
}

func freezeOf(f drill.Freeze) DrillFreeze {
	return DrillFreeze{Frozen: f.On, By: f.Actor, Reason: f.Reason, Since: timeOrNull(f.Since)}
}

func drillSummaryOf(s drill.State) DrillSummary {
	row := DrillSummary{
		ID: s.Spec.ID, Name: s.Spec.Name, Note: s.Spec.Note, Owner: s.Spec.Owner, BuiltIn: s.Spec.BuiltIn,
		Target: string(s.Spec.Target), Pool: s.Spec.Pool, Schedule: s.Spec.Schedule, Zone: s.Spec.Zone, NextRuns: []DrillNextRun{},
		LastPassedAt: timeOrNull(s.LastPassed), Overdue: s.Overdue, Problems: append([]string{}, s.Problems...),
	}
	for _, d := range s.Next {
		row.NextRuns = append(row.NextRuns, DrillNextRun{At: formatTime(d.At), Local: InZone(d.At, s.Spec.Zone), Note: d.Note})
	}
	if s.Running != "" {
		row.Running = &s.Running
	}
	if r := s.Last; r != nil {
		row.Last = &DrillLast{Run: r.ID, Verdict: string(r.Verdict), Reason: r.Reason, At: formatTime(startedOrScheduled(*r))}
	}
	return row
}

// InZone shows a time in a zone by name, with its offset; in UTC if there is no
// such zone.
func InZone(t time.Time, zone string) string {
	where, err := time.LoadLocation(zone)
	if err != nil {
		where = time.UTC
	}
	return t.In(where).Format("2006-01-02T15:04:05Z07:00")
}

// startedOrScheduled is when a run began, or should have.
func startedOrScheduled(r drill.Run) time.Time {
	if r.Started.IsZero() {
		return r.Scheduled
	}
	return r.Started
}
