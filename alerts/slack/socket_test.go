package slack

import (
	"errors"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"headgate/internal/fakeslack"
)

// A socket that breaks is opened again, and what is pressed then arrives.
func TestSocketReconnects(t *testing.T) {
	for name, cut := range map[string]func(*fakeslack.Server){
		"dropped":            func(s *fakeslack.Server) { s.DropSockets() },
		"asked to reconnect": func(s *fakeslack.Server) { s.Disconnect("refresh_requested") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newInteractionFixture(t, fakeslack.Options{})
			s := l.overSocket()
			l.press(Rollback, "U0ADA")
			l.wantEphemeral("U0ADA", 1)
			if l.metric("headgate_slack_socket_connected") != 1 {
				t.Error("the metric says that there is no connection")
			}
			opened := l.slack.Count("apps.connections.open")
			cut(l.slack)
			l.waitFor("a new socket", func() bool { return l.slack.Count("apps.connections.open") > opened && s.connected.Load() })
			if err := l.slack.AwaitSockets(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
			l.press(Rollback, "U0ADA")
			l.wantEphemeral("U0ADA", 2)
		})
	}
}

// While Slack cannot be reached that is seen, and it is tried again until it can.
func TestSocketWaitsForSlack(t *testing.T) {
	t.Parallel()
	l := newInteractionFixture(t, fakeslack.Options{})
	s := l.overSocket()
	heal := l.slack.Inject(fakeslack.Fault{Method: "apps.connections.open", Kind: fakeslack.ServerError})
	l.slack.DropSockets()
	l.waitFor("it is seen", func() bool { return !s.connected.Load() && l.metric("headgate_slack_socket_connected") == 0 })
	heal()
	l.waitFor("it is back", s.connected.Load)
	l.press(Ack, "U0ADA")
	l.wantEphemeral("U0ADA", 1)
}

// A rejected token is tried again: Slack may accept it later.
func TestSocketWaitsForToken(t *testing.T) {
	t.Parallel()
	l := newInteractionFixture(t, fakeslack.Options{})
	s := l.overSocket()
	heal := l.slack.Inject(fakeslack.Fault{Method: "apps.connections.open", Kind: fakeslack.ErrorResponse, Error: "invalid_auth"})
	refused := l.slack.Count("apps.connections.open") + 2
	l.slack.DropSockets()
	l.waitFor("it is tried", func() bool { return l.slack.Count("apps.connections.open") >= refused })
	heal()
	l.waitFor("it is back", s.connected.Load)
}

// The socket breaks between a press and its answer: Slack shows the user an error,
// and a second press is harmless.
func TestSocketLostDuringPress(t *testing.T) {
	t.Parallel()
	l := newInteractionFixture(t, fakeslack.Options{})
	l.overSocket()
	heal := l.slack.Inject(fakeslack.Fault{Method: string(fakeslack.ButtonPress), Kind: fakeslack.DropBefore})
	if _, err := l.slack.Press(t.Context(), "C1", l.root.TS, actionPrefix+string(Rollback), "U0ADA"); err == nil {
		t.Fatal("the press arrived")
	}
	heal()
	l.waitFor("pressed again, as people do", func() bool {
		_, err := l.slack.Press(t.Context(), "C1", l.root.TS, actionPrefix+string(Rollback), "U0ADA")
		return err == nil
	})
	l.waitFor("it is done", func() bool { return len(l.executor.executed()) == 1 })
}

func TestInteractionOptions(t *testing.T) {
	l := newInteractionFixture(t, fakeslack.Options{})
	good := InteractionOptions{
		Bot: l.bot, Log: l.logs, AppToken: appToken, APIURL: l.srv.URL + "/api/", Listen: "127.0.0.1:0", SigningSecret: signing,
	}
	for name, tt := range map[string]struct {
		setting string // empty: none is to blame
		edit    func(*InteractionOptions)
	}{
		"a bot token":       {"app_token", func(o *InteractionOptions) { o.AppToken = token }},
		"a token in two":    {"app_token", func(o *InteractionOptions) { o.AppToken = "xapp-1 2" }},
		"an address alone":  {"app_token", func(o *InteractionOptions) { o.APIURL = l.srv.URL }},
		"no signing secret": {"signing_secret", func(o *InteractionOptions) { o.SigningSecret = "" }},
		"no user":           {"allow", func(o *InteractionOptions) { o.Allow = AllowList{Ack: {"ada"}} }},
		"no bot":            {"", func(o *InteractionOptions) { o.Bot = nil }},
	} {
		o := good
		o.Registerer = prometheus.NewRegistry()
		tt.edit(&o)
		_, err := NewInteractions(o)
		if err == nil {
			t.Errorf("%s: accepted", name)
			continue
		}
		wantNoSecret(t, name, err.Error())
		setting := &SettingError{}
		if errors.As(err, &setting); setting.Setting != tt.setting {
			t.Errorf("%s: the setting %q is to blame, want %q", name, setting.Setting, tt.setting)
		}
	}
	for token, want := range map[string]string{
		"xapp-1-A0FAKE-1-x": "A0FAKE", "xapp-test": "", "xapp-1-B0FAKE-1-x": "", "xoxb-1-A0FAKE-1": "", "": "",
	} {
		if got := appIDOfToken(token); got != want {
			t.Errorf("%s: %q", token, got)
		}
	}
}
