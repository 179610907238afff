package api

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"math"
	"time"

	"headgate/runbooks/control"
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

// DrillRun is one carrying out of a drill.
type DrillRun struct {
	ID          string            `json:"id"`
	Drill       string            `json:"drill"` // ID
	Name        string            `json:"name"`  // when it ran
	SpecVersion string            `json:"spec_version"`
	Version     string            `json:"version"` // of headgate
	Target      string            `json:"target"`
	Trigger     string            `json:"trigger"` // schedule, catch_up or manual
	Actor       string            `json:"actor"`
	Status      string            `json:"status"`  // claimed, running or ended
	Verdict     *string           `json:"verdict"` // null until it has ended
	Reason      string            `json:"reason"`
	Missed      int               `json:"missed"`       // occurrences, of the verdict missed
	ScheduledAt *string           `json:"scheduled_at"` // null: by hand
	StartedAt   *string           `json:"started_at"`   // null: it never began
	EndedAt     *string           `json:"ended_at"`     // null: it goes on
	DurationS   *float64          `json:"duration_s"`   // of the wall clock
	Speed       float64           `json:"speed"`        // scenario seconds in one of the wall clock
	Injected    int               `json:"injected"`     // calls that a fault befell
	ClearTookS  *float64          `json:"clear_took_s"` // of the wall clock; null: nothing was injected
	RecoveredS  *float64          `json:"recovered_s"`  // scenario time; null: not known
	Tightest    *DrillHypothesis  `json:"tightest"`     // the hypothesis with the least margin
	Hypotheses  []DrillHypothesis `json:"hypotheses"`
	Phases      []DrillPhase      `json:"phases"`
}

// DrillHypothesis is what was expected, and what was seen.
type DrillHypothesis struct {
	Name     string   `json:"name"`
	Compare  string   `json:"compare"` // <=, >= or ==
	Limit    float64  `json:"limit"`
	Unit     string   `json:"unit"`
	Value    *float64 `json:"value"`  // null: not known
	Margin   *float64 `json:"margin"` // share of the limit; below 0: it did not hold
	Passed   bool     `json:"passed"`
	Evidence string   `json:"evidence"`
	Why      string   `json:"why"` // what made the value, or why there is none
}

// DrillPhase is a part of a run.
type DrillPhase struct {
	Name    string  `json:"name"`
	BeganAt string  `json:"began_at"`
	EndedAt *string `json:"ended_at"`
	Note    string  `json:"note"`
}

// DrillRunList is the reply to GET /api/v1/runs.
type DrillRunList struct {
	Items []DrillRun `json:"items"`
	Next  string     `json:"next"` // for ?after=; empty if this is the last page
}

// DrillReport is the reply to GET /api/v1/runs/{id}.
type DrillReport struct {
	DrillRun
	Live      bool            `json:"live"` // as it is in memory: it goes on
	Spec      drill.Spec      `json:"spec"` // as it was when it ran
	Rollbacks []DrillRollback `json:"undone"`
	Messages  []DrillMessage  `json:"messages"`
	Series    []DrillPoint    `json:"series"`
}

// DrillRollback is a step or a fault that was taken back.
type DrillRollback struct {
	What  string  `json:"what"`
	At    string  `json:"at"`
	TookS float64 `json:"took_s"`
	OK    bool    `json:"ok"`
	Note  string  `json:"note"`
}

// DrillMessage is what a drill made headgate tell people.
type DrillMessage struct {
	Incident   string  `json:"incident"`
	Kind       string  `json:"kind"`
	Level      string  `json:"level"`
	Channel    string  `json:"channel"`
	Text       string  `json:"text"`
	AcceptedAt *string `json:"accepted_at"`
}

// DrillPoint is one scenario second.
type DrillPoint struct {
	AtS        float64  `json:"at_s"` // from the beginning of the faults; below 0 in the baseline
	P95S       *float64 `json:"p95_turnaround_s"`
	QueueAgeS  float64  `json:"queue_age_s"`
	QueueDepth int      `json:"queue_depth"`
	InFlight   int      `json:"in_flight"`
	Arrived    int      `json:"arrived"`
	Served     int      `json:"served"`
	Refused    int      `json:"refused"`
	Errors     int      `json:"errors"`
}

