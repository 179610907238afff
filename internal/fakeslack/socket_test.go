package fakeslack_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/slack-go/slack"
	"github.com/slack-go/slack/socketmode"

	"headgate/internal/fakeslack"
	"headgate/internal/testkit"
)

const appToken = "xapp-right"

// The app gives a socket up that has been silent for so long.
var pingWithin = testkit.Timeout(2 * time.Second)

const pings = 100 * time.Millisecond

// socketApp is an app in Socket Mode, of the library that headgate uses.
type socketApp struct {
	mu     sync.Mutex
	events []socketmode.Event
}

// connectApp connects. The app answers everything at once, commands with words,
// unless silent.
func connectApp(t *testing.T, s *fakeslack.Server, srv *httptest.Server, silent bool) *socketApp {
	t.Helper()
	api := slack.New(token, slack.OptionAPIURL(srv.URL+"/api/"), slack.OptionAppLevelToken(appToken))
	app := socketmode.New(api, socketmode.OptionLog(log.New(io.Discard, "", 0)), socketmode.OptionPingInterval(pingWithin))
	ctx, stop := context.WithCancel(context.Background())
	f := &socketApp{}
	var wg sync.WaitGroup
	wg.Go(func() { _ = app.RunContext(ctx) })
	wg.Go(func() { f.listen(ctx, app, silent) })
	t.Cleanup(func() { stop(); s.Close(); wg.Wait() })
	if err := s.AwaitSockets(withTimeout(t), 1); err != nil {
		t.Fatal(err)
	}
	// A socket counts before the app has been greeted, and may be lost before that.
	await(t, "a greeting", func() bool { return len(f.eventsOf(socketmode.EventTypeHello)) > 0 })
	return f
}

func withTimeout(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Timeout(20*time.Second))
	t.Cleanup(cancel)
	return ctx
}

func (f *socketApp) listen(ctx context.Context, app *socketmode.Client, silent bool) {
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-app.Events:
			f.mu.Lock()
			f.events = append(f.events, e)
			f.mu.Unlock()
			if silent || e.Request == nil || e.Request.EnvelopeID == "" {
				continue
			}
			if e.Type == socketmode.EventTypeSlashCommand {
				_ = app.Ack(*e.Request, map[string]string{"text": "all is well"})
				continue
			}
			_ = app.Ack(*e.Request)
		}
	}
}

func (f *socketApp) eventsOf(kind socketmode.EventType) (out []socketmode.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range f.events {
		if e.Type == kind {
			out = append(out, e)
		}
	}
	return out
}

func TestSocketDelivery(t *testing.T) {
	s, c, srv := newFixture(t, fakeslack.Options{AppToken: appToken, PingInterval: pings})
	app := connectApp(t, s, srv, false)
	ts := withButtons(t, c)
	r, err := s.Press(t.Context(), "C1", ts, "ack", "U0ADA")
	if err != nil || r.Via != "socket" || r.Sent != 1 || r.Responses != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	if _, err := s.Command(t.Context(), "C1", "U0BEN", "/headgate status"); err != nil {
		t.Fatal(err)
	}
	presses, commands := app.eventsOf(socketmode.EventTypeInteractive), app.eventsOf(socketmode.EventTypeSlashCommand)
	if len(presses) != 1 || len(commands) != 1 {
		t.Fatalf("%d presses and %d commands", len(presses), len(commands))
	}
	cb := presses[0].Data.(slack.InteractionCallback)
	if cb.User.ID != "U0ADA" || cb.Container.MessageTs != ts || cb.ActionCallback.BlockActions[0].Value != "one" || presses[0].Request.AcceptsResponsePayload {
		t.Errorf("press %+v", cb)
	}
	cmd := commands[0].Data.(slack.SlashCommand)
	if cmd.Command != "/headgate" || cmd.Text != "status" || cmd.UserID != "U0BEN" || !commands[0].Request.AcceptsResponsePayload {
		t.Errorf("command %+v", cmd)
	}
	if w := s.Ephemerals("C1", "U0BEN"); len(w) != 1 || w[0].Text != "all is well" {
		t.Errorf("ben was shown %+v", w)
	}
}

