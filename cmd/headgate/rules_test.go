package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"headgate/engine"
)

const goodRules = `rules:
  - name: waiting
    signal: headgate_queue_depth{pool="$pool"}
    unit: tasks
    warn: {at: 10, for: 30s}
    clear: {below: 5, for: 30s}
    summary: many wait
    runbook: queue_depth
`

// goodTests hold.
const goodTests = `rules: rules.yaml
tests:
  - name: it warns
    for: 1m
    series:
      - {series: 'headgate_queue_depth{pool="default"}', values: 3 20x60}
    expect:
      - {at: 10s, rule: waiting, state: pending}
      - {at: 1m, rule: waiting, state: warn, value: 20}
`

// files writes files into a folder of their own.
func files(t *testing.T, texts map[string]string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range texts {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestRulesCheck(t *testing.T) {
	g := newTestEnv(t)
	dir := files(t, map[string]string{
		"rules.yaml": goodRules,
		"bad.yaml":   strings.Replace(strings.Replace(goodRules, "at: 10", "at: ten", 1), "unit:", "unti:", 1),
		"headgate.yaml": `pools:
  - {name: a, upstream: "http://127.0.0.1:9/v1"}
  - {name: b, upstream: "http://127.0.0.1:9/v1", models: [b]}
`})
	path := func(name string) string { return filepath.Join(dir, name) }
	r := g.runBare("rules", "check", path("rules.yaml"), "--config", path("headgate.yaml"))
	lines := strings.Split(r.out, "\n")
	if r.code != 0 || len(lines) != 4 || fields(lines[0]) != "RULE POOL WARN AT PAGE AT CLEAR BELOW RUNBOOK ACTION" ||
		fields(lines[1]) != "waiting a 10 tasks for 30s - 5 tasks for 30s queue_depth -" || !strings.HasPrefix(fields(lines[2]), "waiting b ") {
		t.Errorf("exit %d\n%s%s", r.code, r.out, r.err)
	}
	g.runBare("rules", "check", path("bad.yaml"), "--config", path("headgate.yaml")).want(t, exitUsage, "", path("bad.yaml")+":4:5: ", path("bad.yaml")+":5:12: rules[0].warn.at")
	g.runBare("rules", "check", path("none.yaml"), "--config", path("headgate.yaml")).want(t, exitUsage, "", "none.yaml")
	g.runBare("rules", "check", "", "--config", path("headgate.yaml")).want(t, exitUsage, "", "must not be empty")
	g.runBare("rules", "check", "a", "b").want(t, exitUsage, "", "--help")
	builtIn := g.runBare("rules", "check", "--config", path("headgate.yaml"))
	for _, want := range []string{"queue_age a 15s for 30s 25s for 60s 10s for 30s queue_age", "queue_age b ", "journal_failing - "} {
		if !strings.Contains(fields(builtIn.out), want) {
			t.Errorf("%q is not in\n%s", want, builtIn.out)
		}
	}
	var reply struct {
		Rules []engine.Rule `json:"rules"`
	}
	dec := json.NewDecoder(strings.NewReader(g.runBare("rules", "check", path("rules.yaml"), "--config", path("headgate.yaml"), "--json").out))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&reply); err != nil || len(reply.Rules) != 2 || reply.Rules[1].Pool != "b" || reply.Rules[0].Page.Set ||
		reply.Rules[0].Warn.For != 30*time.Second || reply.Rules[0].Clear.Below != 5 {
		t.Errorf("%+v, %v", reply, err)
	}
}

func TestRulesTest(t *testing.T) {
	g := newTestEnv(t)
	dir := files(t, map[string]string{
		"rules.yaml":     goodRules,
		"good.test.yaml": goodTests,
		"bad.test.yaml":  strings.Replace(goodTests, "state: pending", "state: ok", 1),
		"none.test.yaml": "tests: []\n",
	})
	good, bad, none := filepath.Join(dir, "good.test.yaml"), filepath.Join(dir, "bad.test.yaml"), filepath.Join(dir, "none.test.yaml")
	g.runBare("rules", "test", good).want(t, 0, "ok       "+good+"  1 test\n")
	r := g.runBare("rules", "test", good, bad)
	if r.code != exitUnexpected || !strings.Contains(r.out, "ok       "+good) || !strings.Contains(r.out, "FAILED   "+bad+"  1 test\n         "+bad+":8:") ||
		!strings.Contains(r.err, "not met: 1") {
		t.Errorf("exit %d\n%s%s", r.code, r.out, r.err)
	}
	r = g.runBare("rules", "test", none, bad, filepath.Join(dir, "missing"))
	if r.code != exitUsage || !strings.Contains(r.out, "NOT RUN  "+none) || !strings.Contains(r.out, "FAILED   "+bad) || !strings.Contains(r.err, none+":") {
		t.Errorf("exit %d\n%s%s", r.code, r.out, r.err)
	}
	var reply rulesTestReport
	r = g.runBare("rules", "test", bad, "--json")
	dec := json.NewDecoder(strings.NewReader(r.out))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&reply); err != nil || r.code != exitUnexpected || reply.Passed || len(reply.Files) != 1 || len(reply.Files[0].Failed) != 1 {
		t.Errorf("exit %d, %+v, %v", r.code, reply, err)
	}
	g.runBare("rules", "test").want(t, exitUsage, "", "--help")
}

// sorted puts lines in order: a rule of the process may stand elsewhere in a file.
func sorted(text string) string {
	lines := strings.Split(text, "\n")
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func TestRulesExport(t *testing.T) {
	g := newTestEnv(t)
	r := g.runBare("rules", "export")
	dir := files(t, map[string]string{"rules.yaml": r.out})
	again, before := g.runBare("rules", "check", filepath.Join(dir, "rules.yaml")), g.runBare("rules", "check")
	if r.code != 0 || again.code != 0 || sorted(again.out) != sorted(before.out) {
		t.Errorf("what was exported reads\n%s%s", again.out, again.err)
	}
	if r := g.runBare("rules", "export", "--format", "prometheus"); r.code != 0 || !strings.Contains(r.out, "alert: HeadgateQueueAge") {
		t.Errorf("exit %d\n%s%s", r.code, r.out, r.err)
	}
	g.runBare("rules", "export", "--format", "toml").want(t, exitUsage, "", "--format must be yaml or prometheus")
	g.runBare("rules", "export", "x").want(t, exitUsage, "", "--help")
}
