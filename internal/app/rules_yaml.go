package app

import (
	"bytes"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"time"

	prom "github.com/prometheus/common/model"
	"go.yaml.in/yaml/v3"

	"headgate/engine"
)

// maxRuleName is the longest name that a file may give a rule.
const maxRuleName = 63

// ruleDoc is a rule as a file has it.
type ruleDoc struct {
	Name      string     `yaml:"name"`
	Pools     []string   `yaml:"pools,omitempty,flow"`
	Signal    string     `yaml:"signal,omitempty"`
	Unit      string     `yaml:"unit,omitempty"`
	Warn      *ruleLimit `yaml:"warn,omitempty,flow"`
	Page      *ruleLimit `yaml:"page,omitempty,flow"`
	Clear     clearLimit `yaml:"clear,flow"`
	Events    string     `yaml:"events,omitempty"`
	MinEvents float64    `yaml:"min_events,omitempty"`
	Summary   string     `yaml:"summary"`
	Feel      string     `yaml:"feel,omitempty"`
	Runbook   string     `yaml:"runbook"`
	Action    string     `yaml:"action,omitempty"`
	pool      string     // that it was made for
}

type ruleLimit struct {
	At  float64 `yaml:"at"`
	For string  `yaml:"for"`
}

type clearLimit struct {
	Below float64 `yaml:"below"`
	For   string  `yaml:"for"`
}

// writeRulesYAML writes rules as a file that stands for the same ones. A rule that says
// the same of several pools is there once; one that does not gets a name for each
// of them.
func writeRulesYAML(w io.Writer, all []engine.Rule) error {
	var names []string
	byName := map[string][]ruleDoc{}
	for _, r := range all {
		if byName[r.Name] == nil {
			names = append(names, r.Name)
		}
		byName[r.Name] = append(byName[r.Name], toRuleDoc(r))
	}
	var file struct {
		Rules []ruleDoc `yaml:"rules"`
	}
	for _, name := range names {
		file.Rules = append(file.Rules, mergeRules(byName[name])...)
	}
	var b bytes.Buffer
	b.WriteString("# Rules of headgate, as they are without a file. Written by headgate rules export.\n")
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(file); err != nil {
		return fmt.Errorf("write the rules: %w", err)
	}
	_, err := w.Write(b.Bytes())
	return err
}

func toRuleDoc(r engine.Rule) ruleDoc {
	limit := func(t engine.Threshold) *ruleLimit {
		if !t.Set {
			return nil
		}
		return &ruleLimit{At: t.At, For: formatDuration(t.For)}
	}
	return ruleDoc{
		Name: r.Name, Signal: withPoolVariable(r.Signal, r.Pool), Unit: r.Unit, Warn: limit(r.Warn), Page: limit(r.Page),
		Clear: clearLimit{Below: r.Clear.Below, For: formatDuration(r.Clear.For)}, Events: withPoolVariable(r.Events, r.Pool), MinEvents: r.MinEvents,
		Summary: r.Summary, Feel: r.Impact, Runbook: r.Runbook, Action: r.Action, pool: r.Pool,
	}
}

// withPoolVariable takes the name of a pool out of an expression.
func withPoolVariable(expr, pool string) string {
	if pool == "" {
		return expr
	}
	return strings.ReplaceAll(expr, fmt.Sprintf("pool=%q", pool), `pool="$pool"`)
}

func formatDuration(d time.Duration) string { return prom.Duration(d).String() }

// mergeRules returns the rules of one name, with those that are the same made one.
func mergeRules(docs []ruleDoc) []ruleDoc {
	var kinds [][]ruleDoc
	for _, d := range docs {
		n := slices.IndexFunc(kinds, func(k []ruleDoc) bool { return sameExceptPool(k[0], d) })
		if n < 0 {
			kinds = append(kinds, []ruleDoc{d})
			continue
		}
		kinds[n] = append(kinds[n], d)
	}
	if len(kinds) == 1 {
		return []ruleDoc{kinds[0][0]}
	}
	var out []ruleDoc
	for n, kind := range kinds {
		d := kind[0]
		if long := d.Name + "_" + strings.ReplaceAll(d.pool, "-", "_"); len(long) <= maxRuleName {
			d.Name = long
		} else {
			d.Name += fmt.Sprintf("_%d", n+1)
		}
		for _, k := range kind {
			d.Pools = append(d.Pools, k.pool)
		}
		out = append(out, d)
	}
	return out
}

func sameExceptPool(a, b ruleDoc) bool {
	a.pool = b.pool
	return reflect.DeepEqual(a, b)
}
