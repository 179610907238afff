package slack

import (
	"context"
	"io"
	"log/slog"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"
	"go.yaml.in/yaml/v3"

	"headgate/alerts"
	"headgate/internal/fakeslack"
)

const (
	signing  = "signing-secret"
	appToken = "xapp-1-A0FAKE-1-secret"
)

// fakeExecutor is a Executor under a test's control.
type fakeExecutor struct {
	mu       sync.Mutex
	commands []Command
	entries  []AuditEntry
	do       func(context.Context, Command) Response
	changed  chan struct{}
}

func (c *fakeExecutor) Execute(ctx context.Context, w Command) Response {
	c.mu.Lock()
	c.commands = append(c.commands, w)
	do := c.do
	c.mu.Unlock()
	if do == nil {
		return Response{Result: Done, Text: "Done by " + w.Actor + "."}
	}
	return do(ctx, w)
}

func (c *fakeExecutor) AppendAudit(_ context.Context, e AuditEntry) {
	c.mu.Lock()
	c.entries = append(c.entries, e)
	c.mu.Unlock()
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

func (c *fakeExecutor) executed() []Command {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.commands)
}

func (c *fakeExecutor) audited() []AuditEntry {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.entries)
}

// interactionFixture is a Slack with a bot whose messages have buttons, and interactions.
type interactionFixture struct {
	*fixture
	t            *testing.T
	executor     *fakeExecutor
	interactions *Interactions
	reg          *prometheus.Registry
	log          *strings.Builder
	logs         *slog.Logger
	root         alerts.Ref
}

// testAllowList allows ada all of it, and ben nothing.
func testAllowList() AllowList {
	return AllowList{Rollback: {"U0ADA", "U0EVE"}, Restore: {"U0ADA"}, Ack: {"U0ADA"}, Silence: {"U0ADA"}}
}

func newInteractionFixture(t *testing.T, o fakeslack.Options, edit ...func(*InteractionOptions)) *interactionFixture {
	t.Helper()
	l := &interactionFixture{
		fixture: newFixture(t, o), t: t, executor: &fakeExecutor{changed: make(chan struct{}, 1)}, reg: prometheus.NewRegistry(), log: &strings.Builder{},
	}
	t.Cleanup(l.slack.Close)
	var err error
	l.bot, err = New(Options{
		Token: token, APIURL: l.srv.URL + "/api/", Timeout: 2 * time.Second, Buttons: true,
		Channels: map[alerts.Destination]string{alerts.ToPage: "C1"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.bot.Close)
	l.logs = slog.New(slog.NewTextHandler(&syncWriter{w: l.log}, nil))
	ro := InteractionOptions{Bot: l.bot, Allow: testAllowList(), Registerer: l.reg, Log: l.logs}
	for _, f := range edit {
		f(&ro)
	}
	if l.interactions, err = NewInteractions(ro); err != nil {
		t.Fatal(err)
	}
	l.interactions.appID = appIDOfToken(appToken)
	if err := l.interactions.Start(l.executor); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := l.interactions.Stop(ctx); err != nil {
			t.Error(err)
		}
		wantNoSecret(t, "the log", l.log.String())
		for _, secret := range []string{signing, appToken} {
			if strings.Contains(l.log.String(), secret) {
				t.Errorf("the log shows %s", secret)
			}
		}
	})
	l.root = wantDelivered(t, l.bot.Send(t.Context(), attempted(withLoad), alerts.Ref{}, false))
	return l
}

// syncWriter is a log for several goroutines.
type syncWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *syncWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// overHTTP has Slack send what people do to a listener.
func (l *interactionFixture) overHTTP() *interactionFixture {
	l.t.Helper()
	q, err := newRequestHandler(signing, l.interactions)
	if err != nil {
		l.t.Fatal(err)
	}
	srv := httptest.NewServer(q)
	l.t.Cleanup(srv.Close)
	l.slack.SetCallbacks(fakeslack.Callbacks{
		Interactivity: srv.URL + InteractivityPath, Commands: srv.URL + CommandsPath, Secret: signing,
	})
	return l
}

