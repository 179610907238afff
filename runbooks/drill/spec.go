package drill

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"go.yaml.in/yaml/v3"

	"headgate/proxy/fault"
)

// Bounds of a drill.
const (
	MaxSpeed     = 100           // beyond it rules cannot be evaluated often enough
	MaxDuration  = 2 * time.Hour // of baseline, scenario and recovery together: Run.Series holds a point for each second
	MaxLiveShare = 0.25          // of production's tasks
	MaxLiveTasks = 200           // of production that a run touches, whatever its share
	MaxText      = 200           // characters of a text in a definition, except for notes
)

// Target is what a drill works on.
type Target string

// The targets.
const (
	Twin Target = "twin" // a second gate with the pool's settings and rules; shares nothing with production
	Live Target = "live" // faults on the production upstream path of a share of tasks
)

// Spec says what a drill is. It is never changed once it has been parsed.
type Spec struct {
	ID      string // stable: history and schedule hang on it, not on Name
	Name    string
	Note    string
	Owner   string // who is told of failures, as a mention or in plain words
	BuiltIn bool

	Schedule string        // cron, five fields; empty: by hand only
	Zone     string        // IANA name; empty: UTC
	CatchUp  time.Duration // how late a missed occurrence may still run, once; 0: never
	Speed    float64       // unless one is asked for; 1 for Live

	Target   Target
	Pool     string  // whose settings and rules are taken; empty: the first pool
	Share    float64 // Live only: part of the tasks that the faults may befall at most
	Marked   bool    // Live only: only tasks with a signed drill header
	Scenario Scenario
	Expect   []Expectation
	AbortIf  []Expectation // a run stops as soon as one of these holds
	Recovery time.Duration // within which the steady state is back after the faults, scenario time
}

// TotalDuration is how long a run takes at most, in scenario time.
func (s Spec) TotalDuration() time.Duration {
	return s.Scenario.Baseline + s.Scenario.Duration + s.Recovery
}

// Scenario is the load, the service and the faults, in scenario time from the
// beginning of the phase inject.
type Scenario struct {
	Duration time.Duration
	Workers  int           // 0: the pool's
	Baseline time.Duration // of steady load before; 0: no such phase, and the run says so
	Arrivals Arrivals
	Service  string // how long the endpoint takes for a call: uniform:5s-30s
	Seed     uint64
	Faults   []Injection
	Slack    []Injection // on the way to the receiver of messages
	Steps    []Step
}

// DisturbanceStart is when the first disturbance of a scenario begins. Without a baseline the whole scenario is one.
func (s Scenario) DisturbanceStart() time.Duration {
	if s.Baseline == 0 {
		return 0
	}
	first := s.Duration
	s.eachDisturbance(func(from, _ time.Duration) { first = min(first, from) })
	if first == s.Duration {
		return 0
	}
	return first
}

// DisturbanceEnd is when the last disturbance of a scenario is over.
func (s Scenario) DisturbanceEnd() time.Duration {
	last := time.Duration(-1)
	s.eachDisturbance(func(_, to time.Duration) { last = max(last, to) })
	if last < 0 {
		return s.Duration
	}
	return min(last, s.Duration)
}

// eachDisturbance calls f with the span of everything that the scenario does besides its
// steady load. A step that is not taken back lasts to the end.
func (s Scenario) eachDisturbance(f func(from, to time.Duration)) {
	for _, b := range s.Arrivals.Bursts {
		f(b.From, b.To)
	}
	for _, i := range slices.Concat(s.Faults, s.Slack) {
		f(i.From, i.From+i.For)
	}
	for _, st := range s.Steps {
		to := st.At + st.For
		if st.For == 0 {
			to = s.Duration
		}
		f(st.At, to)
	}
}

