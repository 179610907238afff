package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"headgate/internal/config"
	"headgate/internal/fakeslack"
)

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
	Passed bool         `json:"passed"`
	Checks []alertCheck `json:"checks"`
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
	if r.code != 0 || !strings.HasPrefix(fields(r.out), "ok token ") || !strings.Contains(r.out, "page: post") || strings.Contains(r.out, "FAILED") {
		t.Errorf("exit %d\n%s%s", r.code, r.out, r.err)
	}
	for _, channel := range []string{"C0000000001", "C0000000002"} {
		if left := fake.Messages(channel); len(left) != 0 {
			t.Errorf("left in %s: %+v", channel, left)
		}
	}
	fake.SetChannel(fakeslack.Channel{ID: "C0000000001", Name: "incidents"})
	r = g.runBare("alerts", "test", "--config", path)
	if r.code != exitFailed || !strings.Contains(r.out, "→ write /invite") || !strings.Contains(r.err, "checks failed") {
		t.Errorf("not in a channel: exit %d\n%s%s", r.code, r.out, r.err)
	}
	server.Close()
	r = g.runBare("alerts", "test", "--config", path, "--json")
	var reply checksReply
	if err := json.Unmarshal([]byte(r.out), &reply); err != nil || r.code != exitFailed || reply.Passed || len(reply.Checks) != 1 || reply.Checks[0].Hint == "" {
		t.Errorf("exit %d, %+v, %v", r.code, reply, err)
	}
	if !strings.Contains(r.err, "1 of 1 checks failed") || strings.Contains(r.out+r.err, botToken) {
		t.Errorf("stderr %q, stdout %q", r.err, r.out)
	}
}

func TestAlertsTestRefuses(t *testing.T) {
	g := newTestEnv(t)
	g.runBare("alerts", "test").want(t, exitUsage, "", "slack.bot_token is not set")
	g.runBare("alerts", "test", "x").want(t, exitUsage, "", "--help")
	g.runBare("alerts", "test", "--config", filepath.Join(t.TempDir(), "none.yaml")).want(t, exitUsage, "", "none.yaml")
	if r := g.runBare("alerts"); r.code != 0 || !strings.Contains(r.out, "test") {
		t.Errorf("exit %d, %s", r.code, r.out)
	}
	g.runBare("alerts", "tset").want(t, exitUsage, "", `unknown command "tset"`, "did you mean test?")
}

// TestAlertsTestReports: each failure has its hint below it, and nothing that
// others wrote moves the cursor.
func TestAlertsTestReports(t *testing.T) {
	g := newTestEnv(t)
	g.environment.testAlerts = func(ctx context.Context, _ *config.Config) ([]alertCheck, error) {
		if _, bounded := ctx.Deadline(); !bounded {
			t.Error("the test has no bound in time")
		}
		return []alertCheck{
			{Name: "token", OK: true, Detail: "headgate in \x1b[2JTeam", Hint: "not shown"},
			{Name: "page: channel", Detail: "the bot is not in #ops", Hint: "write /invite @headgate"},
			{Name: "page: post", Detail: "not_in_channel"},
		}, nil
	}
	r := g.runBare("alerts", "test")
	r.want(t, exitFailed, "ok      token          headgate in \uFFFD[2JTeam\n"+
		"FAILED  page: channel  the bot is not in #ops\n"+
		"                       → write /invite @headgate\n"+
		"FAILED  page: post     not_in_channel\n", "2 of 3 checks failed")
}
