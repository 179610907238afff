package rules

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"headgate/engine"
	"headgate/internal/strictyaml"
)

const validRules = `rules:
  - name: deep
    signal: headgate_queue_depth{pool="$pool"} / $workers
    unit: ratio
    warn: {at: 1, for: 30s}
    page: {at: 2, for: 1m}
    clear: {below: 0.5, for: 30s}
    events: round(increase(headgate_arrivals_total{pool="$pool"}[5m]))
    min_events: 20
    summary: many wait
    impact: slow answers
    runbook: queue_age
    action: rollback
    i_understand: true
    pools: [default]
  - name: panics
    signal: increase(headgate_panics_total[10m])
    page: {at: 1, for: 10s}
    clear: {below: 1, for: 1m}
    summary: a bug
    runbook: queue_age
`

func TestLoadReadsEveryKey(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(path, []byte(validRules), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := Load(path, settings())
	if err != nil {
		t.Fatal(err)
	}
	want := []engine.Rule{
		{
			Name: "deep", Pool: "default", Unit: "ratio", Signal: `headgate_queue_depth{pool="default"} / 4`,
			Warn: engine.Threshold{At: 1, For: 30 * time.Second, Set: true}, Page: engine.Threshold{At: 2, For: time.Minute, Set: true},
			Clear:  engine.Clear{Below: 0.5, For: 30 * time.Second},
			Events: `round(increase(headgate_arrivals_total{pool="default"}[5m]))`, MinEvents: 20,
			Summary: "many wait", Impact: "slow answers", Runbook: "queue_age", Action: "rollback",
		},
		{
			Name: "panics", Signal: `increase(headgate_panics_total[10m])`, Page: engine.Threshold{At: 1, For: 10 * time.Second, Set: true},
			Clear: engine.Clear{Below: 1, For: time.Minute}, Summary: "a bug", Runbook: "queue_age",
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
	if err := engine.CheckRules(got); err != nil {
		t.Errorf("the engine refuses them: %v", err)
	}
}

// A rule with variables is one for each pool, and reads what is its pool's.
func TestRuleForEachPool(t *testing.T) {
	s := settings()
	big := defaultPool()
	big.Name, big.Workers = "big", 32
	s.Pools = append(s.Pools, big)
	text := strings.Replace(validRules, "    pools: [default]\n", "", 1)
	got, err := Parse("rules.yaml", []byte(text), s)
	if err != nil || len(got) != 3 {
		t.Fatalf("%d rules, error %v; want 3", len(got), err)
	}
	if want := `headgate_queue_depth{pool="big"} / 32`; got[1].Signal != want {
		t.Errorf("signal %q, want %q", got[1].Signal, want)
	}
}

// Every error names its place and the correct form. The edit replaces a part of
// a valid file.
func TestLoadRefuses(t *testing.T) {
	tests := []struct{ name, old, new, want string }{
		{"unknown key", "    unit: ratio", "    units: ratio", `f:4:5: rules[0]: unknown key "units"; did you mean unit?`},
		{"repeated key", "    unit: ratio", "    name: again", `f:4:5: rules[0].name: is repeated: it is already set in line 2`},
		{"a number for text", "summary: many wait", "summary: 12", `f:10:5: rules[0].summary: must be text, is a number: put it in quotes`},
		{"text for a number", "at: 1, for: 30s", "at: one, for: 30s", `f:5:12: rules[0].warn.at: must be a finite number such as 0.95, is "one"`},
		{"infinite", "at: 1, for: 30s", "at: .inf, for: 30s", `must be a finite number`},
		{"not a duration", "at: 1, for: 30s", "at: 1, for: 30", `f:5:19: rules[0].warn.for: must have a unit`},
		{"no for", "warn: {at: 1, for: 30s}", "warn: {at: 1}", `f:5:5: rules[0].warn.for: is missing`},
		{"a list for a mapping", "warn: {at: 1, for: 30s}", "warn: [1, 30s]", `must be a mapping of settings, is a list`},
		{"alias", "unit: ratio", "unit: *x", `is not valid YAML`},
		{"anchor", "unit: ratio", "unit: &x ratio", `YAML anchors are not supported`},
		{"no value", "unit: ratio", "unit:", `rules[0].unit: has no value`},
		{"name", "name: deep", "name: Deep-1", `rules[0].name: must be 1 to 63 of a-z`},
		{"name twice", "name: panics", "name: deep", `f:16:5: rules[1].name: "deep" is taken by rules[0] in line 2`},
		{"not PromQL", "/ $workers", "/ (", `f:3:5: rules[0].signal: is not valid PromQL`},
		{"a range", "headgate_queue_depth{pool=\"$pool\"} / $workers", "headgate_queue_depth[5m]", `must be a number or an instant vector, is a range vector`},
		{"text in PromQL", "headgate_queue_depth{pool=\"$pool\"} / $workers", "'\"four\"'", `is a string`},
		{"unknown variable", "$workers", "$worker", `there is no variable $worker; known here: $pool`},
		{"others' metric", "headgate_queue_depth{", "go_goroutines{", `there are no samples of go_goroutines: only headgate_*`},
		{"no metric", "headgate_queue_depth{pool=\"$pool\"} /", `sum({pool="$pool"}) /`, `must name its metric`},
		{"window of nothing", "increase(headgate_panics_total[10m])", "increase(headgate_panics_total[0s])", `rules[1].signal: is not valid PromQL`},
		{"window of one sample", "increase(headgate_panics_total[10m])", "increase(headgate_panics_total[1s])", `the range [1s] of headgate_panics_total must hold two samples: at least 2s`},
		{"long window, recorded", "increase(headgate_panics_total[10m])", "increase(headgate_slo_tasks_total[2h])", `looks back 2h over headgate_slo_tasks_total: from 1h on it must read a recorded series; instead of its increase take sum_over_time(headgate:slo_tasks:1m[2h])`},
		{"long window, not recorded", "increase(headgate_panics_total[10m])", "increase(headgate_panics_total[2h])", `and there is none of it`},
		{"long subquery", "increase(headgate_panics_total[10m])", "max_over_time(headgate_queue_depth[5m:1m] offset 1h)", `looks back 1h5m`},
		{"recorded, and no range", "increase(headgate_panics_total[10m])", "headgate:slo_tasks:1m", `has one point a minute: it needs a range`},
		{"unknown recorded", "increase(headgate_panics_total[10m])", "sum_over_time(headgate:nothing:1m[1h])", `there are no samples of headgate:nothing:1m`},
		{"beyond retention", "increase(headgate_panics_total[10m])", "sum_over_time(headgate:slo_tasks:1m[8d])", `rules[1].signal: looks back 8d, and samples are kept for 1w`},
		{"the future", "increase(headgate_panics_total[10m])", "headgate_panics_total offset -5m", `must look back from now`},
		{"a fixed time", "increase(headgate_panics_total[10m])", "headgate_panics_total @ 0", `must look back from now`},
		{"page below warn", "page: {at: 2,", "page: {at: 0.9,", `f:6:12: rules[0].page.at: must be at least warn.at, which is 1; is 0.9`},
		{"clear above warn", "below: 0.5", "below: 1.1", `f:7:13: rules[0].clear.below: must be at most warn.at, which is 1; is 1.1`},
		{"for too short", "at: 1, for: 30s", "at: 1, for: 4s", `f:5:19: rules[0].warn.for: must be at least 5s, 5 evaluations; is 4s`},
		{"slow, and for too short", "increase(headgate_panics_total[10m])", "sum_over_time(headgate:slo_tasks:1m[1h])", `rules[1].page.for: must be at least 2m30s, 5 evaluations; is 10s`},
		{"no threshold", "    page: {at: 1, for: 10s}\n", "", `rules[1]: has neither warn nor page`},
		{"no clear", "    clear: {below: 1, for: 1m}\n", "", `rules[1].clear: is missing`},
		{"min_events alone", "    events: round(increase(headgate_arrivals_total{pool=\"$pool\"}[5m]))\n", "", `rules[0].min_events: needs events`},
		{"events alone", "    min_events: 20\n", "", `rules[0].min_events: must be from 1`},
		{"long events", "[5m]))", "[5m])) + sum_over_time(headgate:slo_tasks:1m{pool=\"$pool\"}[1h])", `rules[0].events: looks back 1h, and the signal less`},
		{"no summary", "    summary: a bug\n", "", `rules[1].summary: must say in plain words`},
		{"long summary", "summary: a bug", "summary: " + strings.Repeat("long ", 70), `must have at most 300 characters`},
		{"unknown runbook", "runbook: queue_age\n    action", "runbook: queue_aeg\n    action", `f:12:5: rules[0].runbook: there is no page "queue_aeg"; known here: queue_age, slo_burn`},
		{"unknown action", "action: rollback", "action: reboot", `rules[0].action: must be rollback, or left out; is "reboot"`},
		{"rollback on load", "    i_understand: true\n", "", `rules[0].action: headgate_queue_depth is a load signal`},
		{"i_understand nothing", "    action: rollback\n", "", `rules[0].i_understand: does nothing without an action`},
		{"unknown pool", "pools: [default]", "pools: [other]", `rules[0].pools[0]: there is no pool "other"; known here: default`},
		{"pools of a process rule", "    summary: a bug", "    summary: a bug\n    pools: [default]", `rules[1].pools: is for rules with $pool`},
		{"a second document", "    runbook: queue_age\n", "    runbook: queue_age\n---\na: 1\n", `must hold one YAML document`},
		{"signal_missing with a signal", "name: panics", "name: signal_missing", `rules[1].signal: must be left out`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			text := edit(t, tt.old, tt.new)
			got, err := Parse("f", []byte(text), settings())
			if err == nil || got != nil {
				t.Fatalf("loaded %d rules, want a refusal", len(got))
			}
			var problems strictyaml.Diagnostics
			if !errors.As(err, &problems) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got:\n%v\nwant:\n%s", err, tt.want)
			}
		})
	}
}

// edit replaces the last place of a part: those that end the file are the second
// rule's.
func edit(t *testing.T, old, new string) string {
	t.Helper()
	i := strings.LastIndex(validRules, old)
	if i < 0 {
		t.Fatalf("the file has no %q", old)
	}
	return validRules[:i] + new + validRules[i+len(old):]
}

// B14: a factor that no share of bad tasks can reach, and an SLO window that is too
// short, are refused with the arithmetic.
func TestImpossibleBurn(t *testing.T) {
	text := `rules:
  - name: burn
    signal: sum_over_time(headgate:slo_bad_tasks:1m{pool="$pool"}[1h]) / sum_over_time(headgate:slo_tasks:1m{pool="$pool"}[1h]) / $budget
    unit: burn
    page: {at: 14.4, for: 5m}
    clear: {below: 1, for: 5m}
    summary: burning
    runbook: slo_burn
`
	tests := []struct {
		name      string
		objective float64
		window    time.Duration
		want      string
	}{
		{"it can be reached", 0.95, 30 * 24 * time.Hour, ""},
		{"just", 0.931, 30 * 24 * time.Hour, ""},
		{"all tasks are not enough", 0.9, 30 * 24 * time.Hour,
			`f:5:12: rules[0].page.at: can never be reached in pool default: 14.4 × (1 − 0.9) = 1.44 of all tasks would have to be bad; it must be below 10`},
		{"the budget is gone before", 0.95, 12 * time.Hour,
			`f:5:12: rules[0].page.at: fires too late in pool default: 14.4 × 1h ÷ 12h = 1.2 of the budget would be gone; the window of the SLO must be longer than 14h24m`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := settings()
			s.Pools[0].Objective, s.Pools[0].Window = tt.objective, tt.window
			_, err := Parse("f", []byte(text), s)
			if got := fmt.Sprint(err); tt.want == "" && err != nil || tt.want != "" && got != tt.want {
				t.Errorf("got  %v\nwant %s", err, tt.want)
			}
		})
	}
}