func TestDuplicatedEnvelope(t *testing.T) {
	s, c, srv := newFixture(t, fakeslack.Options{PingInterval: pings})
	app := connectApp(t, s, srv, false)
	s.Inject(fakeslack.Fault{Method: "block_actions", Kind: fakeslack.Duplicated})
	r, err := s.Press(t.Context(), "C1", withButtons(t, c), "ack", "U0ADA")
	if err != nil || r.Sent != 2 || r.Responses != 2 {
		t.Fatalf("%+v, %v", r, err)
	}
	e := app.eventsOf(socketmode.EventTypeInteractive)
	if len(e) != 2 || e[0].Request.EnvelopeID != e[1].Request.EnvelopeID {
		t.Errorf("%d envelopes, or not the same", len(e))
	}
}

func TestSocketReconnects(t *testing.T) {
	for _, tt := range []struct {
		name string
		lose func(s *fakeslack.Server, ts string) error
		want error
	}{
		{"dropped", func(s *fakeslack.Server, _ string) error { s.DropSockets(); return nil }, nil},
		{"asked to refresh", func(s *fakeslack.Server, _ string) error { s.Disconnect("refresh_requested"); return nil }, nil},
		{"warned", func(s *fakeslack.Server, _ string) error { s.Disconnect("warning"); return nil }, nil},
		{"dropped before a press", pressDuring(fakeslack.DropBefore), fakeslack.ErrDropped},
		{"dropped after a press", pressDuring(fakeslack.DropAfter), fakeslack.ErrDropped},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, c, srv := newFixture(t, fakeslack.Options{PingInterval: pings})
			app := connectApp(t, s, srv, false)
			ts := withButtons(t, c)
			if err := tt.lose(s, ts); !errors.Is(err, tt.want) {
				t.Fatalf("got %v, want %v", err, tt.want)
			}
			await(t, "a second connection", func() bool { return len(app.eventsOf(socketmode.EventTypeHello)) >= 2 })
			if err := s.AwaitSockets(withTimeout(t), 1); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Press(t.Context(), "C1", ts, "ack", "U0ADA"); err != nil {
				t.Errorf("press afterwards: %v", err)
			}
		})
	}
}

func pressDuring(kind fakeslack.FaultKind) func(*fakeslack.Server, string) error {
	return func(s *fakeslack.Server, ts string) error {
		s.Inject(fakeslack.Fault{Method: "block_actions", Kind: kind, MaxHits: 1})
		_, err := s.Press(context.Background(), "C1", ts, "ack", "U0ADA")
		return err
	}
}

func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(testkit.Timeout(20 * time.Second)); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

func TestRefusedConnections(t *testing.T) {
	s, _, srv := newFixture(t, fakeslack.Options{PingInterval: pings})
	s.Inject(fakeslack.Fault{Method: "apps.connections.open", Kind: fakeslack.ServerError, MaxHits: 1})
	s.Inject(fakeslack.Fault{Method: "link", Kind: fakeslack.ServerError, MaxHits: 1})
	app := connectApp(t, s, srv, false)
	if n := len(app.eventsOf(socketmode.EventTypeConnectionError)); n != 2 {
		t.Errorf("%d failed connects, want 2", n)
	}
}

func TestSocketTimeout(t *testing.T) {
	s, c, srv := newFixture(t, fakeslack.Options{ResponseTimeout: 30 * time.Millisecond, PingInterval: pings})
	connectApp(t, s, srv, true)
	if _, err := s.Press(t.Context(), "C1", withButtons(t, c), "ack", "U0ADA"); !errors.Is(err, fakeslack.ErrNoResponse) {
		t.Errorf("got %v", err)
	}
}

