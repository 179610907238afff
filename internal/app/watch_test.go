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

// busy fires when a task runs, as soon as rules may.
const busy = `rules:
  - name: busy
    signal: headgate_in_flight{pool="$pool"}
    unit: tasks
    warn: {at: 1, for: 5s}
    clear: {below: 1, for: 5s}
    summary: a worker is busy
    feel: nothing
    runbook: queue_age
`

// newSlack returns a Slack-shaped server with a channel, and its address.
func newSlack(t *testing.T) (*fakeslack.Server, string) {
	t.Helper()
	s := fakeslack.New(fakeslack.Options{})
	s.SetChannel(fakeslack.Channel{ID: "C0123456789", Name: "ops", Member: true})
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return s, server.URL + "/api/"
}

func withSlack(url string) func(*config.Config) {
	return func(c *config.Config) {
		c.Slack = config.Slack{
			BotToken: config.NewSecret("xoxb-test"), APIURL: url, Channels: config.Channels{Page: "C0123456789"},
		}
	}
}

// TestTroubleIsToldAndItsEnd goes all the way: a metric becomes a sample, a value,
// an incident and a message, which is edited when it is over.
func TestTroubleIsToldAndItsEnd(t *testing.T) {
	slack, url := newSlack(t)
	file := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(file, []byte(busy), 0o600); err != nil {
		t.Fatal(err)
	}
	r := newRig(t, func(c *config.Config) {
		withSlack(url)(c)
		c.Rules.File = file
	})
	answer := r.ask()
	r.eventually("the message is there", func() bool { return len(slack.Roots("C0123456789")) == 1 })
	if open := r.app.watch.engine.Incidents(); len(open) != 1 || open[0].Key.Rule != "busy" || open[0].Key.Pool != "default" {
		t.Errorf("incidents %+v", open)
	}
	close(r.model.release)
	<-answer
	r.eventually("the message says that it is over", func() bool {
		roots := slack.Roots("C0123456789")
		return len(roots) == 1 && strings.Contains(strings.ToLower(roots[0].Text), "resolved")
	})
}

// TestSlackThatIsNotThereStopsNothing: serving, refusing and going down do not
// wait for it.
func TestSlackThatIsNotThereStopsNothing(t *testing.T) {
	r := newRig(t, withSlack("http://127.0.0.1:1/api/"))
	close(r.model.release)
	if a := <-r.ask(); a.status != 200 {
		t.Fatalf("status %d (%v)", a.status, a.err)
	}
	if err := r.app.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if strings.Contains(r.logs.String(), "xoxb-test") {
		t.Error("the token is in the log")
	}
}

func TestUnwatchedTakesNoSamples(t *testing.T) {
	r := newRig(t, nil, Unwatched())
	if a := r.admin("/readyz"); a.status != 200 {
		t.Fatalf("status %d (%v)", a.status, a.err)
	}
	if r.app.watch != nil || strings.Contains(r.admin("/metrics").body, "headgate_samples_series") {
		t.Error("samples are taken")
	}
}

// TestDamagedSamplesStopNothing: what cannot be read is moved aside.
func TestDamagedSamplesStopNothing(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, samplesDir, "wal"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, samplesDir, "wal", "00000000"), []byte("not a segment"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := newRig(t, func(c *config.Config) { c.DataDir = dir }, func(a *App) { a.ephemeral = false })
	if err := r.app.watch.samples.Health().Err; err != nil {
		t.Errorf("samples are not well: %v", err)
	}
	if a := r.admin("/readyz"); a.status != 200 {
		t.Errorf("status %d (%v)", a.status, a.err)
	}
}