// ExpectedTasks is how many are expected.
func (s Scenario) ExpectedTasks(recovery time.Duration) float64 {
	n := s.Arrivals.Rate*(s.Baseline+s.Duration).Seconds() + s.Arrivals.Rest*recovery.Seconds()
	for _, b := range s.Arrivals.Bursts {
		n += s.Arrivals.Rate * (b.Multiple - 1) * (b.To - b.From).Seconds()
	}
	return n
}

// Arrivals is the load.
type Arrivals struct {
	Rate       float64 // tasks per second, in the baseline and the scenario
	Rest       float64 // the same in the recovery; 0: nothing comes any more
	Bursts     []Burst
	LargeShare float64 // of large prompts, 0 to 1
	Stream     bool
}

// Burst multiplies the rate from From (included) to To (not included).
type Burst struct {
	From, To time.Duration
	Multiple float64
}

// Injection is a fault and its time.
type Injection struct {
	fault.Fault
	From time.Duration
	For  time.Duration
}

// StepKind is something that a scenario does, other than load and faults.
type StepKind string

// The kinds of steps. Each is undone at the end of the run, in reverse.
const (
	StepRollback   StepKind = "rollback"    // the twin's pool goes into passthrough
	StepRestore    StepKind = "restore"     // and back
	StepLockRecord StepKind = "lock_record" // the twin's database is held by another connection
	StepLoseSlots  StepKind = "lose_slots"  // the endpoint works on Count calls fewer at once; the gate does not know
)

// Step is done at a time, and undone after For if that is set.
type Step struct {
	Kind  StepKind
	At    time.Duration
	For   time.Duration
	Count int // of StepLoseSlots
}

// Measure is something that was seen.
type Measure string

// The measures. Shares are parts of 1, times scenario seconds unless noted.
const (
	LateShare         Measure = "late_share"           // of served tasks, those later than the SLO
	P95               Measure = "p95_turnaround"       // of served tasks, from the intended arrival
	MissingRetryAfter Measure = "bad_retry_after"      // refusals without a Retry-After from 1 to 60
	RefusedShare      Measure = "refused_share"        // of arrivals
	RefusedInBaseline Measure = "refused_in_baseline"  // refusals while nothing was wrong
	OverLimit         Measure = "in_flight_over_limit" // most calls at the endpoint at once, above the workers
	TimeToWarn        Measure = "time_to_warn"         // from the first fault or burst to the warning's acceptance
	TimeToPage        Measure = "time_to_page"         // the same of the page, accepted by Slack
	TimeToResolve     Measure = "time_to_resolve"      // from the end of faults and bursts to the resolved message
	Pages             Measure = "pages"                // accepted by Slack
	MessageFaults     Measure = "message_faults"       // things that the messages got wrong or left out: pool, value, limit, DRILL
	DrainedWithin     Measure = "drained_within"       // from the end of the load to the last answer
	RollbackTime      Measure = "flip_time"            // from the order to the first task let in; real seconds
	RestoreTime       Measure = "restore_time"         // from the order to the first refusal; real seconds
	TasksLost         Measure = "tasks_lost"           // sent, and neither answered nor refused nor ended by the fault
	FalseCompletions  Measure = "false_ends"           // broken answers that looked whole
	ErrorShare        Measure = "error_share"          // of arrivals: errors that the client saw
	ServedShare       Measure = "served_share"         // of arrivals: answered in full
	ProductionDrift   Measure = "production_drift"     // of production's counters by the drill's tasks
	MessagesLost      Measure = "messages_lost"        // incidents that no message announced, once all was over
)

// Compare is how a value stands to its limit.
type Compare string

// The comparators.
const (
	AtMost  Compare = "<="
	AtLeast Compare = ">="
	Equal   Compare = "=="
)

// Expectation puts a limit to a measure.
type Expectation struct {
	Measure Measure `json:"name"` // these names are those of a Hypothesis; a Spec has others
	Compare Compare `json:"compare"`
	Limit   float64 `json:"limit"` // in Unit
	Unit    string  `json:"unit"`  // s, ratio, tasks, messages
}

