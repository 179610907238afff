package alerttest

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"headgate/e2e/rollbacktest"
)

// Instance is a gate, with the pool main, and the Slack that it tells.
type Instance struct {
	*rollbacktest.Instance
	Slack *Slack
}

// Options is what a desk is made of.
type Options struct {
	Rules    []Rule
	Upstream string   // without /v1; empty: nobody is there
	Workers  int      // default 1
	Pool     []string // more settings of the pool
	Top      string   // more settings
	Channels string   // more of slack.channels, beginning with a comma
	Webhook  string   // URL of the webhook
	Slack    string   // more of slack, beginning with a comma
}

// WriteSettings puts the settings and the rules of a desk into a folder.
func (s Options) WriteSettings(t testing.TB, dir string, slack *Slack) {
	t.Helper()
	upstream := s.Upstream
	if upstream == "" {
		upstream = rollbacktest.UnusedURL(t)
	}
	hook := ""
	if s.Webhook != "" {
		hook = fmt.Sprintf(", webhook: %q", s.Webhook)
	}
	WriteRules(t, dir, s.Rules...)
	top := s.Top + fmt.Sprintf("slack: {bot_token: %q, api_url: %q, channels: {page: %s%s}, mention: {page: %q}%s%s}\n",
		Token, slack.URL()+"/api/", PageChannel, s.Channels, Mention, hook, s.Slack)
	top += fmt.Sprintf("rules: {file: %q}\n", filepath.Join(dir, rulesName))
	rollbacktest.WriteSettings(t, dir, top, rollbacktest.PoolSettings("main", upstream, max(s.Workers, 1), s.Pool...))
}

// Start starts a gate at a new desk.
func (s Options) Start(t testing.TB, slack *Slack) *Instance {
	t.Helper()
	dir := t.TempDir()
	s.WriteSettings(t, dir, slack)
	return Start(t, dir, slack)
}

// Start starts a gate in a folder that has settings.
func Start(t testing.TB, dir string, slack *Slack) *Instance {
	t.Helper()
	return &Instance{rollbacktest.Start(t, dir), slack}
}

// SetWorkers sets the knob.
func (d *Instance) SetWorkers(t testing.TB, from, to int) {
	t.Helper()
	rollbacktest.EditSettings(t, d.Dir, fmt.Sprintf("workers: %d\n", from), fmt.Sprintf("workers: %d\n", to))
	d.Reload(t)
}

// AwaitEvaluations waits until the rules have been evaluated so many times more.
func (d *Instance) AwaitEvaluations(t testing.TB, times int) {
	t.Helper()
	from := d.Metric(t, "headgate_evaluation_seconds")
	Eventually(t, "the rules are evaluated", func() bool { return d.Metric(t, "headgate_evaluation_seconds") >= from+times })
}

// Logged says whether the gate has logged a line with this text.
func (d *Instance) Logged(text string) bool { return strings.Contains(d.Stderr(), text) }
