package rules

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/prometheus/model/rulefmt"
	"go.yaml.in/yaml/v3"

	"headgate/engine"
	"headgate/engine/tsdb"
)

func export(t *testing.T, all []engine.Rule, format string) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := Export(&b, all, format); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func exported(t *testing.T) ([]byte, rulefmt.RuleGroups) {
	t.Helper()
	text := export(t, builtIn(t, settings()), FormatPrometheus)
	var file rulefmt.RuleGroups
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	return text, file
}

// What is exported has an alert for every threshold, records what the alerts read,
// and is valid PromQL throughout.
func TestExportComplete(t *testing.T) {
	_, file := exported(t)
	recorded, count := map[string]bool{}, 0
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			recorded[r.Record] = true
			if r.Alert == "" {
				continue
			}
			count++
			if r.Labels["severity"] != "warn" && r.Labels["severity"] != "page" || r.Annotations["summary"] == "" || r.For == 0 {
				t.Errorf("alert %+v lacks something", r)
			}
			e, err := parse(r.Expr)
			if err != nil {
				t.Errorf("%s: %v", r.Alert, err)
			}
			for _, s := range e.selectors {
				if tsdb.IsRecorded(s.metric) && !recorded[s.metric] {
					t.Errorf("%s reads %s, which is not recorded before", r.Alert, s.metric)
				}
			}
		}
	}
	want := 0
	for _, r := range builtIn(t, settings()) {
		if r.Warn.Set && (r.Signal != "" || r.Pool != "") {
			want++
		}
		if r.Page.Set {
			want++
		}
	}
	if count != want {
		t.Errorf("%d alerts, want %d", count, want)
	}
}

// promtool, where it is installed, has the last word; elsewhere the same text is
// held against the same parser above.
func TestPromtoolTakesTheExport(t *testing.T) {
	text, _ := exported(t)
	if !strings.HasPrefix(string(text), "#") {
		t.Error("the file does not say where it comes from")
	}
	tool, err := exec.LookPath("promtool")
	if err != nil {
		return
	}
	path := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(tool, "check", "rules", path).CombinedOutput(); err != nil {
		t.Errorf("promtool: %v\n%s", err, out)
	}
}

func TestAlertNames(t *testing.T) {
	for name, want := range map[string]string{"queue_age": "HeadgateQueueAge", "slo_burn_1h": "HeadgateSloBurn1h", "a__b_": "HeadgateAB"} {
		if got := alertName(name); got != want {
			t.Errorf("%s became %s, want %s", name, got, want)
		}
	}
	if got := escapeTemplate("a {{ $x }}"); got != `a {{ "{{" }} $x }}` {
		t.Errorf("a text with braces became %s", got)
	}
}

// Rules that are exported as YAML and read again are the same, also for pools whose thresholds differ. The longest
// pool name gives no rule a name that is too long.
func TestExportYAMLRoundTrip(t *testing.T) {
	for _, second := range []string{"", "big-one", strings.Repeat("x", 63)} {
		s := settings()
		if second != "" {
			p := defaultPool()
			p.Name, p.Workers, p.SLO, p.Objective, p.MaxQueueAge = second, 16, 2*time.Minute, 0.97, 50*time.Second
			s.Pools = append(s.Pools, p)
		}
		want := builtIn(t, s)
		s.Runbooks = nil
		for _, r := range want {
			s.Runbooks = append(s.Runbooks, r.Runbook)
		}
		text := export(t, want, FormatYAML)
		got, err := Parse("exported", text, s)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		for _, all := range [][]engine.Rule{want, got} {
			for n := range all { // the name of a rule that differs between pools ends with the pool or a number
				for _, end := range []string{"_default", "_big_one", "_1", "_2"} {
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

// TestExportMergesPools: a rule that is the same in all pools is exported once; one that differs, once for each
// variant, with its pools.
func TestExportMergesPools(t *testing.T) {
	rule := func(pool string, at float64) engine.Rule {
		return engine.Rule{Name: "age", Pool: pool, Signal: fmt.Sprintf("x{pool=%q} + y{pool=%[1]q}", pool), Warn: engine.Threshold{At: at, Set: true}}
	}
	shown := func(all ...engine.Rule) string {
		var lines []string
		for _, d := range ruleDocs(all) {
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
	if err := Export(new(bytes.Buffer), nil, "toml"); err == nil {
		t.Error("an unknown format is written")
	}
}
