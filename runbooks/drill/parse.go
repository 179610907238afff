package drill

import (
	"fmt"
	"io"
	"os"

	"go.yaml.in/yaml/v3"

	"headgate/internal/strictyaml"
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
func Load(path string, s Settings) (Spec, error) {
	f, err := os.Open(path)
	if err != nil {
		return Spec{}, fmt.Errorf("read the drill: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, strictyaml.MaxFile+1))
	if err != nil {
		return Spec{}, fmt.Errorf("read the drill: %w", err)
	}
	return Parse(path, data, s)
}

// Parse reads data as the content of the file called name. Otherwise it is Load.
func Parse(name string, data []byte, s Settings) (Spec, error) {
	l := newSpecReader(name)
	root := l.Document(data, "a drill")
	if root == nil {
		return Spec{}, l.Err()
	}
	return l.definition(root, "", s)
}

// ParseNode reads a drill that is part of a larger file: a mapping, at path of the
// file called name.
func ParseNode(name string, n *yaml.Node, path string, s Settings) (Spec, error) {
	l := newSpecReader(name)
	l.SetPosition(path, strictyaml.PositionOf(n))
	return l.definition(n, path, s)
}

func (l specReader) definition(n *yaml.Node, path string, s Settings) (Spec, error) {
	spec := Spec{Target: Twin, Speed: defaultSpeed, Scenario: Scenario{Seed: 1}}
	l.spec(n, path, &spec)
	if l.OK() {
		l.validate(path, &spec, s)
	}
	if err := l.Err(); err != nil {
		return Spec{}, err
	}
	return spec, nil
}

// defaultSpeed is at what speed a twin runs. Slack still keeps up: it takes one
// message a second at any speed.
const defaultSpeed = 10

func (l specReader) spec(n *yaml.Node, path string, s *Spec) {
	var target string
	l.Mapping(n, path,
		strictyaml.Key("id", l.text(&s.ID, maxID)), strictyaml.Key("name", l.text(&s.Name, maxText)),
		strictyaml.Key("note", l.text(&s.Note, maxNote)), strictyaml.Key("owner", l.text(&s.Owner, maxText)),
		strictyaml.Key("schedule", l.text(&s.Schedule, maxText)), strictyaml.Key("zone", l.text(&s.Zone, maxText)),
		strictyaml.Key("catch_up", l.duration(&s.CatchUp)), strictyaml.Key("speed", l.number(&s.Speed, 1, MaxSpeed)),
		strictyaml.Key("target", l.text(&target, maxText)), strictyaml.Key("pool", l.text(&s.Pool, maxText)),
		strictyaml.Key("share", l.share(&s.Share)), strictyaml.Key("marked", l.Bool(&s.Marked)),
		strictyaml.Key("scenario", func(n *yaml.Node, path string) { l.scenario(n, path, &s.Scenario) }),
		strictyaml.Key("expect", l.expectations(&s.Expect)), strictyaml.Key("abort_if", l.expectations(&s.AbortIf)),
		strictyaml.Key("recovery", l.duration(&s.Recovery)),
	)
	if target != "" {
		s.Target = Target(target)
	}
	if _, written := l.PositionAt(strictyaml.Join(path, "speed")); s.Target == Live && !written {
		s.Speed = 1
	}
	if s.Name == "" {
		s.Name = s.ID
	}
}

func (l specReader) scenario(n *yaml.Node, path string, s *Scenario) {
	seed := int(s.Seed)
	l.Mapping(n, path,
		strictyaml.Key("duration", l.duration(&s.Duration)), strictyaml.Key("workers", l.integer(&s.Workers, 1, 10_000)),
		strictyaml.Key("baseline", l.duration(&s.Baseline)),
		strictyaml.Key("arrivals", func(n *yaml.Node, path string) { l.arrivals(n, path, &s.Arrivals) }),
		strictyaml.Key("service", l.text(&s.Service, maxText)), strictyaml.Key("seed", l.integer(&seed, 0, 1<<53)),
		strictyaml.Key("faults", l.injections(&s.Faults)), strictyaml.Key("slack", l.injections(&s.Slack)),
		strictyaml.Key("steps", l.list(func(n *yaml.Node, path string) { s.Steps = append(s.Steps, l.step(n, path)) })),
	)
	s.Seed = uint64(seed)
}

func (l specReader) arrivals(n *yaml.Node, path string, a *Arrivals) {
	const most = 1000
	l.Mapping(n, path,
		strictyaml.Key("rate", l.number(&a.Rate, 0, most)), strictyaml.Key("rest", l.number(&a.Rest, 0, most)),
		strictyaml.Key("large_share", l.share(&a.LargeShare)), strictyaml.Key("stream", l.Bool(&a.Stream)),
		strictyaml.Key("bursts", l.list(func(n *yaml.Node, path string) {
			var b Burst
			l.Mapping(n, path, strictyaml.Key("from", l.duration(&b.From)), strictyaml.Key("to", l.duration(&b.To)),
				strictyaml.Key("times", l.number(&b.Multiple, 0, most)))
			a.Bursts = append(a.Bursts, b)
		})),
	)
}

func (l specReader) injections(to *[]Injection) func(*yaml.Node, string) {
	return l.list(func(n *yaml.Node, path string) {
		var i Injection
		var kind string
		i.Share = 1
		l.Mapping(n, path,
			strictyaml.Key("kind", l.text(&kind, maxText)), strictyaml.Key("share", l.share(&i.Share)),
			strictyaml.Key("from", l.duration(&i.From)), strictyaml.Key("for", l.duration(&i.For)),
			strictyaml.Key("delay", l.duration(&i.Delay)), strictyaml.Key("jitter", l.duration(&i.Jitter)),
			strictyaml.Key("code", l.integer(&i.Code, 400, 599)), strictyaml.Key("after", l.integer(&i.AfterBytes, 0, 1<<30)),
		)
		i.Kind = faultKind(kind)
		*to = append(*to, i)
	})
}

func (l specReader) step(n *yaml.Node, path string) Step {
	var s Step
	var kind string
	l.Mapping(n, path, strictyaml.Key("do", l.text(&kind, maxText)), strictyaml.Key("at", l.duration(&s.At)),
		strictyaml.Key("for", l.duration(&s.For)), strictyaml.Key("count", l.integer(&s.Count, 1, 10_000)))
	s.Kind = StepKind(kind)
	return s
}

func (l specReader) expectations(to *[]Expectation) func(*yaml.Node, string) {
	return l.list(func(n *yaml.Node, path string) {
		var text string
		before := l.Len()
		l.text(&text, maxText)(n, path)
		if l.Len() > before {
			return
		}
		e, err := ParseExpectation(text)
		if err != nil {
			l.Report(path, err.Error())
			return
		}
		*to = append(*to, e)
	})
}
