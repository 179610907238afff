package drill

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strings"
	"time"
	"unicode"

	"go.yaml.in/yaml/v3"

	"headgate/internal/format"
	"headgate/internal/strictyaml"
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

// MarshalYAML writes the duration as in definitions.
func (d docDuration) MarshalYAML() (any, error) { return format.Duration(time.Duration(d)), nil }

// DecodeNode reads 90s, 5m or 7d.
func (d *docDuration) DecodeNode(r *strictyaml.Decoder, n *yaml.Node, path string) {
	v, err := ParseDuration(n.Value)
	if n.Kind != yaml.ScalarNode || err != nil {
		r.ReportAt(strictyaml.PositionOf(n), path, "must be a duration such as 90s, 5m or 7d, is "+strictyaml.Display(n))
		return
	}
	*d = docDuration(v)
}

// expectationDoc is an expectation: text as YAML, parts as JSON.
type expectationDoc struct {
	Measure Measure `json:"measure"`
	Compare Compare `json:"compare"`
	Limit   float64 `json:"limit"`
	Unit    string  `json:"unit"`
}

// DecodeNode reads the text of an expectation.
func (e *expectationDoc) DecodeNode(r *strictyaml.Decoder, n *yaml.Node, path string) {
	var text docText
	before := r.Len()
	text.DecodeNode(r, n, path)
	if r.Len() > before {
		return
	}
	parsed, err := ParseExpectation(string(text))
	if err != nil {
		r.Report(path, err.Error())
	}
	*e = expectationDoc(parsed)
}

// MarshalYAML writes the expectation as in definitions.
func (e expectationDoc) MarshalYAML() (any, error) { return Expectation(e).String(), nil }

// docText is text without hidden characters.
type docText string

// DecodeNode refuses control characters, and those that could make text show as something else.
func (t *docText) DecodeNode(r *strictyaml.Decoder, n *yaml.Node, path string) {
	before := r.Len()
	r.Text((*string)(t))(n, path)
	hidden := func(c rune) bool { return c != '\n' && (unicode.IsControl(c) || unicode.Is(unicode.Cf, c)) }
	if r.Len() == before && strings.ContainsFunc(n.Value, hidden) {
		r.ReportAt(strictyaml.PositionOf(n), path, "must not have control characters")
	}
}

// docShare is a part of 1.
type docShare float64

// DecodeNode reads a number or a percentage.
func (s *docShare) DecodeNode(r *strictyaml.Decoder, n *yaml.Node, path string) {
	v, err := ParseShare(n.Value)
	if n.Kind != yaml.ScalarNode || err != nil {
		r.ReportAt(strictyaml.PositionOf(n), path, "must be 0 to 1 or 0% to 100%, is "+strictyaml.Display(n))
		return
	}
	*s = docShare(v)
}

// The documents below are how a spec is written as JSON, and read and written as YAML. Their fields have the names of
// those of the domain types: convertFields relies on it.
type specDoc struct {
	ID       docText          `json:"id" yaml:"id"`
	Name     docText          `json:"name" yaml:"name"`
	Note     docText          `json:"note,omitempty" yaml:"note,omitempty"`
	Owner    docText          `json:"owner,omitempty" yaml:"owner,omitempty"`
	BuiltIn  bool             `json:"built_in" yaml:"-"`
	Schedule docText          `json:"schedule,omitempty" yaml:"schedule,omitempty"`
	Zone     docText          `json:"zone,omitempty" yaml:"zone,omitempty"`
	CatchUp  docDuration      `json:"catch_up_s,omitzero" yaml:"catch_up,omitempty"`
	Speed    float64          `json:"speed" yaml:"speed"`
	Target   docText          `json:"target" yaml:"target"`
	Pool     docText          `json:"pool,omitempty" yaml:"pool,omitempty"`
	Share    docShare         `json:"share,omitempty" yaml:"share,omitempty"`
	Marked   bool             `json:"marked,omitempty" yaml:"marked,omitempty"`
	Scenario scenarioDoc      `json:"scenario" yaml:"scenario"`
	Expect   []expectationDoc `json:"expect" yaml:"expect" items:"100"`
	AbortIf  []expectationDoc `json:"abort_if" yaml:"abort_if" items:"100"`
	Recovery docDuration      `json:"recovery_s" yaml:"recovery"`
}

type scenarioDoc struct {
	Duration docDuration    `json:"duration_s" yaml:"duration"`
	Workers  int            `json:"workers,omitempty" yaml:"workers,omitempty"`
	Baseline docDuration    `json:"baseline_s,omitzero" yaml:"baseline,omitempty"`
	Arrivals arrivalDoc     `json:"arrivals,omitzero" yaml:"arrivals,omitempty"`
	Service  docText        `json:"service,omitempty" yaml:"service,omitempty"`
	Seed     int            `json:"seed" yaml:"seed"`
	Faults   []injectionDoc `json:"faults,omitempty" yaml:"faults,omitempty" items:"100"`
	Slack    []injectionDoc `json:"slack,omitempty" yaml:"slack,omitempty" items:"100"`
	Steps    []stepDoc      `json:"steps,omitempty" yaml:"steps,omitempty" items:"100"`
}

