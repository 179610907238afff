package app

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"headgate/internal/config"
	"headgate/internal/fakeslack"
)

// queueAgeRules fires when a task runs, as soon as rules may.
const queueAgeRules = `rules:
  - name: busy
    signal: headgate_in_flight{pool="$pool"}
    unit: tasks
    warn: {at: 1, for: 5s}
    clear: {below: 1, for: 5s}
    summary: a worker is busy
    impact: nothing
    runbook: queue_age
`

// newFakeSlack returns a Slack-shaped server with a channel, and its address.
func newFakeSlack(t *testing.T) (*fakeslack.Server, string) {
	t.Helper()
	s := fakeslack.New(fakeslack.Options{})
	s.SetChannel(fakeslack.Channel{ID: "C0123456789", Name: "ops", Member: true})
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return s, server.URL + "/api/"
}

func useFakeSlack(url string) func(*config.Config) {
	return func(c *config.Config) {
		c.Slack = config.Slack{
			BotToken: config.NewSecret("xoxb-test"), APIURL: url, Channels: config.Channels{Page: "C0123456789"},
		}
	}
}

// A metric becomes a sample, a value, an incident and a message, which is edited when the incident is over.
func TestIncidentNotifiedAndResolved(t *testing.T) {
	slack, url := newFakeSlack(t)
	file := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(file, []byte(queueAgeRules), 0o600); err != nil {
		t.Fatal(err)
	}
	r := newFixture(t, func(c *config.Config) {
		useFakeSlack(url)(c)
		c.Rules.File = file
	}, TimeScale(10))
	answer := r.sendChat()
	r.eventually("the message is there", func() bool { return len(slack.Roots("C0123456789")) == 1 })
	if open := r.app.monitor.engine.Incidents(); len(open) != 1 || open[0].Key.Rule != "busy" || open[0].Key.Pool != "default" {
		t.Errorf("incidents %+v", open)
	}
	close(r.upstream.release)
	<-answer
	r.eventually("the message says that it is over", func() bool {
		roots := slack.Roots("C0123456789")
		return len(roots) == 1 && strings.Contains(strings.ToLower(roots[0].Text), "resolved")
	})
}

// Serving and stopping do not wait for Slack.
func TestSlackUnavailable(t *testing.T) {
	r := newFixture(t, useFakeSlack("http://127.0.0.1:1/api/"))
	close(r.upstream.release)
	if a := <-r.sendChat(); a.status != 200 {
		t.Fatalf("status %d (%v)", a.status, a.err)
	}
	if err := r.app.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if strings.Contains(r.logs.String(), "xoxb-test") {
		t.Error("the token is in the log")
	}
}

func TestWithoutMonitoring(t *testing.T) {
	r := newFixture(t, nil, WithoutMonitoring())
	if a := r.getAdmin("/readyz"); a.status != 200 {
		t.Fatalf("status %d (%v)", a.status, a.err)
	}
	if r.app.monitor != nil || strings.Contains(r.getAdmin("/metrics").body, "headgate_samples_series") {
		t.Error("samples are taken")
	}
}

// TestCorruptSamplesDoNotBlockStart: what cannot be read is moved aside.
func TestCorruptSamplesDoNotBlockStart(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, samplesDir, "wal"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, samplesDir, "wal", "00000000"), []byte("not a segment"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := newFixture(t, func(c *config.Config) { c.DataDir = dir }, func(o *options) { o.ephemeral = false })
	if err := r.app.monitor.samples.Health().Err; err != nil {
		t.Errorf("samples are not well: %v", err)
	}
	if a := r.getAdmin("/readyz"); a.status != 200 {
		t.Errorf("status %d (%v)", a.status, a.err)
	}
}
