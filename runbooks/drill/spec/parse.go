package spec

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"headgate/internal/strictyaml"
	"headgate/proxy/fault"
	"headgate/runbooks/drill"
)

// Settings are what a definition is checked against.
type Settings struct {
	// Pools are the names of those there are. Empty: any name is taken.
	Pools []string
	// AllowLive says whether drills may touch production.
	AllowLive bool
	// Service refuses a model of service times that the endpoint does not
	// understand. Nil: only its form is looked at.
	Service func(text string) error
}

// Load reads a file that holds one drill. A file that was read but is not right
// gives SpecErrors: all of them.
func Load(path string, s Settings) (drill.Spec, error) {
	f, err := os.Open(path)
	if err != nil {
		return drill.Spec{}, fmt.Errorf("read the drill: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, strictyaml.MaxFile+1))
	if err != nil {
		return drill.Spec{}, fmt.Errorf("read the drill: %w", err)
	}
	return Parse(path, data, s)
}

// Parse reads data as the content of the file called name. Otherwise it is Load.
func Parse(name string, data []byte, s Settings) (drill.Spec, error) {
	l := newSpecReader(name)
	root := l.Document(data, "a drill")
	if root == nil {
		return drill.Spec{}, l.Err()
	}
	return l.definition(root, "", s)
}

// ParseNode reads a drill that is part of a larger file: a mapping, at path of the
// file called name. It holds the definition, or as file the path of one, relative to the larger file.
func ParseNode(name string, n *yaml.Node, path string, s Settings) (drill.Spec, error) {
	if len(n.Content) == 2 && n.Content[0].Value == "file" && n.Content[1].Kind == yaml.ScalarNode {
		other := n.Content[1].Value
		if !filepath.IsAbs(other) {
			other = filepath.Join(filepath.Dir(name), other)
		}
		loaded, err := Load(other, s)
		var problems SpecErrors
		if err != nil && !errors.As(err, &problems) {
			err = fmt.Errorf("%s:%d:%d: %s.file: %w", name, n.Line, n.Column, path, err)
		}
		return loaded, err
	}
	l := newSpecReader(name)
	l.SetPosition(path, strictyaml.PositionOf(n))
	return l.definition(n, path, s)
}

func (l specReader) definition(n *yaml.Node, path string, s Settings) (drill.Spec, error) {
	spec := drill.Spec{Target: drill.Twin, Speed: defaultSpeed, Scenario: drill.Scenario{Seed: 1}}
	l.spec(n, path, &spec)
	if l.OK() {
		l.validate(path, &spec, s)
	}
	if err := l.Err(); err != nil {
		return drill.Spec{}, err
	}
	return spec, nil
}

// defaultSpeed is at what speed a twin runs. Slack still keeps up: it takes one
// message a second at any speed.
const defaultSpeed = 10

func (l specReader) spec(n *yaml.Node, path string, s *drill.Spec) {
	var target string
	l.Mapping(n, path,
		strictyaml.Key("id", l.text(&s.ID, maxID)), strictyaml.Key("name", l.text(&s.Name, drill.MaxText)),
		strictyaml.Key("note", l.text(&s.Note, maxNote)), strictyaml.Key("owner", l.text(&s.Owner, drill.MaxText)),
		strictyaml.Key("schedule", l.text(&s.Schedule, drill.MaxText)), strictyaml.Key("zone", l.text(&s.Zone, drill.MaxText)),
		strictyaml.Key("catch_up", l.duration(&s.CatchUp)), strictyaml.Key("speed", l.number(&s.Speed, 1, drill.MaxSpeed)),
		strictyaml.Key("target", l.text(&target, drill.MaxText)), strictyaml.Key("pool", l.text(&s.Pool, drill.MaxText)),
		strictyaml.Key("share", l.share(&s.Share)), strictyaml.Key("marked", l.Bool(&s.Marked)),
		strictyaml.Key("scenario", func(n *yaml.Node, path string) { l.scenario(n, path, &s.Scenario) }),
		strictyaml.Key("expect", l.expectations(&s.Expect)), strictyaml.Key("abort_if", l.expectations(&s.AbortIf)),
		strictyaml.Key("recovery", l.duration(&s.Recovery)),
	)
	if target != "" {
		s.Target = drill.Target(target)
	}
	if s.Target == drill.Live && !l.IsSet(strictyaml.Join(path, "speed")) {
		s.Speed = 1
	}
	if s.Name == "" {
		s.Name = s.ID
	}
}

func (l specReader) scenario(n *yaml.Node, path string, s *drill.Scenario) {
	seed := int(s.Seed)
	l.Mapping(n, path,
		strictyaml.Key("duration", l.duration(&s.Duration)), strictyaml.Key("workers", l.integer(&s.Workers, 1, 10_000)),
		strictyaml.Key("baseline", l.duration(&s.Baseline)),
		strictyaml.Key("arrivals", func(n *yaml.Node, path string) { l.arrivals(n, path, &s.Arrivals) }),
		strictyaml.Key("service", l.text(&s.Service, drill.MaxText)), strictyaml.Key("seed", l.integer(&seed, 0, 1<<53)),
		strictyaml.Key("faults", l.injections(&s.Faults)), strictyaml.Key("slack", l.injections(&s.Slack)),
		strictyaml.Key("steps", l.list(func(n *yaml.Node, path string) { s.Steps = append(s.Steps, l.step(n, path)) })),
	)
	s.Seed = uint64(seed)
}

func (l specReader) arrivals(n *yaml.Node, path string, a *drill.Arrivals) {
	const most = 1000
	l.Mapping(n, path,
		strictyaml.Key("rate", l.number(&a.Rate, 0, most)), strictyaml.Key("rest", l.number(&a.Rest, 0, most)),
		strictyaml.Key("large_share", l.share(&a.LargeShare)), strictyaml.Key("stream", l.Bool(&a.Stream)),
		strictyaml.Key("bursts", l.list(func(n *yaml.Node, path string) {
			var b drill.Burst
			l.Mapping(n, path, strictyaml.Key("from", l.duration(&b.From)), strictyaml.Key("to", l.duration(&b.To)),
				strictyaml.Key("times", l.number(&b.Multiple, 0, most)))
			a.Bursts = append(a.Bursts, b)
		})),
	)
}

func (l specReader) injections(to *[]drill.Injection) func(*yaml.Node, string) {
	return l.list(func(n *yaml.Node, path string) {
		var i drill.Injection
		var kind string
		i.Share = 1
		l.Mapping(n, path,
			strictyaml.Key("kind", l.text(&kind, drill.MaxText)), strictyaml.Key("share", l.share(&i.Share)),
			strictyaml.Key("from", l.duration(&i.From)), strictyaml.Key("for", l.duration(&i.For)),
			strictyaml.Key("delay", l.duration(&i.Delay)), strictyaml.Key("jitter", l.duration(&i.Jitter)),
			strictyaml.Key("code", l.integer(&i.Code, 400, 599)), strictyaml.Key("after", l.integer(&i.AfterBytes, 0, 1<<30)),
		)
		i.Kind = fault.Kind(kind)
		*to = append(*to, i)
	})
}

func (l specReader) step(n *yaml.Node, path string) drill.Step {
	var s drill.Step
	var kind string
	l.Mapping(n, path, strictyaml.Key("do", l.text(&kind, drill.MaxText)), strictyaml.Key("at", l.duration(&s.At)),
		strictyaml.Key("for", l.duration(&s.For)), strictyaml.Key("count", l.integer(&s.Count, 1, 10_000)))
	s.Kind = drill.StepKind(kind)
	return s
}

func (l specReader) expectations(to *[]drill.Expectation) func(*yaml.Node, string) {
	return l.list(func(n *yaml.Node, path string) {
		var text string
		before := l.Len()
		l.text(&text, drill.MaxText)(n, path)
		if l.Len() > before {
			return
		}
		e, err := drill.ParseExpectation(text)
		if err != nil {
			l.Report(path, err.Error())
			return
		}
		*to = append(*to, e)
	})
}

const (
	maxNote  = 4000
	maxItems = 100
)

// SpecError is one thing that is wrong with a definition.
type SpecError = strictyaml.Diagnostic

// SpecErrors are all that is wrong with definitions, in the order of their file.
type SpecErrors = strictyaml.Diagnostics

// specReader reads the settings of definitions, and collects what is wrong with them.
type specReader struct{ *strictyaml.Decoder }

func newSpecReader(file string) specReader { return specReader{strictyaml.NewDecoder(file)} }

// list reads the items of a list.
func (l specReader) list(item strictyaml.Reader) strictyaml.Reader { return l.List(maxItems, item) }

// text reads text of bounded length that shows as what it is.
func (l specReader) text(to *string, most int) strictyaml.Reader {
	return func(n *yaml.Node, path string) {
		before := l.Len()
		var text string
		l.Text(&text)(n, path)
		switch {
		case l.Len() > before:
		case utf8.RuneCountInString(n.Value) > most:
			l.ReportAt(strictyaml.PositionOf(n), path, fmt.Sprintf("must be at most %d characters", most))
		case strings.ContainsFunc(n.Value, isHiddenRune):
			l.ReportAt(strictyaml.PositionOf(n), path, "must not have control characters")
		default:
			*to = text
		}
	}
}

// isHiddenRune says whether a rune could make text show as something else.
func isHiddenRune(r rune) bool {
	return r != '\n' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r))
}

