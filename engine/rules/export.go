package rules

import (
	"bytes"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"go.yaml.in/yaml/v3"

	"headgate/engine"
	"headgate/engine/tsdb"
	"headgate/internal/format"
)

// The formats of Export.
const (
	FormatYAML       = "yaml"       // a file of rules, to start from
	FormatPrometheus = "prometheus" // for a Prometheus that scrapes headgate
)

// Export writes rules in a format.
func Export(w io.Writer, all []engine.Rule, format string) error {
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	var file any
	switch format {
	case FormatYAML:
		b.WriteString("# Rules of headgate, as they are without a file. Written by headgate rules export.\n")
		file = ruleFile{ruleDocs(all)}
	case FormatPrometheus:
		b.WriteString("# Rules of headgate for Prometheus. Written by headgate rules export.\n")
		file = prometheusFile(all)
	default:
		return fmt.Errorf("unknown format %.40q: must be %s or %s", format, FormatYAML, FormatPrometheus)
	}
	if err := enc.Encode(file); err != nil {
		return fmt.Errorf("write the rules: %w", err)
	}
	_, err := w.Write(b.Bytes())
	return err
}

// MarshalYAML writes the duration as ParseDuration reads it.
func (d thresholdDoc) MarshalYAML() (any, error) {
	return map[string]any{"at": d.At, "for": format.Duration(d.For)}, nil
}

// MarshalYAML writes the duration as ParseDuration reads it.
func (c clearDoc) MarshalYAML() (any, error) {
	return map[string]any{"below": c.Below, "for": format.Duration(c.For)}, nil
}

// ruleDocs returns rules as a file that stands for the same ones. A rule that is the same in several pools is there
// once; one that differs gets a name for each variant.
func ruleDocs(all []engine.Rule) []ruleDoc {
	var names []string
	byName := map[string][]ruleDoc{}
	for _, r := range all {
		if byName[r.Name] == nil {
			names = append(names, r.Name)
		}
		byName[r.Name] = append(byName[r.Name], toRuleDoc(r))
	}
	var docs []ruleDoc
	for _, name := range names {
		docs = append(docs, mergePools(byName[name])...)
	}
	return docs
}

func toRuleDoc(r engine.Rule) ruleDoc {
	toLimit := func(t engine.Threshold) *thresholdDoc {
		if !t.Set {
			return nil
		}
		return &thresholdDoc{t.At, t.For}
	}
	c := clearDoc(r.Clear)
	return ruleDoc{
		Name: r.Name, Signal: withPoolVariable(r.Signal, r.Pool), Unit: r.Unit,
		Warn: toLimit(r.Warn), Page: toLimit(r.Page), Clear: &c, Events: withPoolVariable(r.Events, r.Pool), MinEvents: r.MinEvents,
		Summary: r.Summary, Impact: r.Impact, Runbook: r.Runbook, Action: r.Action, pool: r.Pool,
	}
}

// withPoolVariable replaces the name of a pool in an expression by $pool.
func withPoolVariable(expr, pool string) string {
	if pool == "" {
		return expr
	}
	return strings.ReplaceAll(expr, fmt.Sprintf("pool=%q", pool), `pool="$pool"`)
}

// mergePools returns the rules of one name, with those that differ in their pool alone made one.
func mergePools(docs []ruleDoc) []ruleDoc {
	var variants []ruleDoc
	for _, d := range docs {
		n := slices.IndexFunc(variants, func(v ruleDoc) bool {
			v.pool, v.Pools = d.pool, d.Pools
			return reflect.DeepEqual(v, d)
		})
		if n < 0 {
			n = len(variants)
			variants = append(variants, d)
		}
		variants[n].Pools = append(variants[n].Pools, d.pool)
	}
	if len(variants) == 1 {
		variants[0].Pools = nil // all
		return variants
	}
	for n := range variants {
		v := &variants[n]
		if long := v.Name + "_" + strings.ReplaceAll(v.pool, "-", "_"); ruleNamePattern.MatchString(long) {
			v.Name = long
		} else {
			v.Name += fmt.Sprintf("_%d", n+1)
		}
	}
	return variants
}

