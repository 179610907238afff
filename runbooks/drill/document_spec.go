package drill

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"go.yaml.in/yaml/v3"

	"headgate/proxy/fault"
)

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
func (d docDuration) MarshalYAML() (any, error) { return formatDuration(time.Duration(d)), nil }

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
	return json.Marshal(expectationJSON{e.Measure, e.Compare, finite(e.Limit), e.Unit})
}

func (e *expectationDoc) UnmarshalJSON(data []byte) error {
	var j expectationJSON
	err := json.Unmarshal(data, &j)
	*e = expectationDoc(j)
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
