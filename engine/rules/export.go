package rules

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/prometheus/common/model"
	"go.yaml.in/yaml/v3"

	"headgate/engine"
	"headgate/engine/tsdb"
)

// promFile is a file of rules as Prometheus reads it.
type promFile struct {
	Groups []promGroup `yaml:"groups"`
}

type promGroup struct {
	Name     string     `yaml:"name"`
	Interval string     `yaml:"interval,omitempty"`
	Rules    []promRule `yaml:"rules"`
}

type promRule struct {
	Record      string            `yaml:"record,omitempty"`
	Alert       string            `yaml:"alert,omitempty"`
	Expr        string            `yaml:"expr"`
	For         string            `yaml:"for,omitempty"`
	KeepFiring  string            `yaml:"keep_firing_for,omitempty"`
	Labels      map[string]string `yaml:"labels,omitempty"`
	Annotations map[string]string `yaml:"annotations,omitempty"`
}

// Export writes rules as a file for a Prometheus that scrapes headgate, with the
// recorded series that they read: one alert for each level. What Prometheus cannot
// say is left out: holding between the thresholds, and page in place of warn.
func Export(w io.Writer, all []engine.Rule) error {
	file := promFile{}
	if records := recordingRules(all); len(records) > 0 {
		file.Groups = append(file.Groups, promGroup{Name: "headgate-recorded", Interval: "1m", Rules: records})
	}
	for _, pool := range poolsOf(all) {
		group := promGroup{Name: "headgate"}
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
	var b bytes.Buffer
	b.WriteString("# Rules of headgate for Prometheus. Written by headgate rules export.\n")
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(file); err != nil {
		return fmt.Errorf("write the rules: %w", err)
	}
	_, err := w.Write(b.Bytes())
	return err
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
func recordingRules(all []engine.Rule) []promRule {
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
	var records []promRule
	for _, name := range slices.Compact(names) {
		if counter, ok := tsdb.CounterName(name); ok {
			records = append(records, promRule{Record: name, Expr: "increase(" + counter + "[1m])"})
		}
	}
	return records
}

// alerts returns the alerts that a rule becomes.
func alerts(r engine.Rule) []promRule {
	if r.Name == engine.SignalMissing {
		return missingAlert(r)
	}
	var all []promRule
	for _, level := range []struct {
		name string
		t    engine.Threshold
	}{{"warn", r.Warn}, {"page", r.Page}} {
		if level.t.Set {
			all = append(all, alert(r, level.name, level.t))
		}
	}
	return all
}

func alert(r engine.Rule, severity string, t engine.Threshold) promRule {
	expr := fmt.Sprintf("(%s) >= %s", r.Signal, formatNumber(t.At))
	if r.Events != "" {
		expr += fmt.Sprintf(" and on () ((%s) >= %s)", r.Events, formatNumber(r.MinEvents))
	}
	return promRule{
		Alert: alertName(r.Name), Expr: expr, For: model.Duration(t.For).String(), KeepFiring: model.Duration(r.Clear.For).String(),
		Labels: labelsOf(r, severity), Annotations: annotations(r),
	}
}

// missingAlert stands for counting signals, which Prometheus cannot.
func missingAlert(r engine.Rule) []promRule {
	if r.Pool == "" {
		return nil
	}
	return []promRule{{
		Alert: alertName(r.Name), Expr: fmt.Sprintf("absent(headgate_arrivals_total{pool=%q})", r.Pool), For: "2m",
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
