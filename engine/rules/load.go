package rules

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"headgate/engine"
	"headgate/internal/strictyaml"
)

// maxExpanded bounds rules times pools.
const maxExpanded = 5000

// ruleFile is a file of rules.
type ruleFile struct {
	Rules []ruleDoc `yaml:"rules" items:"500"`
}

// ruleDoc is a rule as a file has it.
type ruleDoc struct {
	Name        string        `yaml:"name"`
	Pools       []string      `yaml:"pools,omitempty,flow" items:"1000"` // nil: all
	Signal      string        `yaml:"signal,omitempty"`
	Unit        string        `yaml:"unit,omitempty"`
	Warn        *thresholdDoc `yaml:"warn,omitempty,flow"`
	Page        *thresholdDoc `yaml:"page,omitempty,flow"`
	Clear       *clearDoc     `yaml:"clear,flow" required:"when the incident is resolved, such as clear: {below: 10, for: 30s}"`
	Events      string        `yaml:"events,omitempty"`
	MinEvents   float64       `yaml:"min_events,omitempty"`
	Summary     string        `yaml:"summary"`
	Impact      string        `yaml:"impact,omitempty"`
	Runbook     string        `yaml:"runbook"`
	Action      string        `yaml:"action,omitempty"`
	IUnderstand bool          `yaml:"i_understand,omitempty"` // confirms an action on a load signal

	pool string // of export: the pool that it was made for
}

type thresholdDoc struct {
	At  float64       `yaml:"at" required:"the value from which it counts"`
	For time.Duration `yaml:"for" required:"how long that has to last"`
}

type clearDoc struct {
	Below float64       `yaml:"below" required:"the value below which the incident is resolved"`
	For   time.Duration `yaml:"for" required:"how long that has to last"`
}

// template returns the rule, $pool not filled in.
func (r ruleDoc) template() ruleTemplate {
	threshold := func(d *thresholdDoc) engine.Threshold {
		if d == nil {
			return engine.Threshold{}
		}
		return engine.Threshold{At: d.At, For: d.For, Set: true}
	}
	text := strings.TrimSpace // block texts end with a line feed
	return ruleTemplate{
		Rule: engine.Rule{
			Name: text(r.Name), Signal: text(r.Signal), Unit: text(r.Unit),
			Warn: threshold(r.Warn), Page: threshold(r.Page), Clear: engine.Clear(*cmp.Or(r.Clear, &clearDoc{})),
			Events: text(r.Events), MinEvents: r.MinEvents,
			Summary: text(r.Summary), Impact: text(r.Impact), Runbook: text(r.Runbook), Action: text(r.Action),
		},
		confirmed: r.IUnderstand, pools: r.Pools,
	}
}

// Load reads a file of rules, which replace the built-in ones. A file that was read but is not right gives
// [strictyaml.Diagnostics]: all of them, and no rules.
func Load(path string, s Settings) ([]engine.Rule, error) {
	data, err := strictyaml.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the rules: %w", err)
	}
	return Parse(path, data, s)
}

// Parse reads data as the content of the file called name. Otherwise it is Load.
func Parse(name string, data []byte, s Settings) ([]engine.Rule, error) {
	l := strictyaml.NewDecoder(name)
	var file ruleFile
	l.Decode(l.Document(data, "rules"), &file)
	l.CheckTags(&file)
	if l.OK() && len(file.Rules) == 0 {
		l.Report("rules", "must have at least one rule; to evaluate none, silence it")
	}
	var all []engine.Rule
	if l.OK() { // a file with a problem in its form is not checked for meaning
		all = expandTemplates(l, file.Rules, s)
	}
	if err := l.Err(); err != nil {
		return nil, err
	}
	return all, nil
}

// expandTemplates checks the rules of a file and returns them for each of their pools.
func expandTemplates(l *strictyaml.Decoder, docs []ruleDoc, s Settings) []engine.Rule {
	taken := map[string]string{}
	var all []engine.Rule
	for i, doc := range docs {
		path := fmt.Sprintf("rules[%d]", i)
		template, problems := doc.template().check(s)
		for _, f := range problems {
			l.Report(strictyaml.Join(path, f.Field), f.Message)
		}
		if first, again := taken[template.Name]; again {
			l.Reportf(strictyaml.Join(path, "name"), "%q is taken by %s", template.Name, first)
		}
		taken[template.Name] = path + " in line " + strconv.Itoa(l.Position(path).Line)
		all = append(all, template.expand(s)...)
		if len(all) > maxExpanded {
			l.Reportf("rules", "stand for more than %d rules, one for each pool: use fewer", maxExpanded)
			return nil
		}
	}
	return all
}