// docDuration is a duration that is written in seconds as JSON, and with units as YAML.
type docDuration time.Duration

func (d docDuration) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(d).Seconds()) }

func (d *docDuration) UnmarshalJSON(data []byte) error {
	var seconds float64
	if err := json.Unmarshal(data, &seconds); err != nil {
		return err
	}
	const most = float64(1<<62) / float64(time.Second)
	if math.Abs(seconds) > most {
		return fmt.Errorf("a duration of %v s is too long", seconds)
	}
	*d = docDuration(math.Round(seconds * float64(time.Second)))
	return nil
}

// MarshalYAML writes the duration as definitions have it.
func (d docDuration) MarshalYAML() (any, error) { return FormatDuration(time.Duration(d)), nil }

// IsZero makes omitempty leave it out.
func (d docDuration) IsZero() bool { return d == 0 }

// expectationDoc is an expectation: text as YAML, parts as JSON.
type expectationDoc Expectation

type expectationJSON struct {
	Measure Measure `json:"measure"`
	Compare Compare `json:"compare"`
	Limit   float64 `json:"limit"`
	Unit    string  `json:"unit"`
}

func (e expectationDoc) MarshalJSON() ([]byte, error) {
	return json.Marshal(expectationJSON{e.Measure, e.Compare, Finite(e.Limit), e.Unit})
}

func (e *expectationDoc) UnmarshalJSON(data []byte) error {
	var j expectationJSON
	err := json.Unmarshal(data, &j)
	*e = expectationDoc{j.Measure, j.Compare, j.Limit, j.Unit}
	return err
}

// MarshalYAML writes the expectation as definitions have it.
func (e expectationDoc) MarshalYAML() (any, error) { return Expectation(e).String(), nil }

type specDoc struct {
	ID       string           `json:"id" yaml:"id"`
	Name     string           `json:"name" yaml:"name"`
	Note     string           `json:"note,omitempty" yaml:"note,omitempty"`
	Owner    string           `json:"owner,omitempty" yaml:"owner,omitempty"`
	BuiltIn  bool             `json:"built_in" yaml:"-"`
	Schedule string           `json:"schedule,omitempty" yaml:"schedule,omitempty"`
	Zone     string           `json:"zone,omitempty" yaml:"zone,omitempty"`
	CatchUp  docDuration      `json:"catch_up_s,omitzero" yaml:"catch_up,omitempty"`
	Speed    float64          `json:"speed" yaml:"speed"`
	Target   Target           `json:"target" yaml:"target"`
	Pool     string           `json:"pool,omitempty" yaml:"pool,omitempty"`
	Share    float64          `json:"share,omitempty" yaml:"share,omitempty"`
	Marked   bool             `json:"marked,omitempty" yaml:"marked,omitempty"`
	Scenario scenarioDoc      `json:"scenario" yaml:"scenario"`
	Expect   []expectationDoc `json:"expect" yaml:"expect"`
	AbortIf  []expectationDoc `json:"abort_if" yaml:"abort_if"`
	Recovery docDuration      `json:"recovery_s" yaml:"recovery"`
}

type scenarioDoc struct {
	Duration docDuration `json:"duration_s" yaml:"duration"`
	Workers  int         `json:"workers,omitempty" yaml:"workers,omitempty"`
	Baseline docDuration `json:"baseline_s,omitzero" yaml:"baseline,omitempty"`
	Arrivals arrivalDoc  `json:"arrivals,omitzero" yaml:"arrivals,omitempty"`
	Service  string      `json:"service,omitempty" yaml:"service,omitempty"`
	Seed     uint64      `json:"seed" yaml:"seed"`
	Faults   []faultDoc  `json:"faults,omitempty" yaml:"faults,omitempty"`
	Slack    []faultDoc  `json:"slack,omitempty" yaml:"slack,omitempty"`
	Steps    []stepDoc   `json:"steps,omitempty" yaml:"steps,omitempty"`
}