// overSocket has Slack send it over a socket.
func (l *interactionFixture) overSocket() *socket {
	l.t.Helper()
	l.interactions.o.AppToken, l.interactions.o.APIURL, l.interactions.o.MaxBackoff = appToken, l.srv.URL+"/api/", time.Second
	s, err := newSocket(l.interactions)
	if err != nil {
		l.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.run(ctx)
	}()
	l.t.Cleanup(func() {
		cancel()
		<-done
		if s.connected.Load() {
			l.t.Error("connected after the end")
		}
	})
	l.waitFor("a socket", s.connected.Load)
	return s
}

// waitFor waits for a condition.
func (l *interactionFixture) waitFor(what string, holds func() bool) {
	l.t.Helper()
	for end := time.Now().Add(20 * time.Second); !holds(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			l.t.Fatalf("%s: not in time; %d commands, %d entries, log:\n%.3000s", what, len(l.executor.executed()), len(l.executor.audited()), l.log)
		}
	}
}

func (l *interactionFixture) press(a Action, user string) fakeslack.Receipt {
	l.t.Helper()
	r, err := l.slack.Press(l.t.Context(), "C1", l.root.TS, actionPrefix+string(a), user)
	if err != nil {
		l.t.Fatal(err)
	}
	return r
}

func (l *interactionFixture) command(user, line string) {
	l.t.Helper()
	if _, err := l.slack.Command(l.t.Context(), "C1", user, line); err != nil {
		l.t.Fatal(err)
	}
}

// wantEphemeral waits until a user has n ephemeral messages, and returns the latest.
func (l *interactionFixture) wantEphemeral(user string, n int) string {
	l.t.Helper()
	l.waitFor(user+" gets a response", func() bool { return len(l.slack.Ephemerals("C1", user)) >= n })
	all := l.slack.Ephemerals("C1", user)
	if len(all) > n {
		l.t.Errorf("%s was shown %d things: %+v", user, len(all), all)
	}
	return all[n-1].Text
}

func (l *interactionFixture) metric(name string) float64 {
	l.t.Helper()
	families, err := l.reg.Gather()
	if err != nil {
		l.t.Fatal(err)
	}
	sum := 0.0
	for _, f := range families {
		if f.GetName() == name {
			for _, m := range f.GetMetric() {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return sum
}

func (l *interactionFixture) rejected(why string) float64 {
	return testutil.ToFloat64(l.interactions.metrics.rejected.WithLabelValues(why))
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// manifest is what matters of an app's manifest.
type manifest struct {
	Features struct {
		Commands []struct{ Command, URL string } `yaml:"slash_commands"`
	} `yaml:"features"`
	OAuth struct {
		Scopes struct{ Bot []string }
	} `yaml:"oauth_config"`
	Settings struct {
		Interactivity struct {
			Enabled bool   `yaml:"is_enabled"`
			URL     string `yaml:"request_url"`
		}
		Socket bool `yaml:"socket_mode_enabled"`
	}
}

// An app that is made with the page's manifests can do what is asked of it.
func TestManifestsInDocs(t *testing.T) {
	page, err := os.ReadFile("../../docs/slack.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, way := range []string{"socket", "requests"} {
		_, rest, found := strings.Cut(string(page), "<!-- manifest "+way+" -->\n```yaml\n")
		text, _, ended := strings.Cut(rest, "```\n")
		var m manifest
		if err := yaml.Unmarshal([]byte(text), &m); err != nil || !found || !ended {
			t.Fatalf("%s: %v", way, err)
		}
		for _, scope := range []string{"chat:write", "channels:history", "groups:history", "channels:read", "groups:read", "commands"} {
			if !slices.Contains(m.OAuth.Scopes.Bot, scope) {
				t.Errorf("%s: the scope %s is missing", way, scope)
			}
		}
		if !m.Settings.Interactivity.Enabled || m.Settings.Socket != (way == "socket") || len(m.Features.Commands) != 1 || m.Features.Commands[0].Command != "/headgate" {
			t.Errorf("%s: %+v", way, m)
		}
		press, command := m.Settings.Interactivity.URL, m.Features.Commands[0].URL
		if way == "requests" && (!strings.HasSuffix(press, InteractivityPath) || !strings.HasSuffix(command, CommandsPath)) || way == "socket" && press+command != "" {
			t.Errorf("%s: %s, %s", way, press, command)
		}
	}
	for _, a := range Actions() {
		if a.NeedsPermission() && !strings.Contains(string(page), "`slack.allow."+string(a)+"`") {
			t.Errorf("the page does not say who may %s", a)
		}
	}
}
