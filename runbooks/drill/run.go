package drill

import (
	"encoding/json"
	"errors"
	"time"
)

// Status is how far a run has come.
type Status string

// The statuses.
const (
	Claimed Status = "claimed" // stored, not begun
	Running Status = "running"
	Ended   Status = "ended"
)

// Verdict is the result of a run.
type Verdict string

// The verdicts. A run that has not ended has none.
const (
	Passed       Verdict = "passed"
	Failed       Verdict = "failed"
	Aborted      Verdict = "aborted"      // it was stopped
	Inconclusive Verdict = "inconclusive" // cannot be judged, as with too few samples or a fault without effect
	Skipped      Verdict = "skipped"      // it was not begun, for a reason
	Interrupted  Verdict = "interrupted"  // its process ended before
	Missed       Verdict = "missed"       // its time passed while nothing ran
)

// Verdicts returns every verdict, in a fixed order.
func Verdicts() []Verdict {
	return []Verdict{Passed, Failed, Aborted, Inconclusive, Skipped, Interrupted, Missed}
}

// PhaseName is a part of a run.
type PhaseName string

// The phases, in their order.
const (
	PhaseClaim      PhaseName = "claim"
	PhasePreflight  PhaseName = "preflight"
	PhaseClearCheck PhaseName = "brakes"
	PhaseBaseline   PhaseName = "baseline"
	PhaseInject     PhaseName = "inject"
	PhaseHold       PhaseName = "hold"
	PhaseClear      PhaseName = "clear"
	PhaseRecover    PhaseName = "recover"
	PhaseVerdict    PhaseName = "verdict"
)

// Phase is a part of a run that has begun.
type Phase struct {
	Name    PhaseName `json:"name"`
	Started time.Time `json:"began_at"`
	Ended   time.Time `json:"ended_at"` // zero while it runs
	Note    string    `json:"note"`     // its result
}

// MarshalJSON writes an unknown end as null.
func (p Phase) MarshalJSON() ([]byte, error) {
	type fields Phase
	return json.Marshal(struct {
		fields
		Started *string `json:"began_at"`
		Ended   *string `json:"ended_at"`
	}{fields(p), timeOrNull(p.Started), timeOrNull(p.Ended)})
}

// Trigger is why a run began.
type Trigger string

// The triggers.
const (
	BySchedule Trigger = "schedule"
	ByCatchUp  Trigger = "catch_up"
	ByHand     Trigger = "manual"
)

// Hypothesis is an Expectation and its result.
type Hypothesis struct {
	Expectation
	Measured bool    `json:"measured"` // false: the value is not known, Reason says why
	Value    float64 `json:"value"`
	Margin   float64 `json:"margin"` // share of the limit; below 0: it did not hold
	Passed   bool    `json:"passed"`
	Evidence string  `json:"evidence"` // who observed it, and the number of samples
	Reason   string  `json:"why"`      // how the value came about, or why there is none
}

// MarshalJSON writes unknown values as null.
func (h Hypothesis) MarshalJSON() ([]byte, error) {
	type fields Hypothesis
	h.Limit = Finite(h.Limit)
	j := struct {
		fields
		Value  *float64 `json:"value"`
		Margin *float64 `json:"margin"`
	}{fields: fields(h)}
	if h.Measured {
		value, margin := Finite(h.Value), Finite(h.Margin)
		j.Value, j.Margin = &value, &margin
	}
	return json.Marshal(j)
}

// RevertResult is the result of reverting a step or clearing a fault.
type RevertResult struct {
	What string        `json:"what"`
	At   time.Time     `json:"at"`
	Took time.Duration `json:"took_s"` // of the wall clock
	OK   bool          `json:"ok"`
	Note string        `json:"note"`
}

