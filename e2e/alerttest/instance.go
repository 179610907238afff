package alerttest

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"headgate/e2e/harness"
)

// Instance is a gate with the pool main, and the Slack that it notifies.
type Instance struct {
	*harness.Gate
	Slack *Slack
}

// Options configure an instance.
type Options struct {
	Rules    []Rule
	Upstream string   // without /v1; empty: nothing listens there
	Workers  int      // default 1
	Pool     []string // more settings of the pool
	Top      string   // more settings
	Channels string   // more of slack.channels, beginning with a comma
	Webhook  string   // URL of the webhook
	Slack    string   // more of slack, beginning with a comma
}

// WriteSettings writes the settings and the rules of an instance into a folder.
func (s Options) WriteSettings(t testing.TB, dir string, slack *Slack) {
	t.Helper()
	upstream := s.Upstream
	if upstream == "" {
		upstream = harness.UnusedURL(t)
	}
	hook := ""
	if s.Webhook != "" {
		hook = fmt.Sprintf(", webhook: %q", s.Webhook)
	}
	WriteRules(t, dir, s.Rules...)
	top := s.Top + fmt.Sprintf("slack: {bot_token: %q, api_url: %q, channels: {page: %s%s}, mention: {page: %q}%s%s}\n",
		Token, slack.URL()+"/api/", PageChannel, s.Channels, Mention, hook, s.Slack)
	top += fmt.Sprintf("rules: {file: %q}\n", filepath.Join(dir, rulesName))
	harness.WriteSettings(t, dir, top, harness.PoolSettings("main", upstream, max(s.Workers, 1), s.Pool...))
}

// Start starts an instance in a new folder.
func (s Options) Start(t testing.TB, slack *Slack) *Instance {
	t.Helper()
	dir := t.TempDir()
	s.WriteSettings(t, dir, slack)
	return Start(t, dir, slack)
}

// Start starts an instance in a folder that has settings.
func Start(t testing.TB, dir string, slack *Slack) *Instance {
	t.Helper()
	return &Instance{harness.StartIn(t, dir), slack}
}

// SetWorkers changes the number of workers by a reload.
func (d *Instance) SetWorkers(t testing.TB, from, to int) {
	t.Helper()
	harness.EditSettings(t, d.Dir(), fmt.Sprintf("workers: %d\n", from), fmt.Sprintf("workers: %d\n", to))
	d.Reload(t)
}

// AwaitEvaluations waits for a number of further evaluations of the rules.
func (d *Instance) AwaitEvaluations(t testing.TB, times int) {
	t.Helper()
	from := d.Metric(t, "headgate_evaluation_seconds")
	Eventually(t, "the rules are evaluated", func() bool { return d.Metric(t, "headgate_evaluation_seconds") >= from+times })
}

// Logged reports whether the log has this text.
func (d *Instance) Logged(text string) bool { return strings.Contains(d.Stderr(), text) }
