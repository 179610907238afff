package main

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"headgate/internal/cli"
	"headgate/internal/fakeslack"
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

// files writes files into a new directory.
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
		fields(lines[1]) != "waiting a 10 tasks for 30s - 5 tasks for 30s queue_depth -" ||
		!strings.HasPrefix(fields(lines[2]), "waiting b ") {
		t.Errorf("exit %d\n%s%s", r.code, r.out, r.err)
	}
	g.runBare("rules", "check", path("bad.yaml"), "--config", path("headgate.yaml")).want(t, cli.ExitUsage, "",
		path("bad.yaml")+":4:5: ", path("bad.yaml")+":5:12: rules[0].warn.at")
	g.runBare("rules", "check", path("none.yaml"), "--config", path("headgate.yaml")).want(t, cli.ExitUsage, "",
		"none.yaml")
	g.runBare("rules", "check", "", "--config", path("headgate.yaml")).want(t, cli.ExitUsage, "", "must not be empty")
	g.runBare("rules", "check", "a", "b").want(t, cli.ExitUsage, "", "--help")
	builtIn := g.runBare("rules", "check", "--config", path("headgate.yaml"))
	for _, want := range []string{"queue_age a 15s for 30s 25s for 60s 10s for 30s queue_age", "queue_age b ",
		"journal_failing - "} {
		if !strings.Contains(fields(builtIn.out), want) {
			t.Errorf("%q is not in\n%s", want, builtIn.out)
		}
	}
	var reply struct {
		Rules []map[string]any `json:"rules"`
	}
	dec := json.NewDecoder(strings.NewReader(g.runBare("rules", "check", path("rules.yaml"), "--config",
		path("headgate.yaml"), "--json").out))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&reply); err != nil || len(reply.Rules) != 2 || reply.Rules[1]["pool"] != "b" ||
		reply.Rules[0]["page"] != nil ||
		reply.Rules[0]["warn"].(map[string]any)["for_s"] != 30.0 || reply.Rules[0]["clear"].(map[string]any)["below"] != 5.0 {
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
	good, bad, none := filepath.Join(dir, "good.test.yaml"), filepath.Join(dir, "bad.test.yaml"),
		filepath.Join(dir, "none.test.yaml")
	g.runBare("rules", "test", good).want(t, 0, "ok       "+good+"  1 test\n")
	r := g.runBare("rules", "test", good, bad)
	if r.code != cli.ExitUnexpected || !strings.Contains(r.out, "ok       "+good) ||
		!strings.Contains(r.out, "FAILED   "+bad+"  1 test\n         "+bad+":8:") ||
		!strings.Contains(r.err, "unmet expectations: 1") {
		t.Errorf("exit %d\n%s%s", r.code, r.out, r.err)
	}
	r = g.runBare("rules", "test", none, bad, filepath.Join(dir, "missing"))
	if r.code != cli.ExitUsage || !strings.Contains(r.out, "NOT RUN  "+none) ||
		!strings.Contains(r.out, "FAILED   "+bad) || !strings.Contains(r.err, none+":") {
		t.Errorf("exit %d\n%s%s", r.code, r.out, r.err)
	}
	var reply struct {
		Passed bool
		Files  []struct {
			File, Error string
			Tests       int
			Failed      []string
		}
	}
	r = g.runBare("rules", "test", bad, "--json")
	dec := json.NewDecoder(strings.NewReader(r.out))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&reply); err != nil || r.code != cli.ExitUnexpected || reply.Passed || len(reply.Files) != 1 ||
		len(reply.Files[0].Failed) != 1 {
		t.Errorf("exit %d, %+v, %v", r.code, reply, err)
	}
	g.runBare("rules", "test").want(t, cli.ExitUsage, "", "--help")
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
	if r := g.runBare("rules", "export", "--format", "prometheus"); r.code != 0 ||
		!strings.Contains(r.out, "alert: HeadgateQueueAge") {
		t.Errorf("exit %d\n%s%s", r.code, r.out, r.err)
	}
	g.runBare("rules", "export", "--format", "toml").want(t, cli.ExitUsage, "", "--format must be yaml or prometheus")
	g.runBare("rules", "export", "x").want(t, cli.ExitUsage, "", "--help")
}

const botToken = "xoxb-made-up-for-tests"

// slackSettings writes settings that lead to a server, and returns their path.
func slackSettings(t *testing.T, url string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "headgate.yaml")
	text := fmt.Sprintf(`
pools: [{name: a, upstream: "http://127.0.0.1:9/v1"}]
slack: {bot_token: %q, api_url: %q, channels: {page: C0000000001, warn: C0000000002}}
`, botToken, url)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

type checksReply struct {
	Passed bool `json:"passed"`
	Checks []struct {
		Hint string `json:"hint"`
	} `json:"checks"`
}

func TestAlertsTest(t *testing.T) {
	g := newTestEnv(t)
	fake := fakeslack.New(fakeslack.Options{Token: botToken})
	fake.SetChannel(fakeslack.Channel{ID: "C0000000001", Name: "incidents", Member: true})
	fake.SetChannel(fakeslack.Channel{ID: "C0000000002", Name: "warnings", Member: true})
	server := httptest.NewServer(fake)
	defer server.Close()
	path := slackSettings(t, server.URL+"/api/")
	r := g.runBare("alerts", "test", "--config", path)
	if r.code != 0 || !strings.HasPrefix(fields(r.out), "ok token ") || !strings.Contains(r.out, "page: post") ||
		strings.Contains(r.out, "FAILED") {
		t.Errorf("exit %d\n%s%s", r.code, r.out, r.err)
	}
	for _, channel := range []string{"C0000000001", "C0000000002"} {
		if left := fake.Messages(channel); len(left) != 0 {
			t.Errorf("left in %s: %+v", channel, left)
		}
	}
	fake.SetChannel(fakeslack.Channel{ID: "C0000000001", Name: "incidents"})
	r = g.runBare("alerts", "test", "--config", path)
	if r.code != cli.ExitFailed || !strings.Contains(r.out, "→ write /invite") ||
		!strings.Contains(r.err, "checks failed") {
		t.Errorf("not in a channel: exit %d\n%s%s", r.code, r.out, r.err)
	}
	server.Close()
	r = g.runBare("alerts", "test", "--config", path, "--json")
	var reply checksReply
	if err := json.Unmarshal([]byte(r.out), &reply); err != nil || r.code != cli.ExitFailed || reply.Passed ||
		len(reply.Checks) != 1 || reply.Checks[0].Hint == "" {
		t.Errorf("exit %d, %+v, %v", r.code, reply, err)
	}
	if !strings.Contains(r.err, "1 of 1 checks failed") || strings.Contains(r.out+r.err, botToken) {
		t.Errorf("stderr %q, stdout %q", r.err, r.out)
	}
}

func TestAlertsTestRefuses(t *testing.T) {
	g := newTestEnv(t)
	g.runBare("alerts", "test").want(t, cli.ExitUsage, "", "slack.bot_token is not set")
	g.runBare("alerts", "test", "x").want(t, cli.ExitUsage, "", "--help")
	g.runBare("alerts", "test", "--config", filepath.Join(t.TempDir(), "none.yaml")).want(t, cli.ExitUsage, "",
		"none.yaml")
	if r := g.runBare("alerts"); r.code != 0 || !strings.Contains(r.out, "test") {
		t.Errorf("exit %d, %s", r.code, r.out)
	}
	g.runBare("alerts", "tset").want(t, cli.ExitUsage, "", `unknown command "tset"`, "did you mean test?")
}
