package rules

import (
	"fmt"
	"strconv"

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
// file that was read but is not right gives Problems: all of them, and no rules.
func Load(path string, s Settings) ([]engine.Rule, error) {
	data, err := readFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the rules: %w", err)
	}
	return Parse(path, data, s)
}

// Parse reads data as the content of the file called name. Otherwise it is Load.
func Parse(name string, data []byte, s Settings) ([]engine.Rule, error) {
	l := newLedger(name)
	root := l.Document(data, "rules")
	if root == nil {
		return nil, l.Err()
	}
	var drafts []draft
	l.Mapping(root, "", strictyaml.Set("rules", l.List(maxRules, func(n *yaml.Node, path string) { drafts = append(drafts, l.rule(n, path)) })))
	if l.Clean() && len(drafts) == 0 {
		l.RefuseAt(strictyaml.PlaceOf(root), "rules", "must have at least one rule; to watch nothing, silence it")
	}
	all := l.finish(drafts, s)
	if err := l.Err(); err != nil {
		return nil, err
	}
	return all, nil
}

// rule reads one rule.
func (l ledger) rule(n *yaml.Node, path string) draft {
	var d draft
	l.Mapping(n, path,
		strictyaml.Set("name", l.Text(&d.Name)), strictyaml.Set("signal", l.Text(&d.Signal)), strictyaml.Set("unit", l.Text(&d.Unit)),
		strictyaml.Set("warn", l.threshold(&d.Warn)), strictyaml.Set("page", l.threshold(&d.Page)), strictyaml.Set("clear", l.clear(&d.Clear)),
		strictyaml.Set("min_events", l.number(&d.MinEvents)), strictyaml.Set("events", l.Text(&d.Events)),
		strictyaml.Set("summary", l.Text(&d.Summary)), strictyaml.Set("feel", l.Text(&d.Feel)), strictyaml.Set("runbook", l.Text(&d.Runbook)),
		strictyaml.Set("action", l.Text(&d.Action)), strictyaml.Set("i_understand", l.Truth(&d.understood)), strictyaml.Set("pools", l.texts(&d.pools, maxPools)),
	)
	return d
}

func (l ledger) threshold(to *engine.Threshold) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		to.Set = true
		l.Mapping(n, path, strictyaml.Set("at", l.number(&to.At)), strictyaml.Set("for", l.duration(&to.For)))
		l.needs(path, "at", "the value from which it counts")
		l.needs(path, "for", "how long that has to last")
	}
}

func (l ledger) clear(to *engine.Clear) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		l.Mapping(n, path, strictyaml.Set("below", l.number(&to.Below)), strictyaml.Set("for", l.duration(&to.For)))
		l.needs(path, "below", "the value under which the trouble is over")
		l.needs(path, "for", "how long that has to last")
	}
}

// needs refuses a mapping that lacks a setting.
func (l ledger) needs(path, name, what string) {
	if _, ok := l.At(strictyaml.Join(path, name)); !ok {
		l.Refuse(path, "must have "+name+": "+what)
	}
}

// finish checks the drafts and returns the rules that they stand for. A rule with
// a problem in its form is not looked at for sense.
func (l ledger) finish(drafts []draft, s Settings) []engine.Rule {
	formed := l.Clean()
	lines := map[string]string{}
	var all []engine.Rule
	for i, d := range drafts {
		path := fmt.Sprintf("rules[%d]", i)
		if !formed {
			continue
		}
		l.needs(path, "clear", "when the trouble is over, such as clear: {below: 10, for: 30s}")
		d, faults := d.check(s)
		for _, f := range faults {
			if f.field == "clear.for" && d.Clear.For == 0 && l.missing(path, "clear") {
				continue // said above
			}
			l.Refuse(strictyaml.Join(path, f.field), f.message)
		}
		if first, again := lines[d.Name]; again && d.Name != "" {
			l.Refuse(strictyaml.Join(path, "name"), fmt.Sprintf("%q is taken by %s", d.Name, first))
		}
		at, _ := l.At(path)
		lines[d.Name] = path + " in line " + strconv.Itoa(at.Line)
		all = append(all, d.expand(s)...)
		if len(all) > maxExpanded {
			l.Refuse("rules", fmt.Sprintf("stand for more than %d rules, one for each pool: use fewer", maxExpanded))
			return nil
		}
	}
	return all
}

func (l ledger) missing(path, name string) bool {
	_, ok := l.At(strictyaml.Join(path, name))
	return !ok
}
