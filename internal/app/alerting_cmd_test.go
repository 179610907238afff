package app

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"headgate/engine"
	"headgate/internal/config"
)

func parseTestConfig(t *testing.T, text string) *config.Config {
	t.Helper()
	cfg, err := config.Parse("test.yaml", []byte(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

const onePoolYAML = `pools: [{name: a, upstream: "http://127.0.0.1:9/v1"}]`

// twoPoolsYAML differ in what thresholds are derived from.
const twoPoolsYAML = `pools:
  - {name: a, upstream: "http://127.0.0.1:9/v1"}
  - {name: big-one, upstream: "http://127.0.0.1:9/v1", models: [b], workers: 16, slo: {turnaround: 2m, objective: 0.97}, admission: {max_queue_age: 50s}}`

func exportRules(t *testing.T, cfg *config.Config, format string) string {
	t.Helper()
	var b bytes.Buffer
	if err := ExportRules(&b, cfg, format); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestExportedRules: what is exported, and read again, are the same rules.
func TestExportedRules(t *testing.T) {
	for _, text := range []string{onePoolYAML, twoPoolsYAML} {
		cfg := parseTestConfig(t, text)
		want, err := LoadRules(cfg, "")
		if err != nil || len(want) < 10 {
			t.Fatalf("%d rules, %v", len(want), err)
		}
		path := filepath.Join(t.TempDir(), "rules.yaml")
		if err := os.WriteFile(path, []byte(exportRules(t, cfg, FormatYAML)), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := LoadRules(cfg, path)
		if err != nil {
			t.Fatalf("%v\n%s", err, exportRules(t, cfg, FormatYAML))
		}
		for _, all := range [][]engine.Rule{want, got} {
			for n := range all { // names of rules that differ between pools have them at their end
				for _, end := range []string{"_a", "_big_one"} {
					all[n].Name = strings.TrimSuffix(all[n].Name, end)
				}
			}
			slices.SortFunc(all, func(a, b engine.Rule) int { return strings.Compare(a.Name+" "+a.Pool, b.Name+" "+b.Pool) })
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("rules (-before +after):\n%s", diff)
		}
	}
}

// TestExportOfLongNames: a pool with the longest name gives no rule one that is too
// long to be read again.
func TestExportOfLongNames(t *testing.T) {
	cfg := parseTestConfig(t, strings.ReplaceAll(twoPoolsYAML, "big-one", strings.Repeat("x", 63)))
	path := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(path, []byte(exportRules(t, cfg, FormatYAML)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadRules(cfg, path); err != nil {
		t.Error(err)
	}
}

func TestExportFormats(t *testing.T) {
	cfg := parseTestConfig(t, onePoolYAML)
	if text := exportRules(t, cfg, FormatPrometheus); !strings.Contains(text, "groups:") || !strings.Contains(text, "alert: HeadgateQueueAge") {
		t.Errorf("for Prometheus:\n%s", text)
	}
	err := ExportRules(&bytes.Buffer{}, cfg, "toml")
	if err == nil || !strings.Contains(err.Error(), "must be yaml or prometheus") {
		t.Errorf("toml: %v", err)
	}
}

func TestRulesOfAFile(t *testing.T) {
	cfg := parseTestConfig(t, twoPoolsYAML)
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const rule = `rules:
  - name: waiting
    signal: headgate_queue_depth{pool="$pool"}
    warn: {at: %s, for: 30s}
    clear: {below: 5, for: 30s}
    summary: many wait
    runbook: queue_depth
`
	good := write("rules.yaml", fmt.Sprintf(rule, "10"))
	all, err := LoadRules(cfg, good)
	if err != nil || len(all) != 2 || all[0].Warn.At != 10 {
		t.Errorf("%+v, %v", all, err)
	}
	bad := write("bad.yaml", fmt.Sprintf(rule, "ten"))
	if _, err := LoadRules(cfg, bad); err == nil || !strings.Contains(err.Error(), bad+":4:16: rules[0].warn.at") {
		t.Errorf("bad: %v", err)
	}
	if _, err := LoadRules(cfg, filepath.Join(dir, "none.yaml")); err == nil {
		t.Error("a file that is not there")
	}
	tests := write("waiting.test.yaml", `rules: rules.yaml
interval: 1s
tests:
  - name: it warns
    for: 1m
    series:
      - {series: 'headgate_queue_depth{pool="default"}', values: 3 20x60}
    expect:
      - {at: 1m, rule: waiting, state: ok}
`)
	done, err := TestRules(t.Context(), cfg, tests)
	if err != nil || done.Tests != 1 || len(done.Failed) != 1 || !strings.Contains(done.Failed[0], tests+":9:") {
		t.Errorf("%+v, %v", done, err)
	}
	if _, err := TestRules(t.Context(), cfg, good); err == nil {
		t.Error("rules are no tests")
	}
}

// TestMerged: what is the same in all pools is one rule; what differs is one for
// each kind, with its pools.
func TestMerged(t *testing.T) {
	rule := func(pool string, at float64) engine.Rule {
		return engine.Rule{Name: "age", Pool: pool, Signal: fmt.Sprintf("x{pool=%q} + y{pool=%[1]q}", pool), Warn: engine.Threshold{At: at, Set: true}}
	}
	shown := func(all ...engine.Rule) string {
		var docs []ruleDoc
		for _, r := range all {
			docs = append(docs, toRuleDoc(r))
		}
		var lines []string
		for _, d := range mergeRules(docs) {
			lines = append(lines, fmt.Sprintf("%s %v %v %s", d.Name, d.Pools, d.Warn.At, d.Signal))
		}
		return strings.Join(lines, "; ")
	}
	const signal = ` x{pool="$pool"} + y{pool="$pool"}`
	for want, got := range map[string]string{
		"age [] 1" + signal: shown(rule("a", 1), rule("b", 1)),
		"age_a [a c] 1" + signal + "; age_b_b [b-b] 2" + signal: shown(rule("a", 1), rule("b-b", 2), rule("c", 1)),
	} {
		if got != want {
			t.Errorf("merged %s\n  want %s", got, want)
		}
	}
	alone := engine.Rule{Name: "journal", Signal: `x{pool="a"}`, Page: engine.Threshold{At: 1, Set: true}}
	if d := toRuleDoc(alone); d.Signal != alone.Signal || d.Warn != nil || d.Page.At != 1 {
		t.Errorf("a rule of the process: %+v", d)
	}
}