// All problems come at once, in the order of the file.
func TestAllProblemsAtOnce(t *testing.T) {
	text := strings.NewReplacer("at: 1, for: 30s", "at: 5, for: 1s", "runbook: queue_age", "runbook: none", "[10m]", "[9d]").Replace(validRules)
	_, err := Parse("f", []byte(text), settings())
	var problems strictyaml.Diagnostics
	if !errors.As(err, &problems) || len(problems) != 5 {
		t.Fatalf("got %v, want five problems", err)
	}
	for i := 1; i < len(problems); i++ {
		if problems[i].Line < problems[i-1].Line {
			t.Errorf("line %d after line %d", problems[i].Line, problems[i-1].Line)
		}
	}
}

func TestProblemsAreBounded(t *testing.T) {
	var b strings.Builder
	b.WriteString("rules:\n")
	for range 500 {
		b.WriteString("  - {a: 1, b: 2}\n")
	}
	_, err := Parse("f", []byte(b.String()), settings())
	var problems strictyaml.Diagnostics
	if !errors.As(err, &problems) || len(problems) != strictyaml.MaxDiagnostics+1 || !strings.Contains(err.Error(), "more problems") {
		t.Errorf("got %d problems", len(problems))
	}
}

func TestUnreadableFiles(t *testing.T) {
	for name, data := range map[string][]byte{
		"empty": nil, "no rules": []byte("rules: []"), "text": []byte("rules"), "not UTF-8": {0xff, 0xfe}, "too long": make([]byte, strictyaml.MaxFile+1),
		"a comment": []byte("# nothing\n"), "nothing in it": []byte("{}"),
	} {
		if got, err := Parse("f", data, settings()); err == nil {
			t.Errorf("%s: %d rules", name, len(got))
		}
	}
	if _, err := Load(filepath.Join(t.TempDir(), "absent"), settings()); err == nil {
		t.Error("a file that is not there was loaded")
	}
}

// Whatever a file holds, it is refused or it gives rules that the engine takes.
func FuzzParse(f *testing.F) {
	f.Add([]byte(validRules))
	f.Add([]byte("rules:\n  - {name: signal_missing, warn: {at: 1, for: 5s}, clear: {below: 1, for: 1m}, summary: s, runbook: queue_age}\n"))
	f.Add([]byte("rules: [{name: a, signal: '(((((1', pools: []}]"))
	s := settings()
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := Parse("f", data, s)
		if err != nil {
			if strings.TrimSpace(err.Error()) == "" {
				t.Error("refused without a word")
			}
			return
		}
		if err := engine.CheckRules(got); err != nil {
			t.Errorf("the engine refuses what was loaded: %v", err)
		}
	})
}