// prometheusFile returns rules for a Prometheus that scrapes headgate, with the recorded series that they read: one
// alert for each level. Left out is what Prometheus cannot express: holding between the thresholds, and page instead of
// warn.
func prometheusFile(all []engine.Rule) rulefmt.RuleGroups {
	var file rulefmt.RuleGroups
	if records := recordingRules(all); len(records) > 0 {
		file.Groups = append(file.Groups, rulefmt.RuleGroup{
			Name: "headgate-recorded", Interval: model.Duration(time.Minute), Rules: records,
		})
	}
	for _, pool := range poolsOf(all) {
		group := rulefmt.RuleGroup{Name: "headgate"}
		if pool != "" {
			group.Name += "-" + pool
		}
		for _, r := range all {
			if r.Pool == pool {
				group.Rules = append(group.Rules, alerts(r)...)
			}
		}
		if len(group.Rules) > 0 {
			file.Groups = append(file.Groups, group)
		}
	}
	return file
}

func poolsOf(all []engine.Rule) []string {
	var pools []string
	for _, r := range all {
		if !slices.Contains(pools, r.Pool) {
			pools = append(pools, r.Pool)
		}
	}
	return pools
}

// recordingRules returns the recorded series that rules read.
func recordingRules(all []engine.Rule) []rulefmt.Rule {
	var names []string
	for _, r := range all {
		for _, text := range []string{r.Signal, r.Events} {
			if e, err := parse(text); err == nil {
				for _, s := range e.selectors {
					names = append(names, s.metric)
				}
			}
		}
	}
	slices.Sort(names)
	var records []rulefmt.Rule
	for _, name := range slices.Compact(names) {
		if counter, ok := tsdb.CounterName(name); ok {
			records = append(records, rulefmt.Rule{Record: name, Expr: "increase(" + counter + "[1m])"})
		}
	}
	return records
}

// alerts returns the alerts that a rule becomes.
func alerts(r engine.Rule) []rulefmt.Rule {
	if r.Name == engine.SignalMissing {
		return missingAlert(r)
	}
	var all []rulefmt.Rule
	if r.Warn.Set {
		all = append(all, alert(r, "warn", r.Warn))
	}
	if r.Page.Set {
		all = append(all, alert(r, "page", r.Page))
	}
	return all
}

func alert(r engine.Rule, severity string, t engine.Threshold) rulefmt.Rule {
	expr := fmt.Sprintf("(%s) >= %s", r.Signal, formatNumber(t.At))
	if r.Events != "" {
		expr += fmt.Sprintf(" and on () ((%s) >= %s)", r.Events, formatNumber(r.MinEvents))
	}
	return rulefmt.Rule{
		Alert: alertName(r.Name), Expr: expr, For: model.Duration(t.For),
		KeepFiringFor: model.Duration(r.Clear.For),
		Labels:        labelsOf(r, severity), Annotations: annotations(r),
	}
}

// missingAlert stands for counting signals, which Prometheus cannot.
func missingAlert(r engine.Rule) []rulefmt.Rule {
	if r.Pool == "" {
		return nil
	}
	return []rulefmt.Rule{{
		Alert: alertName(r.Name), Expr: fmt.Sprintf("absent(headgate_arrivals_total{pool=%q})", r.Pool), For: model.Duration(2 * time.Minute),
		Labels: labelsOf(r, "warn"), Annotations: annotations(r),
	}}
}

func labelsOf(r engine.Rule, severity string) map[string]string {
	l := map[string]string{"severity": severity}
	if r.Pool != "" {
		l["pool"] = r.Pool
	}
	return l
}

func annotations(r engine.Rule) map[string]string {
	a := map[string]string{"summary": escapeTemplate(r.Summary), "runbook": r.Runbook}
	if r.Impact != "" {
		a["description"] = escapeTemplate(r.Impact)
	}
	return a
}

// escapeTemplate keeps a text from being taken for a template.
func escapeTemplate(text string) string { return strings.ReplaceAll(text, "{{", `{{ "{{" }}`) }

// alertName makes HeadgateQueueAge of queue_age.
func alertName(name string) string {
	var b strings.Builder
	b.WriteString("Headgate")
	for part := range strings.SplitSeq(name, "_") {
		if part != "" {
			b.WriteString(strings.ToUpper(part[:1]) + part[1:])
		}
	}
	return b.String()
}