type arrivalDoc struct {
	Rate       float64    `json:"rate_per_s,omitempty" yaml:"rate,omitempty"`
	Rest       float64    `json:"rest_per_s,omitempty" yaml:"rest,omitempty"`
	LargeShare float64    `json:"large_share,omitempty" yaml:"large_share,omitempty"`
	Stream     bool       `json:"stream,omitempty" yaml:"stream,omitempty"`
	Bursts     []burstDoc `json:"bursts,omitempty" yaml:"bursts,omitempty"`
}

// IsZero makes omitzero leave it out.
func (a arrivalDoc) IsZero() bool {
	return a.Rate == 0 && a.Rest == 0 && a.LargeShare == 0 && !a.Stream && len(a.Bursts) == 0
}

type burstDoc struct {
	From     docDuration `json:"from_s" yaml:"from"`
	To       docDuration `json:"to_s" yaml:"to"`
	Multiple float64     `json:"times" yaml:"times"`
}

type faultDoc struct {
	Kind   fault.Kind  `json:"kind" yaml:"kind"`
	Share  float64     `json:"share" yaml:"share"`
	From   docDuration `json:"from_s" yaml:"from"`
	For    docDuration `json:"for_s" yaml:"for"`
	Delay  docDuration `json:"delay_s,omitzero" yaml:"delay,omitempty"`
	Jitter docDuration `json:"jitter_s,omitzero" yaml:"jitter,omitempty"`
	Code   int         `json:"code,omitempty" yaml:"code,omitempty"`
	After  int         `json:"after_bytes,omitempty" yaml:"after,omitempty"`
}

type stepDoc struct {
	Kind  StepKind    `json:"do" yaml:"do"`
	At    docDuration `json:"at_s" yaml:"at"`
	For   docDuration `json:"for_s,omitzero" yaml:"for,omitempty"`
	Count int         `json:"count,omitempty" yaml:"count,omitempty"`
}

// MarshalJSON writes a spec with stable keys, and durations in seconds.
func (s Spec) MarshalJSON() ([]byte, error) { return json.Marshal(specDocOf(s)) }

// UnmarshalJSON reads what MarshalJSON wrote. It checks the form only, so that what
// ran under older rules can still be read.
func (s *Spec) UnmarshalJSON(data []byte) error {
	var d specDoc
	if err := json.Unmarshal(data, &d); err != nil {
		return err
	}
	*s = d.spec()
	return nil
}

// Version names a spec by its content: the same for the same, whatever it is called.
func (s Spec) Version() string {
	s.Name, s.Note, s.Owner = "", "", ""
	text, err := json.Marshal(s)
	if err != nil { // a spec can always be written
		return ""
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:4])
}

// YAML writes a spec as a definition that Parse reads.
func (s Spec) YAML() ([]byte, error) {
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(specDocOf(s)); err != nil {
		return nil, fmt.Errorf("write the drill: %w", err)
	}
	return b.Bytes(), nil
}

// mapSlice makes a list of another; nil stays nil.
func mapSlice[A, B any](all []A, to func(A) B) []B {
	if all == nil {
		return nil
	}
	out := make([]B, len(all))
	for i, a := range all {
		out[i] = to(a)
	}
	return out
}

func specDocOf(s Spec) specDoc {
	limit := func(e Expectation) expectationDoc { return expectationDoc(e) }
	d := specDoc{
		ID: s.ID, Name: s.Name, Note: s.Note, Owner: s.Owner, BuiltIn: s.BuiltIn,
		Schedule: s.Schedule, Zone: s.Zone, CatchUp: docDuration(s.CatchUp), Speed: Finite(s.Speed),
		Target: s.Target, Pool: s.Pool, Share: Finite(s.Share), Marked: s.Marked,
		Scenario: scenarioOf(s.Scenario), Recovery: docDuration(s.Recovery),
		Expect: mapSlice(s.Expect, limit), AbortIf: mapSlice(s.AbortIf, limit),
	}
	if d.Expect == nil {
		d.Expect = []expectationDoc{}
	}
	if d.AbortIf == nil {
		d.AbortIf = []expectationDoc{}
	}
	return d
}

