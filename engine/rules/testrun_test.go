package rules

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"headgate/internal/strictyaml"
)

const passingTests = `tests:
  - name: old
    rules: [queue_age]
    series:
      - {series: 'headgate_queue_oldest_age_seconds{pool="default"}', values: '0 15x40'}
    expect:
      - {at: 31s, rule: queue_age, value: 15, state: warn}
    events: [31s queue_age opened warn]
`

func TestRunnerReportsFailures(t *testing.T) {
	tests := []struct{ name, old, new, want string }{
		{"nothing", "", "", ""},
		{"value", "value: 15", "value: 14", "f:7:9: tests[0].expect[0]: old: at 31s the value of queue_age is 15, want 14"},
		{"tolerance", "value: 15", "value: 14.9, tolerance: 0.2", ""},
		{"state", "state: warn", "state: page", "old: at 31s queue_age is warn, want page; its value is 15"},
		{"knowing", "value: 15", "value: missing", "is 15, want missing"},
		{"events", "31s queue_age opened warn", "30s queue_age opened warn", "f:8:5: tests[0].events: old: events are [31s queue_age opened warn], want [30s queue_age opened warn]"},
		{"no rule", "rule: queue_age, value", "rule: other, value", `there is no rule "other" in that pool`},
		{"no pool", "rule: queue_age, value", "pool: other, rule: queue_age, value", `there is no rule "queue_age" in that pool`},
		{"no chosen rule", "rules: [queue_age]", "rules: [other]", `tests[0].rules: there is no rule "other"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			done, err := TestData(t.Context(), "f", []byte(strings.Replace(passingTests, tt.old, tt.new, 1)), settings())
			if err != nil {
				t.Fatal(err)
			}
			if tt.want == "" && len(done.Failures) > 0 || tt.want != "" && !strings.Contains(done.Failures.Error(), tt.want) {
				t.Errorf("got  %v\nwant %s", done.Failures, tt.want)
			}
		})
	}
}

func TestRunnerRefuses(t *testing.T) {
	tests := []struct{ name, old, new, want string }{
		{"unknown key", "rules: [queue_age]", "rule: [queue_age]", `unknown key "rule"`},
		{"not a series", "values: '0 15x40'", "values: '0 xx'", "is not a series and its values"},
		{"too many values", "15x40", "15x4000000000", "must have at most"},
		{"many large repeats", "15x40", "15x60000 1x60000", "must have at most"},
		{"between two evaluations", "at: 31s", "at: 1500ms", "must be a multiple of the interval, 1s"},
		{"too long", "at: 31s", "at: 300h", "is longer than"},
		{"no such state", "state: warn", "state: bad", "must be one of ok, pending, warn, page, recovering"},
		{"nothing expected", "    expect:\n      - {at: 31s, rule: queue_age, value: 15, state: warn}\n    events: [31s queue_age opened warn]\n", "", "must have expect or events"},
		{"no name", "name: old", "name: ''", "give what is tested"},
		{"interval", "tests:", "interval: 10ms\ntests:", "must be at least 1s"},
		{"pool", "tests:", "pool: {objective: 2}\ntests:", "the objective is 2"},
		{"rules that cannot be", "tests:", "pool: {objective: 0.5}\ntests:", "can never be reached"},
		{"a file that is not there", "tests:", "rules: absent.yaml\ntests:", "absent.yaml"},
		{"value", "value: 15", "value: many", "must be a number, idle or missing"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := TestData(t.Context(), "f", []byte(strings.Replace(passingTests, tt.old, tt.new, 1)), settings())
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got  %v\nwant %s", err, tt.want)
			}
		})
	}
}

// A file of tests may bring its own rules, named relative to itself.
func TestRunnerTakesAFileOfRules(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("rules.yaml", validRules)
	path := write("a.test.yaml", `rules: rules.yaml
tests:
  - name: a panic pages
    series:
      - {series: headgate_panics_total, values: '0x30 1x30'}
    expect:
      - {at: 45s, rule: panics, state: page}
`)
	done, err := Test(t.Context(), path, settings())
	if err != nil || done.Tests != 1 || len(done.Failures) > 0 {
		t.Errorf("got %+v, %v", done, err)
	}
}

func TestRunnerObeysItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := TestData(ctx, "f", []byte(passingTests), settings()); err == nil {
		t.Error("ran after the end of its context")
	}
}

// No file of tests, however bad, does harm.
func FuzzTestFile(f *testing.F) {
	f.Add([]byte(passingTests))
	f.Add([]byte("tests: [{name: a, series: [{series: x, values: '1+1x5 _x3 stale'}], events: []}]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		l := strictyaml.NewDecoder("f")
		file := readTests(l, data)
		if l.Err() != nil {
			return
		}
		for _, c := range file.Tests {
			if c.For/file.Interval > maxTicks {
				t.Errorf("a test of %s", c.For)
			}
		}
	})
}