// MarshalJSON writes the duration in seconds.
func (r RevertResult) MarshalJSON() ([]byte, error) {
	type fields RevertResult
	return json.Marshal(struct {
		fields
		At   *string     `json:"at"`
		Took docDuration `json:"took_s"`
	}{fields(r), timeOrNull(r.At), docDuration(r.Took)})
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (r *RevertResult) UnmarshalJSON(data []byte) error {
	type fields RevertResult
	j := struct {
		*fields
		Took *docDuration `json:"took_s"`
	}{(*fields)(r), (*docDuration)(&r.Took)}
	return json.Unmarshal(data, &j)
}

// Message is a notification that the drill caused.
type Message struct {
	Incident     string    `json:"incident"`
	Kind         string    `json:"kind"`  // post, edit, reply
	Level        string    `json:"level"` // warn, page, resolved
	Channel      string    `json:"channel"`
	Text         string    `json:"text"`        // all of it that people can read, the notification line first
	FirstAttempt time.Time `json:"made_at"`     // when headgate first tried to send it; zero: as Accepted
	Accepted     time.Time `json:"accepted_at"` // by Slack
}

// MarshalJSON writes unknown times as null.
func (m Message) MarshalJSON() ([]byte, error) {
	type fields Message
	return json.Marshal(struct {
		fields
		FirstAttempt *string `json:"made_at"`
		Accepted     *string `json:"accepted_at"`
	}{fields(m), timeOrNull(m.FirstAttempt), timeOrNull(m.Accepted)})
}

// Point is one scenario second.
type Point struct {
	At         float64 `json:"at_s"`             // scenario seconds from the beginning of inject; negative in the baseline
	Turnaround float64 `json:"p95_turnaround_s"` // p95 of tasks that ended within the last 10 s; -1: none did
	QueueAge   float64 `json:"queue_age_s"`
	Depth      int     `json:"queue_depth"`
	InFlight   int     `json:"in_flight"`
	Arrived    int     `json:"arrived"` // these four since the point before
	Served     int     `json:"served"`
	Refused    int     `json:"refused"`
	Errors     int     `json:"errors"`
}

// MarshalJSON writes an unknown turnaround as null.
func (p Point) MarshalJSON() ([]byte, error) {
	type fields Point
	p.At, p.QueueAge = Finite(p.At), Finite(p.QueueAge)
	j := struct {
		fields
		Turnaround *float64 `json:"p95_turnaround_s"`
	}{fields: fields(p)}
	if p.Turnaround >= 0 && p.Turnaround == Finite(p.Turnaround) {
		j.Turnaround = &p.Turnaround
	}
	return json.Marshal(j)
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (p *Point) UnmarshalJSON(data []byte) error {
	type fields Point
	p.Turnaround = -1 // null leaves it
	return json.Unmarshal(data, (*fields)(p))
}

// MaxPoints bounds the series of a run.
const MaxPoints = 7200

// Run is one execution of a spec, in the form that the API, the pages, the command line and the store share. Nil
// lists are left out of its JSON, except phases and hypotheses: a run in a list has no spec, reverts, messages
// or series.
type Run struct {
	ID          string    `json:"id"`                     // UUIDv7
	Drill       string    `json:"drill"`                  // ID of the spec
	Name        string    `json:"name"`                   // of the drill when it ran
	SpecVersion string    `json:"spec_version,omitempty"` // this and Target are of Spec; set by Summary and Report
	Version     string    `json:"version"`                // of headgate
	Target      Target    `json:"target,omitempty"`
	Trigger     Trigger   `json:"trigger"`
	Actor       string    `json:"actor"`
	Status      Status    `json:"status"`
	Verdict     Verdict   `json:"verdict"`
	Reason      string    `json:"reason"`       // of the verdict, in one line
	Count       int       `json:"missed"`       // of Missed: how many occurrences
	Scheduled   time.Time `json:"scheduled_at"` // the occurrence; zero by hand
	Started     time.Time `json:"started_at"`
	Ended       time.Time `json:"ended_at"`
	Speed       float64   `json:"speed"`    // scenario seconds in one of the wall clock
	Injected    int       `json:"injected"` // calls that a fault was applied to
	Fence       int64     `json:"-"`        // token of the lock under which it ran
	Live        bool      `json:"-"`        // it is in progress, and read from memory

	ClearTook time.Duration `json:"clear_took_s"` // of the wall clock; 0: nothing was injected
	Recovered time.Duration `json:"recovered_s"`  // scenario time

	Hypotheses []Hypothesis   `json:"hypotheses"`
	Phases     []Phase        `json:"phases"`
	Spec       Spec           `json:"spec,omitzero"` // as it was when it ran
	Reverts    []RevertResult `json:"rollbacks,omitzero"`
	Messages   []Message      `json:"messages,omitzero"`
	Series     []Point        `json:"series,omitzero"`
}

// Summary returns a run as lists show it.
func (r Run) Summary() Run {
	r.SpecVersion, r.Target = r.Spec.Version(), r.Spec.Target
	r.Spec, r.Reverts, r.Messages, r.Series = Spec{}, nil, nil, nil
	return r
}

// Report returns all of a run. Live says that it is in progress.
func (r Run) Report(live bool) Run {
	r.SpecVersion, r.Target, r.Live = r.Spec.Version(), r.Spec.Target, live
	r.Reverts, r.Messages, r.Series = orEmpty(r.Reverts), orEmpty(r.Messages), orEmpty(r.Series)
	return r
}

// orEmpty returns an empty list for nil, which JSON writes as null.
func orEmpty[T any](all []T) []T {
	if all == nil {
		return []T{}
	}
	return all
}

// Took returns how long a run lasted on the wall clock; 0: it never began, or is in progress.
func (r Run) Took() time.Duration {
	if r.Started.IsZero() || r.Ended.IsZero() {
		return 0
	}
	return r.Ended.Sub(r.Started)
}

// MarshalJSON writes durations in seconds, unknown values as null, and derived values beside the others.
func (r Run) MarshalJSON() ([]byte, error) {
	type fields Run
	r.Speed, r.Hypotheses, r.Phases = Finite(r.Speed), orEmpty(r.Hypotheses), orEmpty(r.Phases)
	j := struct {
		ID        string       `json:"id"` // what identifies the run comes first, the long lists last
		Drill     string       `json:"drill"`
		Name      string       `json:"name"`
		Status    Status       `json:"status"`
		Verdict   *Verdict     `json:"verdict"` // null until it has ended
		Scheduled *string      `json:"scheduled_at"`
		Started   *string      `json:"started_at"`
		Ended     *string      `json:"ended_at"`
		Took      *docDuration `json:"duration_s"`
		ClearTook *docDuration `json:"clear_took_s"`
		Recovered *docDuration `json:"recovered_s"`
		Tightest  *Hypothesis  `json:"tightest_hypothesis"`
		Live      *bool        `json:"live,omitempty"` // left out of a run in a list
		fields
	}{
		ID: r.ID, Drill: r.Drill, Name: r.Name, Status: r.Status, fields: fields(r), Verdict: orNull(r.Verdict),
		Scheduled: timeOrNull(r.Scheduled), Started: timeOrNull(r.Started), Ended: timeOrNull(r.Ended),
		ClearTook: orNull(docDuration(r.ClearTook)), Recovered: orNull(docDuration(r.Recovered)),
	}
	if !r.Started.IsZero() && !r.Ended.IsZero() {
		took := docDuration(r.Took())
		j.Took = &took
	}
	if h, ok := r.Tightest(); ok {
		j.Tightest = &h
	}
	if r.Messages != nil {
		j.Live = &r.Live
	}
	return json.Marshal(j)
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (r *Run) UnmarshalJSON(data []byte) error {
	type fields Run
	j := struct {
		*fields
		ClearTook *docDuration `json:"clear_took_s"`
		Recovered *docDuration `json:"recovered_s"`
		Live      *bool        `json:"live"`
	}{(*fields)(r), (*docDuration)(&r.ClearTook), (*docDuration)(&r.Recovered), &r.Live}
	if err := json.Unmarshal(data, &j); err != nil {
		return err
	}
	if len(r.Hypotheses) == 0 {
		r.Hypotheses = nil
	}
	if len(r.Phases) == 0 {
		r.Phases = nil
	}
	return nil
}

// orNull returns nil, which JSON writes as null, for a zero value.
func orNull[T comparable](v T) *T {
	if v == *new(T) {
		return nil
	}
	return &v
}

// timeOrNull writes a time in UTC, to the millisecond.
func timeOrNull(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	text := t.UTC().Format("2006-01-02T15:04:05.000Z07:00")
	return &text
}

// Freeze forbids drills while On.
type Freeze struct {
	On     bool
	Actor  string
	Reason string
	Since  time.Time
}

// Errors of a store.
var (
	ErrClaimed  = errors.New("this occurrence has been claimed already")
	ErrBusy     = errors.New("another drill is running")
	ErrFrozen   = errors.New("drills are frozen")
	ErrLockLost = errors.New("another process holds the lock")
	ErrNoRun    = errors.New("no such run")
)

// HistoryQuery asks for sums over a span of days.
type HistoryQuery struct {
	Drill string    // ID or name; empty: all drills
	Since time.Time // its day is the first; zero: the day of the first run
	Until time.Time // its day is the last; zero: the day of the latest run
}

// MaxDays bounds the days before Until.
const MaxDays = 800

// History sums up runs that have ended, and those that never began.
type History struct {
	Days   []Day    // with runs, in order
	Latest []Latest // of every drill that ever ran, by ID
}

// Day is the sum of the runs of a drill that began on one day of UTC.
type Day struct {
	Day        time.Time // its beginning
	Drill      string    // ID
	Verdicts   map[Verdict]int
	WithMargin int     // runs with a margin
	MarginSum  float64 // sum over them of the tightest margin of each
	Tightest   float64 // of all margins that day; meaningless if WithMargin is 0
}

// Latest is the latest run of a drill, and the latest that passed.
type Latest struct {
	Drill     string // ID
	Name      string // when it ran last
	Run       string // ID of the latest run that has ended
	Verdict   Verdict
	At        time.Time // when that began
	PassedRun string    // ID of the latest run that passed; empty: none
	PassedAt  time.Time // when that began; zero: none
}

// Tightest returns the measured hypothesis with the least margin, and false if there is none. Hypotheses that are met
// exactly have no margin, and count only if there are no others. A run that was stopped has none: it is incomplete.
func (r Run) Tightest() (Hypothesis, bool) {
	var least Hypothesis
	found := false
	if r.Verdict == Aborted || r.Verdict == Interrupted {
		return least, false
	}
	for _, h := range r.Hypotheses {
		if h.Measured && (!found || h.tighter(least)) {
			least, found = h, true
		}
	}
	return least, found
}

func (h Hypothesis) tighter(than Hypothesis) bool {
	if h.metExactly() != than.metExactly() {
		return than.metExactly()
	}
	return h.Margin < than.Margin
}

// metExactly says that a hypothesis holds and could not do so by more or less.
func (h Hypothesis) metExactly() bool { return h.Passed && (h.Compare == Equal || h.Limit == 0) }

// Overdue says whether the last pass is older than one and a half periods of the schedule. A drill that never passed is
// overdue when it has been known for as long. With a period of 0, as without a schedule, nothing is overdue.
func Overdue(now, lastPass, known time.Time, period time.Duration) bool {
	if period <= 0 {
		return false
	}
	since := lastPass
	if since.IsZero() {
		since = known
	}
	return !since.IsZero() && now.Sub(since) > period+period/2
}