// SpecVersion names a spec by what is in it: the same for the same, whatever it is
// called.
func SpecVersion(s drill.Spec) string {
	s.Name, s.Note, s.Owner = "", "", ""
	text, err := json.Marshal(s)
	if err != nil { // a spec always can be written
		return ""
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:4])
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

// DrillRunOf returns a run in the shape of the API.
func DrillRunOf(r drill.Run) DrillRun {
	shown := DrillRun{
		ID: r.ID, Drill: r.Drill, Name: r.Name, SpecVersion: SpecVersion(r.Spec), Version: r.Version, Target: string(r.Spec.Target),
		Trigger: string(r.Trigger), Actor: r.Actor, Status: string(r.Status), Reason: r.Reason, Missed: r.Count,
		ScheduledAt: timeOrNull(r.Scheduled), StartedAt: timeOrNull(r.Started), EndedAt: timeOrNull(r.Ended),
		Speed: finiteOrZero(r.Speed), Injected: r.Injected, Hypotheses: []DrillHypothesis{}, Phases: []DrillPhase{},
	}
	if r.Verdict != "" {
		verdict := string(r.Verdict)
		shown.Verdict = &verdict
	}
	if !r.Started.IsZero() && !r.Ended.IsZero() {
		shown.DurationS = secondsOrNull(r.Ended.Sub(r.Started), true)
	}
	shown.ClearTookS = secondsOrNull(r.ClearTook, r.ClearTook > 0)
	shown.RecoveredS = secondsOrNull(r.Recovered, r.Recovered > 0)
	for _, h := range r.Hypotheses {
		shown.Hypotheses = append(shown.Hypotheses, hypothesisOf(h))
	}
	if h, ok := r.Tightest(); ok {
		tightest := hypothesisOf(h)
		shown.Tightest = &tightest
	}
	for _, p := range r.Phases {
		shown.Phases = append(shown.Phases, DrillPhase{Name: string(p.Name), BeganAt: formatTime(p.Started), EndedAt: timeOrNull(p.Ended), Note: p.Note})
	}
	return shown
}

func secondsOrNull(d time.Duration, known bool) *float64 {
	if !known {
		return nil
	}
	s := control.Seconds(d)
	return &s
}

// finiteOrZero is for numbers that JSON has no word for.
func finiteOrZero(v float64) float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return 0
	}
	return v
}

func hypothesisOf(h drill.Hypothesis) DrillHypothesis {
	shown := DrillHypothesis{
		Name: string(h.Measure), Compare: string(h.Compare), Limit: finiteOrZero(h.Limit), Unit: h.Unit, Passed: h.Passed, Evidence: h.Evidence, Why: h.Reason,
	}
	if h.Measured {
		shown.Value, shown.Margin = finiteOrNull(h.Value), finiteOrNull(h.Margin)
	}
	return shown
}

// DrillReportOf makes the reply of a run; live says that it goes on.
func DrillReportOf(r drill.Run, live bool) DrillReport {
	report := DrillReport{
		DrillRun: DrillRunOf(r), Live: live, Spec: r.Spec, Rollbacks: []DrillRollback{}, Messages: []DrillMessage{}, Series: []DrillPoint{},
	}
	for _, u := range r.UndoResults {
		report.Rollbacks = append(report.Rollbacks, DrillRollback{What: u.What, At: formatTime(u.At), TookS: control.Seconds(u.Took), OK: u.OK, Note: u.Note})
	}
	for _, m := range r.Messages {
		report.Messages = append(report.Messages, DrillMessage{
			Incident: m.Incident, Kind: m.Kind, Level: m.Level, Channel: m.Channel, Text: m.Text, AcceptedAt: timeOrNull(m.Accepted),
		})
	}
	for _, p := range r.Series {
		report.Series = append(report.Series, pointOf(p))
	}
	return report
}

func pointOf(p drill.Point) DrillPoint {
	shown := DrillPoint{
		AtS: finiteOrZero(p.At), QueueAgeS: finiteOrZero(p.QueueAge), QueueDepth: p.Depth, InFlight: p.InFlight,
		Arrived: p.Arrived, Served: p.Served, Refused: p.Refused, Errors: p.Errors,
	}
	if p.Turnaround >= 0 {
		shown.P95S = finiteOrNull(p.Turnaround)
	}
	return shown
}
