package desk

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"headgate/e2e/rollback/rig"
)

// Desk is a gate, with the pool main, and the Slack that it tells.
type Desk struct {
	*rig.Rig
	Slack *Slack
}

// Setup is what a desk is made of.
type Setup struct {
	Rules    []Rule
	Upstream string   // without /v1; empty: nobody is there
	Workers  int      // default 1
	Pool     []string // more settings of the pool
	Top      string   // more settings
	Channels string   // more of slack.channels, beginning with a comma
	Hook     string   // URL of the webhook
	Slack    string   // more of slack, beginning with a comma
}

// Write puts the settings and the rules of a desk into a folder.
func (s Setup) Write(t testing.TB, dir string, slack *Slack) {
	t.Helper()
	upstream := s.Upstream
	if upstream == "" {
		upstream = rig.Nobody(t)
	}
	hook := ""
	if s.Hook != "" {
		hook = fmt.Sprintf(", webhook: %q", s.Hook)
	}
	WriteRules(t, dir, s.Rules...)
	top := s.Top + fmt.Sprintf("slack: {bot_token: %q, api_url: %q, channels: {page: %s%s}, mention: {page: %q}%s%s}\n",
		Token, slack.URL()+"/api/", Page, s.Channels, Mention, hook, s.Slack)
	top += fmt.Sprintf("rules: {file: %q}\n", filepath.Join(dir, rulesName))
	rig.Write(t, dir, top, rig.Pool("main", upstream, max(s.Workers, 1), s.Pool...))
}

// Open starts a gate at a new desk.
func (s Setup) Open(t testing.TB, slack *Slack) *Desk {
	t.Helper()
	dir := t.TempDir()
	s.Write(t, dir, slack)
	return Start(t, dir, slack)
}

// Start starts a gate in a folder that has settings.
func Start(t testing.TB, dir string, slack *Slack) *Desk {
	t.Helper()
	return &Desk{rig.Start(t, dir), slack}
}

// Turn sets the knob.
func (d *Desk) Turn(t testing.TB, from, to int) {
	t.Helper()
	rig.Replace(t, d.Dir, fmt.Sprintf("workers: %d\n", from), fmt.Sprintf("workers: %d\n", to))
	d.Reload(t)
}

// Evaluated waits until the rules have been evaluated so many times more.
func (d *Desk) Evaluated(t testing.TB, times int) {
	t.Helper()
	from := d.Count(t, "headgate_evaluation_seconds")
	Until(t, "the rules are evaluated", func() bool { return d.Count(t, "headgate_evaluation_seconds") >= from+times })
}

// Logged says whether the gate has logged a line with this text.
func (d *Desk) Logged(text string) bool { return strings.Contains(d.Stderr(), text) }
