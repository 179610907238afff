package rules

import (
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"time"

	"github.com/prometheus/common/model"
	"go.yaml.in/yaml/v3"

	"headgate/engine"
	"headgate/internal/strictyaml"
)

const (
	maxRules    = 500
	maxExpanded = 5000 // rules times pools
	maxPools    = 1000
)

// Load reads a file of rules, which take the place of those that are built in. A
// file that was read but is not right gives Diagnostics: all of them, and no rules.
func Load(path string, s Settings) ([]engine.Rule, error) {
	data, err := readFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the rules: %w", err)
	}
	return Parse(path, data, s)
}

// Parse reads data as the content of the file called name. Otherwise it is Load.
func Parse(name string, data []byte, s Settings) ([]engine.Rule, error) {
	l := newDecoder(name)
	root := l.Document(data, "rules")
	if root == nil {
		return nil, l.Err()
	}
	var drafts []ruleTemplate
	l.Mapping(root, "", strictyaml.Key("rules", l.List(maxRules, func(n *yaml.Node, path string) { drafts = append(drafts, l.rule(n, path)) })))
	if l.OK() && len(drafts) == 0 {
		l.ReportAt(strictyaml.PositionOf(root), "rules", "must have at least one rule; to watch nothing, silence it")
	}
	all := l.expandTemplates(drafts, s)
	if err := l.Err(); err != nil {
		return nil, err
	}
	return all, nil
}

// rule reads one rule.
func (l decoder) rule(n *yaml.Node, path string) ruleTemplate {
	var d ruleTemplate
	l.Mapping(n, path,
		strictyaml.Key("name", l.Text(&d.Name)), strictyaml.Key("signal", l.Text(&d.Signal)), strictyaml.Key("unit", l.Text(&d.Unit)),
		strictyaml.Key("warn", l.threshold(&d.Warn)), strictyaml.Key("page", l.threshold(&d.Page)), strictyaml.Key("clear", l.clear(&d.Clear)),
		strictyaml.Key("min_events", l.number(&d.MinEvents)), strictyaml.Key("events", l.Text(&d.Events)),
		strictyaml.Key("summary", l.Text(&d.Summary)), strictyaml.Key("impact", l.Text(&d.Impact)), strictyaml.Key("runbook", l.Text(&d.Runbook)),
		strictyaml.Key("action", l.Text(&d.Action)), strictyaml.Key("i_understand", l.Bool(&d.confirmed)), strictyaml.Key("pools", l.textList(&d.pools, maxPools)),
	)
	return d
}

func (l decoder) threshold(to *engine.Threshold) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		to.Set = true
		l.Mapping(n, path, strictyaml.Key("at", l.number(&to.At)), strictyaml.Key("for", l.duration(&to.For)))
		l.require(path, "at", "the value from which it counts")
		l.require(path, "for", "how long that has to last")
	}
}

func (l decoder) clear(to *engine.Clear) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		l.Mapping(n, path, strictyaml.Key("below", l.number(&to.Below)), strictyaml.Key("for", l.duration(&to.For)))
		l.require(path, "below", "the value under which the trouble is over")
		l.require(path, "for", "how long that has to last")
	}
}

// require refuses a mapping that lacks a setting.
func (l decoder) require(path, name, what string) {
	if _, ok := l.PositionAt(strictyaml.Join(path, name)); !ok {
		l.Report(path, "must have "+name+": "+what)
	}
}

// expandTemplates checks the drafts and returns the rules that they stand for. A rule with
// a problem in its form is not looked at for sense.
func (l decoder) expandTemplates(drafts []ruleTemplate, s Settings) []engine.Rule {
	formed := l.OK()
	lines := map[string]string{}
	var all []engine.Rule
	for i, d := range drafts {
		path := fmt.Sprintf("rules[%d]", i)
		if !formed {
			continue
		}
		l.require(path, "clear", "when the trouble is over, such as clear: {below: 10, for: 30s}")
		d, faults := d.check(s)
		for _, f := range faults {
			if f.field == "clear.for" && d.Clear.For == 0 && l.isUnset(path, "clear") {
				continue // said above
			}
			l.Report(strictyaml.Join(path, f.field), f.message)
		}
		if first, again := lines[d.Name]; again && d.Name != "" {
			l.Report(strictyaml.Join(path, "name"), fmt.Sprintf("%q is taken by %s", d.Name, first))
		}
		at, _ := l.PositionAt(path)
		lines[d.Name] = path + " in line " + strconv.Itoa(at.Line)
		all = append(all, d.expand(s)...)
		if len(all) > maxExpanded {
			l.Report("rules", fmt.Sprintf("stand for more than %d rules, one for each pool: use fewer", maxExpanded))
			return nil
		}
	}
	return all
}

func (l decoder) isUnset(path, name string) bool {
	_, ok := l.PositionAt(strictyaml.Join(path, name))
	return !ok
}

// Diagnostic is one refusal of a file.
type Diagnostic = strictyaml.Diagnostic

// Diagnostics are all refusals of one file, in its order.
type Diagnostics = strictyaml.Diagnostics

// decoder reads the settings of a file, and collects its problems.
type decoder struct{ *strictyaml.Decoder }

func newDecoder(file string) decoder { return decoder{strictyaml.NewDecoder(file)} }

// readFile reads a file of bounded size.
func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, strictyaml.MaxFile+1))
}

// textList reads a list of texts.
func (l decoder) textList(to *[]string, most int) strictyaml.Reader {
	return func(n *yaml.Node, path string) {
		*to = []string{}
		l.List(most, func(n *yaml.Node, path string) {
			var one string
			l.Text(&one)(n, path)
			*to = append(*to, one)
		})(n, path)
	}
}

// number reads a finite number.
func (l decoder) number(to *float64) strictyaml.Reader {
	return func(n *yaml.Node, path string) {
		v, err := strconv.ParseFloat(n.Value, 64)
		if n.Kind != yaml.ScalarNode || err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
			l.ReportAt(strictyaml.PositionOf(n), path, "must be a finite number such as 0.95, is "+strictyaml.Display(n))
			return
		}
		*to = v
	}
}

// duration reads a duration as PromQL writes them.
func (l decoder) duration(to *time.Duration) strictyaml.Reader {
	return func(n *yaml.Node, path string) {
		d, err := model.ParseDuration(n.Value)
		if n.Kind != yaml.ScalarNode || err != nil {
			l.ReportAt(strictyaml.PositionOf(n), path, "must be a duration such as 30s, 5m or 1h30m, is "+strictyaml.Display(n))
			return
		}
		*to = time.Duration(d)
	}
}
