package rules

import (
	"fmt"
	"strconv"

	"go.yaml.in/yaml/v3"

	"headgate/engine"
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
	root := l.document(data)
	if root == nil {
		return nil, l.err()
	}
	var drafts []draft
	l.mapping(root, "", field{"rules", func(n *yaml.Node, path string) {
		l.list(n, path, maxRules, func(n *yaml.Node, path string) { drafts = append(drafts, l.rule(n, path)) })
	}})
	if len(l.problems) == 0 && len(drafts) == 0 {
		l.refuseAt(placeOf(root), "rules", "must have at least one rule; to watch nothing, silence it")
	}
	all := l.finish(drafts, s)
	if err := l.err(); err != nil {
		return nil, err
	}
	return all, nil
}

// rule reads one rule.
func (l *ledger) rule(n *yaml.Node, path string) draft {
	var d draft
	l.mapping(n, path,
		field{"name", l.text(&d.Name)}, field{"signal", l.text(&d.Signal)}, field{"unit", l.text(&d.Unit)},
		field{"warn", l.threshold(&d.Warn)}, field{"page", l.threshold(&d.Page)}, field{"clear", l.clear(&d.Clear)},
		field{"min_events", l.number(&d.MinEvents)}, field{"events", l.text(&d.Events)},
		field{"summary", l.text(&d.Summary)}, field{"feel", l.text(&d.Feel)}, field{"runbook", l.text(&d.Runbook)},
		field{"action", l.text(&d.Action)}, field{"i_understand", l.truth(&d.understood)}, field{"pools", l.texts(&d.pools, maxPools)},
	)
	return d
}

func (l *ledger) threshold(to *engine.Threshold) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		to.Set = true
		l.mapping(n, path, field{"at", l.number(&to.At)}, field{"for", l.duration(&to.For)})
		l.needs(path, "at", "the value from which it counts")
		l.needs(path, "for", "how long that has to last")
	}
}

func (l *ledger) clear(to *engine.Clear) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		l.mapping(n, path, field{"below", l.number(&to.Below)}, field{"for", l.duration(&to.For)})
		l.needs(path, "below", "the value under which the trouble is over")
		l.needs(path, "for", "how long that has to last")
	}
}

// needs refuses a mapping that lacks a setting.
func (l *ledger) needs(path, name, what string) {
	if _, ok := l.places[join(path, name)]; !ok {
		l.refuse(path, "must have "+name+": "+what)
	}
}

// finish checks the drafts and returns the rules that they stand for. A rule with
// a problem in its form is not looked at for sense.
func (l *ledger) finish(drafts []draft, s Settings) []engine.Rule {
	formed := len(l.problems) == 0
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
			l.refuse(join(path, f.field), f.message)
		}
		if first, again := lines[d.Name]; again && d.Name != "" {
			l.refuse(join(path, "name"), fmt.Sprintf("%q is taken by %s", d.Name, first))
		}
		lines[d.Name] = path + " in line " + strconv.Itoa(l.places[path].line)
		all = append(all, d.expand(s)...)
		if len(all) > maxExpanded {
			l.refuse("rules", fmt.Sprintf("stand for more than %d rules, one for each pool: use fewer", maxExpanded))
			return nil
		}
	}
	return all
}

func (l *ledger) missing(path, name string) bool {
	_, ok := l.places[join(path, name)]
	return !ok
}
