package drill

import (
	"encoding/json"
	"time"
)

type runDoc struct {
	ID          string          `json:"id"`
	Drill       string          `json:"drill"`
	Name        string          `json:"name"`
	Status      Status          `json:"status"`
	Verdict     Verdict         `json:"verdict,omitempty"`
	Reason      string          `json:"reason,omitempty"`
	Count       int             `json:"count,omitempty"`
	Trigger     Trigger         `json:"trigger"`
	Actor       string          `json:"actor,omitempty"`
	Version     string          `json:"version,omitempty"`
	Speed       float64         `json:"speed"`
	Scheduled   time.Time       `json:"scheduled_at,omitzero"`
	Started     time.Time       `json:"started_at,omitzero"`
	Ended       time.Time       `json:"ended_at,omitzero"`
	Injected    int             `json:"injected_calls"`
	ClearTook   docDuration     `json:"clear_took_s"`
	Recovered   docDuration     `json:"recovered_s"`
	Fence       int64           `json:"fence,omitempty"`
	Phases      []phaseDoc      `json:"phases"`
	Hypotheses  []hypothesisDoc `json:"hypotheses"`
	UndoResults []undoResultDoc `json:"undone"`
	Messages    []messageDoc    `json:"messages"`
	Spec        Spec            `json:"spec"`
	Series      []pointDoc      `json:"series,omitempty"`
}

type phaseDoc struct {
	Name    PhaseName `json:"name"`
	Started time.Time `json:"began_at"`
	Ended   time.Time `json:"ended_at,omitzero"`
	Note    string    `json:"note,omitempty"`
}

type hypothesisDoc struct {
	Name     Measure `json:"name"`
	Compare  Compare `json:"compare"`
	Limit    float64 `json:"limit"`
	Unit     string  `json:"unit"`
	Measured bool    `json:"known"`
	Value    float64 `json:"value"`
	Margin   float64 `json:"margin"`
	Passed   bool    `json:"passed"`
	Evidence string  `json:"evidence,omitempty"`
	Reason   string  `json:"why,omitempty"`
}

type undoResultDoc struct {
	What string      `json:"what"`
	At   time.Time   `json:"at"`
	Took docDuration `json:"took_s"`
	OK   bool        `json:"ok"`
	Note string      `json:"note,omitempty"`
}

type messageDoc struct {
	Incident     string    `json:"incident,omitempty"`
	Kind         string    `json:"kind"`
	Level        string    `json:"level,omitempty"`
	Channel      string    `json:"channel,omitempty"`
	Text         string    `json:"text"`
	FirstAttempt time.Time `json:"made_at,omitzero"`
	Accepted     time.Time `json:"accepted_at,omitzero"`
}

type pointDoc struct {
	At         float64 `json:"at_s"`
	Turnaround float64 `json:"p95_turnaround_s"`
	QueueAge   float64 `json:"queue_age_s"`
	Depth      int     `json:"queue_depth"`
	InFlight   int     `json:"in_flight"`
	Arrived    int     `json:"arrived"`
	Served     int     `json:"served"`
	Refused    int     `json:"refused"`
	Errors     int     `json:"errors"`
}

// MarshalJSON writes a run with stable keys, durations in seconds, and no number
// that is not finite. Lists that are empty are written as such, except for the
// series, which is left out.
func (r Run) MarshalJSON() ([]byte, error) {
	return json.Marshal(runDoc{
		ID: r.ID, Drill: r.Drill, Name: r.Name, Status: r.Status, Verdict: r.Verdict, Reason: r.Reason,
		Count: r.Count, Trigger: r.Trigger, Actor: r.Actor, Version: r.Version, Speed: Finite(r.Speed),
		Scheduled: r.Scheduled, Started: r.Started, Ended: r.Ended,
		Injected: r.Injected, ClearTook: docDuration(r.ClearTook), Recovered: docDuration(r.Recovered), Fence: r.Fence,
		Phases:     mapOrEmpty(r.Phases, func(p Phase) phaseDoc { return phaseDoc(p) }),
		Hypotheses: mapOrEmpty(r.Hypotheses, hypothesisOf),
		UndoResults: mapOrEmpty(r.UndoResults, func(u UndoResult) undoResultDoc {
			return undoResultDoc{u.What, u.At, docDuration(u.Took), u.OK, u.Note}
		}),
		Messages: mapOrEmpty(r.Messages, func(m Message) messageDoc { return messageDoc(m) }),
		Spec:     r.Spec, Series: mapSlice(r.Series, pointOf),
	})
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (r *Run) UnmarshalJSON(data []byte) error {
	var d runDoc
	if err := json.Unmarshal(data, &d); err != nil {
		return err
	}
	*r = Run{
		ID: d.ID, Drill: d.Drill, Name: d.Name, Status: d.Status, Verdict: d.Verdict, Reason: d.Reason,
		Count: d.Count, Trigger: d.Trigger, Actor: d.Actor, Version: d.Version, Speed: d.Speed,
		Scheduled: d.Scheduled, Started: d.Started, Ended: d.Ended,
		Injected: d.Injected, ClearTook: time.Duration(d.ClearTook), Recovered: time.Duration(d.Recovered), Fence: d.Fence,
		Phases:     mapOrNil(d.Phases, func(p phaseDoc) Phase { return Phase(p) }),
		Hypotheses: mapOrNil(d.Hypotheses, hypothesisDoc.hypothesis),
		UndoResults: mapOrNil(d.UndoResults, func(u undoResultDoc) UndoResult {
			return UndoResult{u.What, u.At, time.Duration(u.Took), u.OK, u.Note}
		}),
		Messages: mapOrNil(d.Messages, func(m messageDoc) Message { return Message(m) }),
		Spec:     d.Spec, Series: mapOrNil(d.Series, func(p pointDoc) Point { return Point(p) }),
	}
	return nil
}

// mapOrEmpty is mapped, with an empty list instead of none.
func mapOrEmpty[A, B any](all []A, to func(A) B) []B {
	if len(all) == 0 {
		return []B{}
	}
	return mapSlice(all, to)
}

// mapOrNil is mapped, with none instead of an empty list.
func mapOrNil[A, B any](all []A, to func(A) B) []B {
	if len(all) == 0 {
		return nil
	}
	return mapSlice(all, to)
}

func hypothesisOf(h Hypothesis) hypothesisDoc {
	return hypothesisDoc{
		h.Measure, h.Compare, Finite(h.Limit), h.Unit, h.Measured, Finite(h.Value), Finite(h.Margin), h.Passed, h.Evidence, h.Reason,
	}
}

func (d hypothesisDoc) hypothesis() Hypothesis {
	return Hypothesis{
		Expectation: Expectation{d.Name, d.Compare, d.Limit, d.Unit},
		Measured:    d.Measured, Value: d.Value, Margin: d.Margin, Passed: d.Passed, Evidence: d.Evidence, Reason: d.Reason,
	}
}

func pointOf(p Point) pointDoc {
	p.At, p.Turnaround, p.QueueAge = Finite(p.At), Finite(p.Turnaround), Finite(p.QueueAge)
	return pointDoc(p)
}
