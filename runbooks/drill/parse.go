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
// gives Problems: all of them.
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
	l := newLedger(name)
	root := l.Document(data, "a drill")
	if root == nil {
		return Spec{}, l.Err()
	}
	return l.definition(root, "", s)
}

// ParseNode reads a drill that is part of a larger file: a mapping, at path of the
// file called name.
func ParseNode(name string, n *yaml.Node, path string, s Settings) (Spec, error) {
	l := newLedger(name)
	l.Put(path, strictyaml.PlaceOf(n))
	return l.definition(n, path, s)
}

func (l ledger) definition(n *yaml.Node, path string, s Settings) (Spec, error) {
	spec := Spec{Target: Twin, Speed: defaultSpeed, Scenario: Scenario{Seed: 1}}
	l.spec(n, path, &spec)
	if l.Clean() {
		l.finish(path, &spec, s)
	}
	if err := l.Err(); err != nil {
		return Spec{}, err
	}
	return spec, nil
}

// defaultSpeed is at what speed a twin runs. Slack still keeps up: it takes one
// message a second at any speed.
const defaultSpeed = 10

func (l ledger) spec(n *yaml.Node, path string, s *Spec) {
	var target string
	l.Mapping(n, path,
		strictyaml.Set("id", l.text(&s.ID, maxID)), strictyaml.Set("name", l.text(&s.Name, maxText)),
		strictyaml.Set("note", l.text(&s.Note, maxNote)), strictyaml.Set("owner", l.text(&s.Owner, maxText)),
		strictyaml.Set("schedule", l.text(&s.Schedule, maxText)), strictyaml.Set("zone", l.text(&s.Zone, maxText)),
		strictyaml.Set("catch_up", l.duration(&s.CatchUp)), strictyaml.Set("speed", l.number(&s.Speed, 1, MaxSpeed)),
		strictyaml.Set("target", l.text(&target, maxText)), strictyaml.Set("pool", l.text(&s.Pool, maxText)),
		strictyaml.Set("share", l.share(&s.Share)), strictyaml.Set("marked", l.Truth(&s.Marked)),
		strictyaml.Set("scenario", func(n *yaml.Node, path string) { l.scenario(n, path, &s.Scenario) }),
		strictyaml.Set("expect", l.expectations(&s.Expect)), strictyaml.Set("abort_if", l.expectations(&s.AbortIf)),
		strictyaml.Set("recovery", l.duration(&s.Recovery)),
	)
	if target != "" {
		s.Target = Target(target)
	}
	if _, written := l.At(strictyaml.Join(path, "speed")); s.Target == Live && !written {
		s.Speed = 1
	}
	if s.Name == "" {
		s.Name = s.ID
	}
}

func (l ledger) scenario(n *yaml.Node, path string, s *Scenario) {
	seed := int(s.Seed)
	l.Mapping(n, path,
		strictyaml.Set("duration", l.duration(&s.Duration)), strictyaml.Set("workers", l.whole(&s.Workers, 1, 10_000)),
		strictyaml.Set("baseline", l.duration(&s.Baseline)),
		strictyaml.Set("arrivals", func(n *yaml.Node, path string) { l.arrivals(n, path, &s.Arrivals) }),
		strictyaml.Set("service", l.text(&s.Service, maxText)), strictyaml.Set("seed", l.whole(&seed, 0, 1<<53)),
		strictyaml.Set("faults", l.injections(&s.Faults)), strictyaml.Set("slack", l.injections(&s.Slack)),
		strictyaml.Set("steps", l.list(func(n *yaml.Node, path string) { s.Steps = append(s.Steps, l.step(n, path)) })),
	)
	s.Seed = uint64(seed)
}

func (l ledger) arrivals(n *yaml.Node, path string, a *Arrivals) {
	const most = 1000
	l.Mapping(n, path,
		strictyaml.Set("rate", l.number(&a.Rate, 0, most)), strictyaml.Set("rest", l.number(&a.Rest, 0, most)),
		strictyaml.Set("large_share", l.share(&a.LargeShare)), strictyaml.Set("stream", l.Truth(&a.Stream)),
		strictyaml.Set("bursts", l.list(func(n *yaml.Node, path string) {
			var b Burst
			l.Mapping(n, path, strictyaml.Set("from", l.duration(&b.From)), strictyaml.Set("to", l.duration(&b.To)),
				strictyaml.Set("times", l.number(&b.Multiple, 0, most)))
			a.Bursts = append(a.Bursts, b)
		})),
	)
}

func (l ledger) injections(to *[]Injection) func(*yaml.Node, string) {
	return l.list(func(n *yaml.Node, path string) {
		var i Injection
		var kind string
		i.Share = 1
		l.Mapping(n, path,
			strictyaml.Set("kind", l.text(&kind, maxText)), strictyaml.Set("share", l.share(&i.Share)),
			strictyaml.Set("from", l.duration(&i.From)), strictyaml.Set("for", l.duration(&i.For)),
			strictyaml.Set("delay", l.duration(&i.Delay)), strictyaml.Set("jitter", l.duration(&i.Jitter)),
			strictyaml.Set("code", l.whole(&i.Code, 400, 599)), strictyaml.Set("after", l.whole(&i.After, 0, 1<<30)),
		)
		i.Kind = faultKind(kind)
		*to = append(*to, i)
	})
}

func (l ledger) step(n *yaml.Node, path string) Step {
	var s Step
	var kind string
	l.Mapping(n, path, strictyaml.Set("do", l.text(&kind, maxText)), strictyaml.Set("at", l.duration(&s.At)),
		strictyaml.Set("for", l.duration(&s.For)), strictyaml.Set("count", l.whole(&s.Count, 1, 10_000)))
	s.Kind = StepKind(kind)
	return s
}

func (l ledger) expectations(to *[]Expectation) func(*yaml.Node, string) {
	return l.list(func(n *yaml.Node, path string) {
		var text string
		before := l.Count()
		l.text(&text, maxText)(n, path)
		if l.Count() > before {
			return
		}
		e, err := ParseExpectation(text)
		if err != nil {
			l.Refuse(path, err.Error())
			return
		}
		*to = append(*to, e)
	})
}