// number reads a finite number from least to most.
func (l specReader) number(to *float64, least, most float64) strictyaml.Reader {
	return func(n *yaml.Node, path string) {
		v, err := strconv.ParseFloat(n.Value, 64)
		if n.Kind != yaml.ScalarNode || err != nil || math.IsNaN(v) || v < least || v > most {
			l.ReportAt(strictyaml.PositionOf(n), path, fmt.Sprintf("must be a number from %v to %v, is %s", least, most, strictyaml.Display(n)))
			return
		}
		*to = v
	}
}

// integer reads a whole number from least to most.
func (l specReader) integer(to *int, least, most int) strictyaml.Reader {
	return func(n *yaml.Node, path string) {
		v, err := strconv.Atoi(n.Value)
		if n.Kind != yaml.ScalarNode || err != nil || v < least || v > most {
			l.ReportAt(strictyaml.PositionOf(n), path, fmt.Sprintf("must be a whole number from %d to %d, is %s", least, most, strictyaml.Display(n)))
			return
		}
		*to = v
	}
}

// share reads a part of 1, as a number or a percentage.
func (l specReader) share(to *float64) strictyaml.Reader {
	return func(n *yaml.Node, path string) {
		v, err := drill.ParseShare(n.Value)
		if n.Kind != yaml.ScalarNode || err != nil {
			l.ReportAt(strictyaml.PositionOf(n), path, "must be 0 to 1 or 0% to 100%, is "+strictyaml.Display(n))
			return
		}
		*to = v
	}
}

// duration reads 90s, 5m or 7d.
func (l specReader) duration(to *time.Duration) strictyaml.Reader {
	return func(n *yaml.Node, path string) {
		d, err := drill.ParseDuration(n.Value)
		if n.Kind != yaml.ScalarNode || err != nil {
			l.ReportAt(strictyaml.PositionOf(n), path, "must be a duration such as 90s, 5m or 7d, is "+strictyaml.Display(n))
			return
		}
		*to = d
	}
}