type arrivalDoc struct {
	Rate       float64    `json:"rate_per_s,omitempty" yaml:"rate,omitempty"`
	Rest       float64    `json:"rest_per_s,omitempty" yaml:"rest,omitempty"`
	LargeShare docShare   `json:"large_share,omitempty" yaml:"large_share,omitempty"`
	Stream     bool       `json:"stream,omitempty" yaml:"stream,omitempty"`
	Bursts     []burstDoc `json:"bursts,omitempty" yaml:"bursts,omitempty" items:"100"`
}

type burstDoc struct {
	From     docDuration `json:"from_s" yaml:"from"`
	To       docDuration `json:"to_s" yaml:"to"`
	Multiple float64     `json:"times" yaml:"times"`
}

type injectionDoc struct {
	Kind       docText     `json:"kind" yaml:"kind"`
	Share      docShare    `json:"share" yaml:"share"`
	From       docDuration `json:"from_s" yaml:"from"`
	For        docDuration `json:"for_s" yaml:"for"`
	Delay      docDuration `json:"delay_s,omitzero" yaml:"delay,omitempty"`
	Jitter     docDuration `json:"jitter_s,omitzero" yaml:"jitter,omitempty"`
	Code       int         `json:"code,omitempty" yaml:"code,omitempty"`
	AfterBytes int         `json:"after_bytes,omitempty" yaml:"after,omitempty"`
}

// SetDefaults makes a fault hit every call.
func (i *injectionDoc) SetDefaults() { i.Share = 1 }

type stepDoc struct {
	Kind  docText     `json:"do" yaml:"do"`
	At    docDuration `json:"at_s" yaml:"at"`
	For   docDuration `json:"for_s,omitzero" yaml:"for,omitempty"`
	Count int         `json:"count,omitempty" yaml:"count,omitempty"`
}

// newSpecDoc returns the document of a spec. Lists of expectations are written even if they are empty.
func newSpecDoc(s Spec) specDoc {
	d := specDoc{Expect: []expectationDoc{}, AbortIf: []expectationDoc{}}
	convertFields(reflect.ValueOf(&d).Elem(), reflect.ValueOf(s))
	return d
}

func (d specDoc) spec() (s Spec) {
	convertFields(reflect.ValueOf(&s).Elem(), reflect.ValueOf(d))
	return s
}

// convertFields copies a struct to one with fields of the same names and convertible types; those of an embedded struct
// count as fields of the outer one. Numbers become finite, as JSON requires. An empty list changes nothing.
func convertFields(to, from reflect.Value) {
	switch from.Kind() {
	case reflect.Struct:
		for _, f := range reflect.VisibleFields(from.Type()) {
			if !f.Anonymous {
				convertFields(to.FieldByName(f.Name), from.FieldByIndex(f.Index))
			}
		}
	case reflect.Slice:
		n := from.Len()
		if n == 0 {
			return
		}
		to.Set(reflect.MakeSlice(to.Type(), n, n))
		for i := range n {
			convertFields(to.Index(i), from.Index(i))
		}
	case reflect.Float64:
		to.SetFloat(Finite(from.Float()))
	default:
		to.Set(from.Convert(to.Type()))
	}
}

// MarshalJSON writes a spec with stable keys, and durations in seconds.
func (s Spec) MarshalJSON() ([]byte, error) { return json.Marshal(newSpecDoc(s)) }

// UnmarshalJSON reads what MarshalJSON wrote. It checks the form only, so that runs under older rules can still be
// read.
func (s *Spec) UnmarshalJSON(data []byte) error {
	var d specDoc
	if err := json.Unmarshal(data, &d); err != nil {
		return err
	}
	*s = d.spec()
	return nil
}

// defaultSpeed is the speed of a twin. Slack, which accepts one message a second at any speed, can still keep up.
const defaultSpeed = 10

// DecodeNode reads a definition. It checks the form only.
func (s *Spec) DecodeNode(r *strictyaml.Decoder, n *yaml.Node, path string) {
	d := specDoc{Speed: defaultSpeed, Scenario: scenarioDoc{Seed: 1}}
	r.Value(n, &d, path)
	d.Name, d.Target = cmp.Or(d.Name, d.ID), cmp.Or(d.Target, docText(Twin))
	if Target(d.Target) == Live && !r.IsSet(strictyaml.Join(path, "speed")) {
		d.Speed = 1
	}
	*s = d.spec()
}

// Version identifies a spec by its content, without name, note and owner.
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
	if err := enc.Encode(newSpecDoc(s)); err != nil {
		return nil, fmt.Errorf("write the drill: %w", err)
	}
	return b.Bytes(), nil
}