func scenarioOf(s Scenario) scenarioDoc {
	a := s.Arrivals
	return scenarioDoc{
		Duration: docDuration(s.Duration), Workers: s.Workers, Baseline: docDuration(s.Baseline),
		Service: s.Service, Seed: s.Seed,
		Arrivals: arrivalDoc{
			Rate: Finite(a.Rate), Rest: Finite(a.Rest), LargeShare: Finite(a.LargeShare), Stream: a.Stream,
			Bursts: mapSlice(a.Bursts, func(b Burst) burstDoc { return burstDoc{docDuration(b.From), docDuration(b.To), Finite(b.Multiple)} }),
		},
		Faults: mapSlice(s.Faults, faultOf), Slack: mapSlice(s.Slack, faultOf),
		Steps: mapSlice(s.Steps, func(s Step) stepDoc { return stepDoc{s.Kind, docDuration(s.At), docDuration(s.For), s.Count} }),
	}
}

func faultOf(i Injection) faultDoc {
	return faultDoc{
		Kind: i.Kind, Share: Finite(i.Share), From: docDuration(i.From), For: docDuration(i.For),
		Delay: docDuration(i.Delay), Jitter: docDuration(i.Jitter), Code: i.Code, After: i.AfterBytes,
	}
}

func (d specDoc) spec() Spec {
	limit := func(e expectationDoc) Expectation { return Expectation(e) }
	s := Spec{
		ID: d.ID, Name: d.Name, Note: d.Note, Owner: d.Owner, BuiltIn: d.BuiltIn,
		Schedule: d.Schedule, Zone: d.Zone, CatchUp: time.Duration(d.CatchUp), Speed: d.Speed,
		Target: d.Target, Pool: d.Pool, Share: d.Share, Marked: d.Marked,
		Scenario: d.Scenario.scenario(), Recovery: time.Duration(d.Recovery),
	}
	if len(d.Expect) > 0 {
		s.Expect = mapSlice(d.Expect, limit)
	}
	if len(d.AbortIf) > 0 {
		s.AbortIf = mapSlice(d.AbortIf, limit)
	}
	return s
}

func (d scenarioDoc) scenario() Scenario {
	a := d.Arrivals
	return Scenario{
		Duration: time.Duration(d.Duration), Workers: d.Workers, Baseline: time.Duration(d.Baseline),
		Service: d.Service, Seed: d.Seed,
		Arrivals: Arrivals{
			Rate: a.Rate, Rest: a.Rest, LargeShare: a.LargeShare, Stream: a.Stream,
			Bursts: mapSlice(a.Bursts, func(b burstDoc) Burst {
				return Burst{From: time.Duration(b.From), To: time.Duration(b.To), Multiple: b.Multiple}
			}),
		},
		Faults: mapSlice(d.Faults, faultDoc.injection), Slack: mapSlice(d.Slack, faultDoc.injection),
		Steps: mapSlice(d.Steps, func(s stepDoc) Step {
			return Step{Kind: s.Kind, At: time.Duration(s.At), For: time.Duration(s.For), Count: s.Count}
		}),
	}
}

func (d faultDoc) injection() Injection {
	return Injection{
		Fault: fault.Fault{
			Kind: d.Kind, Share: d.Share, Delay: time.Duration(d.Delay), Jitter: time.Duration(d.Jitter),
			Code: d.Code, AfterBytes: d.After,
		},
		From: time.Duration(d.From), For: time.Duration(d.For),
	}
}