func TestTokensAndTickets(t *testing.T) {
	s, c, srv := newFixture(t, fakeslack.Options{AppToken: appToken, PingInterval: pings})
	t.Cleanup(s.Close)
	open := func(tok string) error {
		_, _, err := slack.New(token, slack.OptionAPIURL(srv.URL+"/api/"), slack.OptionAppLevelToken(tok)).StartSocketModeContext(t.Context())
		return err
	}
	for tok, want := range map[string]string{appToken: "", "xapp-wrong": "invalid_auth", token: "not_allowed_token_type"} {
		got := ""
		if err := open(tok); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("opening with %s: %q, want %q", tok, got, want)
		}
	}
	if _, err := slack.New(appToken, slack.OptionAPIURL(srv.URL+"/api/")).AuthTestContext(t.Context()); err == nil {
		t.Error("an app token was taken for a bot's")
	}
	resp, err := srv.Client().Get(srv.URL + "/link/?ticket=made-up")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 403 {
		t.Errorf("a made-up ticket: %s", resp.Status)
	}
	_ = c
}

func TestSocketLimit(t *testing.T) {
	s, _, srv := newFixture(t, fakeslack.Options{PingInterval: pings})
	t.Cleanup(s.Close)
	api := slack.New(token, slack.OptionAPIURL(srv.URL+"/api/"), slack.OptionAppLevelToken(appToken))
	for n := 1; n <= 11; n++ {
		_, address, err := api.StartSocketModeContext(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		conn := dial(t, address)
		var first struct {
			Type, Reason string
			Num          int `json:"num_connections"`
		}
		_, raw, err := conn.ReadMessage()
		if err != nil || json.Unmarshal(raw, &first) != nil {
			t.Fatal(err, string(raw))
		}
		if n <= 10 && (first.Type != "hello" || first.Num != n) || n == 11 && (first.Type != "disconnect" || first.Reason != "too_many_websockets") {
			t.Errorf("socket %d began with %s", n, raw)
		}
	}
	if s.Sockets() != 10 {
		t.Errorf("%d sockets", s.Sockets())
	}
}

func TestInvalidAcknowledgements(t *testing.T) {
	s, c, srv := newFixture(t, fakeslack.Options{ResponseTimeout: 50 * time.Millisecond})
	t.Cleanup(s.Close)
	api := slack.New(token, slack.OptionAPIURL(srv.URL+"/api/"), slack.OptionAppLevelToken(appToken))
	_, address, err := api.StartSocketModeContext(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	conn := dial(t, address)
	for _, odd := range []string{"", "no JSON", "[]", `{"envelope_id":"unknown"}`, `{"envelope_id":7}`} {
		if err := conn.WriteMessage(1, []byte(odd)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Press(t.Context(), "C1", withButtons(t, c), "ack", "U0ADA"); !errors.Is(err, fakeslack.ErrNoResponse) {
		t.Errorf("got %v", err)
	}
	if s.Sockets() != 1 {
		t.Error("odd answers cost the socket")
	}
}

func dial(t *testing.T, address string) *websocket.Conn {
	t.Helper()
	conn, resp, err := websocket.DefaultDialer.DialContext(t.Context(), address, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	t.Cleanup(func() { conn.Close() })
	return conn
}

// A socket that the network has lost looks open for a while; the pings that do not
// come give it away.
func TestSilentSocket(t *testing.T) {
	s, c, srv := newFixture(t, fakeslack.Options{ResponseTimeout: 30 * time.Millisecond, PingInterval: pings})
	s.Inject(fakeslack.Fault{Method: "link", Kind: fakeslack.SilentSocket, MaxHits: 1})
	app := connectApp(t, s, srv, false)
	ts := withButtons(t, c)
	if r, err := s.Press(t.Context(), "C1", ts, "ack", "U0ADA"); !errors.Is(err, fakeslack.ErrNoResponse) || len(app.eventsOf(socketmode.EventTypeInteractive)) != 0 {
		t.Fatalf("something was heard: %+v, %v", r, err)
	}
	await(t, "a second connection", func() bool { return len(app.eventsOf(socketmode.EventTypeHello)) >= 2 })
	if err := s.AwaitSockets(withTimeout(t), 1); err != nil {
		t.Fatal(err)
	}
}
