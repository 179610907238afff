package drill

import (
	"fmt"
	"os"

	"io"

	"go.yaml.in/yaml/v3"
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
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return Spec{}, fmt.Errorf("read the drill: %w", err)
	}
	return Parse(path, data, s)
}

// Parse reads data as the content of the file called name. Otherwise it is Load.
func Parse(name string, data []byte, s Settings) (Spec, error) {
	l := newLedger(name)
	root := l.document(data)
	if root == nil {
		return Spec{}, l.err()
	}
	return l.definition(root, "", s)
}

// ParseNode reads a drill that is part of a larger file: a mapping, at path of the
// file called name.
func ParseNode(name string, n *yaml.Node, path string, s Settings) (Spec, error) {
	l := newLedger(name)
	l.places[path] = placeOf(n)
	return l.definition(n, path, s)
}

func (l *ledger) definition(n *yaml.Node, path string, s Settings) (Spec, error) {
	spec := Spec{Target: Twin, Speed: defaultSpeed, Scenario: Scenario{Seed: 1}}
	l.spec(n, path, &spec)
	if len(l.problems) == 0 {
		l.finish(path, &spec, s)
	}
	if err := l.err(); err != nil {
		return Spec{}, err
	}
	return spec, nil
}

// defaultSpeed is at what speed a twin runs. Slack still keeps up: it takes one
// message a second at any speed.
const defaultSpeed = 10

func (l *ledger) spec(n *yaml.Node, path string, s *Spec) {
	var target string
	l.mapping(n, path,
		field{"id", l.text(&s.ID, maxID)}, field{"name", l.text(&s.Name, maxText)},
		field{"note", l.text(&s.Note, maxNote)}, field{"owner", l.text(&s.Owner, maxText)},
		field{"schedule", l.text(&s.Schedule, maxText)}, field{"zone", l.text(&s.Zone, maxText)},
		field{"catch_up", l.duration(&s.CatchUp)}, field{"speed", l.number(&s.Speed, 1, MaxSpeed)},
		field{"target", l.text(&target, maxText)}, field{"pool", l.text(&s.Pool, maxText)},
		field{"share", l.share(&s.Share)}, field{"marked", l.truth(&s.Marked)},
		field{"scenario", func(n *yaml.Node, path string) { l.scenario(n, path, &s.Scenario) }},
		field{"expect", l.expectations(&s.Expect)}, field{"abort_if", l.expectations(&s.AbortIf)},
		field{"recovery", l.duration(&s.Recovery)},
	)
	if target != "" {
		s.Target = Target(target)
	}
	if _, written := l.places[join(path, "speed")]; s.Target == Live && !written {
		s.Speed = 1
	}
	if s.Name == "" {
		s.Name = s.ID
	}
}

func (l *ledger) scenario(n *yaml.Node, path string, s *Scenario) {
	seed := int(s.Seed)
	l.mapping(n, path,
		field{"duration", l.duration(&s.Duration)}, field{"workers", l.whole(&s.Workers, 1, 10_000)},
		field{"baseline", l.duration(&s.Baseline)},
		field{"arrivals", func(n *yaml.Node, path string) { l.arrivals(n, path, &s.Arrivals) }},
		field{"service", l.text(&s.Service, maxText)}, field{"seed", l.whole(&seed, 0, 1<<53)},
		field{"faults", l.injections(&s.Faults)}, field{"slack", l.injections(&s.Slack)},
		field{"steps", l.list(func(n *yaml.Node, path string) { s.Steps = append(s.Steps, l.step(n, path)) })},
	)
	s.Seed = uint64(seed)
}

func (l *ledger) arrivals(n *yaml.Node, path string, a *Arrivals) {
	const most = 1000
	l.mapping(n, path,
		field{"rate", l.number(&a.Rate, 0, most)}, field{"rest", l.number(&a.Rest, 0, most)},
		field{"large_share", l.share(&a.LargeShare)}, field{"stream", l.truth(&a.Stream)},
		field{"bursts", l.list(func(n *yaml.Node, path string) {
			var b Burst
			l.mapping(n, path, field{"from", l.duration(&b.From)}, field{"to", l.duration(&b.To)},
				field{"times", l.number(&b.Multiple, 0, most)})
			a.Bursts = append(a.Bursts, b)
		})},
	)
}

func (l *ledger) injections(to *[]Injection) func(*yaml.Node, string) {
	return l.list(func(n *yaml.Node, path string) {
		var i Injection
		var kind string
		i.Share = 1
		l.mapping(n, path,
			field{"kind", l.text(&kind, maxText)}, field{"share", l.share(&i.Share)},
			field{"from", l.duration(&i.From)}, field{"for", l.duration(&i.For)},
			field{"delay", l.duration(&i.Delay)}, field{"jitter", l.duration(&i.Jitter)},
			field{"code", l.whole(&i.Code, 400, 599)}, field{"after", l.whole(&i.After, 0, 1<<30)},
		)
		i.Kind = faultKind(kind)
		*to = append(*to, i)
	})
}

func (l *ledger) step(n *yaml.Node, path string) Step {
	var s Step
	var kind string
	l.mapping(n, path, field{"do", l.text(&kind, maxText)}, field{"at", l.duration(&s.At)},
		field{"for", l.duration(&s.For)}, field{"count", l.whole(&s.Count, 1, 10_000)})
	s.Kind = StepKind(kind)
	return s
}

func (l *ledger) expectations(to *[]Expectation) func(*yaml.Node, string) {
	return l.list(func(n *yaml.Node, path string) {
		var text string
		before := len(l.problems)
		l.text(&text, maxText)(n, path)
		if len(l.problems) > before {
			return
		}
		e, err := ParseExpectation(text)
		if err != nil {
			l.refuse(path, err.Error())
			return
		}
		*to = append(*to, e)
	})
}
