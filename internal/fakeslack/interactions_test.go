package fakeslack_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slack-go/slack"

	"headgate/internal/fakeslack"
)

const secret = "shh"

// received is a request that an app got.
type received struct {
	header http.Header
	body   string
	valid  bool // by the verifier of the library that headgate uses
}

// callbackServer is an app that takes requests.
type callbackServer struct {
	mu       sync.Mutex
	requests []received
	answer   func(n int, w http.ResponseWriter, r *http.Request) // of the n-th, from 1; nil: an empty 200
}

func (a *callbackServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	raw, _ := io.ReadAll(r.Body)
	h := received{header: r.Header, body: string(raw)}
	if v, err := slack.NewSecretsVerifier(r.Header, secret); err == nil {
		_, _ = v.Write(raw)
		h.valid = v.Ensure() == nil
	}
	a.mu.Lock()
	a.requests = append(a.requests, h)
	n := len(a.requests)
	a.mu.Unlock()
	if a.answer != nil {
		a.answer(n, w, r)
	}
}

func (a *callbackServer) received() []received {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.requests
}

// receiveInteractions has interactions sent to an app over HTTP.
func receiveInteractions(t *testing.T, s *fakeslack.Server, a *callbackServer) {
	t.Helper()
	srv := httptest.NewServer(a)
	t.Cleanup(srv.Close)
	s.SetCallbacks(fakeslack.Callbacks{Interactivity: srv.URL + "/i", Commands: srv.URL + "/c", Secret: secret})
}

func label(s string) *slack.TextBlockObject {
	return slack.NewTextBlockObject("plain_text", s, false, false)
}

// withButtons posts a message with a button that asks first and one that does not.
func withButtons(t *testing.T, c *slack.Client, more ...slack.MsgOption) string {
	t.Helper()
	roll := slack.NewButtonBlockElement("rollback", `{"v":1,"pool":"main"}`, label("Roll back"))
	roll.Style = slack.StyleDanger
	roll.Confirm = slack.NewConfirmationBlockObject(label("Roll back main?"), label("Nobody is <refused> then."), label("Roll it back"), label("Keep it"))
	runbook := slack.NewButtonBlockElement("runbook", "", label("Runbook"))
	runbook.URL = "https://e.example/runbook"
	return postMessage(t, c, append(more, text("trouble"), slack.MsgOptionBlocks(
		slack.NewSectionBlock(label("trouble"), nil, nil),
		slack.NewActionBlock("buttons", slack.NewButtonBlockElement("ack", "one", label("Acknowledge")), roll, runbook),
	))...)
}

func TestPressRequest(t *testing.T) {
	s, c, _ := newFixture(t, fakeslack.Options{})
	var app callbackServer
	receiveInteractions(t, s, &app)
	root := postMessage(t, c, text("root"))
	ts := withButtons(t, c, slack.MsgOptionTS(root))
	r, err := s.Press(t.Context(), "C1", ts, "rollback", "U0ADA")
	if err != nil {
		t.Fatal(err)
	}
	if r.Via != "http" || r.Sent != 1 || r.Responses != 1 || r.Status != http.StatusOK || r.Action != "rollback" || r.User != "U0ADA" {
		t.Errorf("receipt %+v", r)
	}
	hits := app.received()
	if len(hits) != 1 || !hits[0].valid {
		t.Fatalf("%d requests, want one that is signed", len(hits))
	}
	form, err := url.ParseQuery(hits[0].body)
	if err != nil {
		t.Fatal(err)
	}
	var cb slack.InteractionCallback
	if err := json.Unmarshal([]byte(form.Get("payload")), &cb); err != nil {
		t.Fatal(err)
	}
	if cb.Type != slack.InteractionTypeBlockActions || cb.User.ID != "U0ADA" || cb.User.Name != "ada" || cb.User.TeamID != "T0FAKE" ||
		cb.APIAppID != "A0FAKE" || cb.Team.ID != "T0FAKE" || cb.Channel.ID != "C1" || cb.TriggerID != r.TriggerID || cb.TriggerID == "" {
		t.Errorf("callback %+v", cb)
	}
	if cb.Container.MessageTs != ts || cb.Container.ChannelID != "C1" || cb.Container.ThreadTs != root || cb.Message.Timestamp != ts || cb.Message.Text != "trouble" {
		t.Errorf("container %+v, message %+v", cb.Container, cb.Message.Msg)
	}
	if a := cb.ActionCallback.BlockActions; len(a) != 1 || a[0].ActionID != "rollback" || a[0].BlockID != "buttons" ||
		a[0].Value != `{"v":1,"pool":"main"}` || a[0].ActionTs == "" || a[0].Text.Text != "Roll back" {
		t.Errorf("actions %+v", a)
	}
}

func TestCommandRequest(t *testing.T) {
	s, _, _ := newFixture(t, fakeslack.Options{})
	app := callbackServer{answer: func(n int, w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"response_type":"ephemeral","text":"all is well"}`)
	}}
	receiveInteractions(t, s, &app)
	if _, err := s.Command(t.Context(), "C1", "U0BEN", " /headgate rollback main  because "); err != nil {
		t.Fatal(err)
	}
	h := app.received()[0]
	req := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(h.body))
	req.Header = h.header
	cmd, err := slack.SlashCommandParse(req)
	if err != nil || !h.valid {
		t.Fatalf("valid %v, %v", h.valid, err)
	}
	if cmd.Command != "/headgate" || cmd.Text != "rollback main  because" || cmd.UserID != "U0BEN" || cmd.UserName != "ben" ||
		cmd.ChannelID != "C1" || cmd.ChannelName != "ops" || cmd.TeamID != "T0FAKE" || cmd.APIAppID != "A0FAKE" || cmd.TriggerID == "" {
		t.Errorf("command %+v", cmd)
	}
	if w := s.Ephemerals("C1", "U0BEN"); len(w) != 1 || w[0].Text != "all is well" {
		t.Errorf("ben was shown %+v", w)
	}
	if w := s.Ephemerals("C1", "U0ADA"); len(w) != 0 || len(s.Messages("C1")) != 0 {
		t.Errorf("others were shown it too: %+v", w)
	}
}

func TestInvalidInteractions(t *testing.T) {
	s, c, _ := newFixture(t, fakeslack.Options{})
	ts := withButtons(t, c)
	for _, tt := range []struct {
		channel, ts, action, user string
		want                      error
	}{
		{"C9", ts, "ack", "U0ADA", fakeslack.ErrNoChannel},
		{"C1", "1.0", "ack", "U0ADA", fakeslack.ErrNoMessage},
		{"C1", ts, "explode", "U0ADA", fakeslack.ErrNoButton},
		{"C1", ts, "ack", "U0STRANGE", fakeslack.ErrNoUser},
		{"C1", ts, "ack", "U0ADA", fakeslack.ErrNoSocket},
	} {
		if _, err := s.Press(t.Context(), tt.channel, tt.ts, tt.action, tt.user); !errors.Is(err, tt.want) {
			t.Errorf("press %s of %s in %s by %s: %v, want %v", tt.action, tt.ts, tt.channel, tt.user, err, tt.want)
		}
	}
	for _, line := range []string{"", "/", "headgate status", "/" + strings.Repeat("x", 4000)} {
		if _, err := s.Command(t.Context(), "C1", "U0ADA", line); !errors.Is(err, fakeslack.ErrNoCommand) {
			t.Errorf("%.20q was taken for a command: %v", line, err)
		}
	}
	if w := s.Ephemerals("C1", "U0ADA"); len(w) != 1 || w[0].Author != "Slackbot" || !strings.Contains(w[0].Text, "Acknowledge") {
		t.Errorf("who pressed without an app was shown %+v", w)
	}
	if r := s.Receipts(); len(r) != 1 || r[0].Error != fakeslack.ErrNoSocket.Error() {
		t.Errorf("receipts %+v", r)
	}
}

func TestInteractionFaults(t *testing.T) {
	refuseOnce := func(n int, w http.ResponseWriter, _ *http.Request) {
		if n == 1 {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}
	tests := []struct {
		name   string
		fault  fakeslack.Fault
		answer func(int, http.ResponseWriter, *http.Request)
		want   func(hits []received, r fakeslack.Receipt, err error) bool
	}{
		{"none", fakeslack.Fault{Method: "chat.update"}, refuseOnce, func(h []received, r fakeslack.Receipt, err error) bool {
			return len(h) == 1 && errors.Is(err, fakeslack.ErrBadResponse) && r.Status == 500 && r.Responses == 0
		}},
		{"twice", fakeslack.Fault{Kind: fakeslack.Duplicated}, nil, func(h []received, r fakeslack.Receipt, err error) bool {
			return len(h) == 2 && h[0].body == h[1].body && h[0].valid && err == nil && r.Sent == 2 && r.Responses == 2 &&
				h[0].header.Get("X-Slack-Signature") == h[1].header.Get("X-Slack-Signature")
		}},
		{"retried", fakeslack.Fault{Kind: fakeslack.Retried}, refuseOnce, func(h []received, r fakeslack.Receipt, err error) bool {
			return len(h) == 2 && h[0].body == h[1].body && h[1].valid && err == nil && r.Responses == 1 &&
				h[0].header.Get("X-Slack-Retry-Num") == "" && h[1].header.Get("X-Slack-Retry-Num") == "1"
		}},
		{"retried in vain", fakeslack.Fault{Kind: fakeslack.Retried}, func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) },
			func(h []received, _ fakeslack.Receipt, err error) bool { return len(h) == 4 && err != nil }},
		{"forged", fakeslack.Fault{Kind: fakeslack.Forged}, nil, invalid},
		{"tampered", fakeslack.Fault{Kind: fakeslack.Tampered}, nil, invalid},
		{"too old", fakeslack.Fault{Kind: fakeslack.Backdated, Delay: 6 * time.Minute}, nil, invalid},
		{"of the future", fakeslack.Fault{Kind: fakeslack.Backdated, Delay: -6 * time.Minute}, nil, invalid},
		{"a little old", fakeslack.Fault{Kind: fakeslack.Backdated, Delay: time.Minute}, nil,
			func(h []received, _ fakeslack.Receipt, err error) bool {
				return len(h) == 1 && h[0].valid && err == nil
			}},
		{"unsigned", fakeslack.Fault{Kind: fakeslack.Unsigned}, nil, func(h []received, r fakeslack.Receipt, err error) bool {
			return invalid(h, r, err) && h[0].header.Get("X-Slack-Signature") == ""
		}},
		{"late", fakeslack.Fault{Kind: fakeslack.Slow, Delay: 50 * time.Millisecond}, nil,
			func(h []received, r fakeslack.Receipt, err error) bool {
				return len(h) == 1 && err == nil && r.Duration >= 50*time.Millisecond
			}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, c, _ := newFixture(t, fakeslack.Options{})
			app := callbackServer{answer: tt.answer}
			receiveInteractions(t, s, &app)
			ts := withButtons(t, c)
			if tt.fault.Method == "" {
				tt.fault.Method = "block_actions"
			}
			s.Inject(tt.fault)
			r, err := s.Press(t.Context(), "C1", ts, "ack", "U0ADA")
			if !tt.want(app.received(), r, err) {
				t.Errorf("%d requests, receipt %+v, %v", len(app.received()), r, err)
			}
		})
	}
}

func invalid(h []received, _ fakeslack.Receipt, _ error) bool { return len(h) == 1 && !h[0].valid }

func TestGeneralFaultsSpareInteractions(t *testing.T) {
	s, c, _ := newFixture(t, fakeslack.Options{})
	var app callbackServer
	receiveInteractions(t, s, &app)
	ts := withButtons(t, c)
	s.Inject(fakeslack.Fault{Kind: fakeslack.Duplicated})
	if r, err := s.Press(t.Context(), "C1", ts, "ack", "U0ADA"); err != nil || r.Sent != 1 {
		t.Errorf("a fault that names no method hit a press: %+v, %v", r, err)
	}
}

func TestResponseTimeout(t *testing.T) {
	s, c, _ := newFixture(t, fakeslack.Options{ResponseTimeout: 20 * time.Millisecond})
	app := callbackServer{answer: func(_ int, _ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }}
	receiveInteractions(t, s, &app)
	ts := withButtons(t, c)
	if _, err := s.Press(t.Context(), "C1", ts, "ack", "U0ADA"); !errors.Is(err, fakeslack.ErrNoResponse) {
		t.Errorf("got %v", err)
	}
	if w := s.Ephemerals("C1", "U0ADA"); len(w) != 1 || !strings.Contains(w[0].Text, "did not answer") {
		t.Errorf("the user was shown %+v", w)
	}
}

func TestChangedInteraction(t *testing.T) {
	s, c, _ := newFixture(t, fakeslack.Options{})
	var app callbackServer
	receiveInteractions(t, s, &app)
	ts := withButtons(t, c)
	i, err := s.PressInteraction("C1", ts, "ack", "U0ADA")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := c.UpdateMessage("C1", ts, text("over")); err != nil {
		t.Fatal(err)
	}
	i.Team, i.Action.Value = "T0OTHER", "something else"
	for range 2 {
		if _, err := s.Deliver(t.Context(), i); err != nil {
			t.Fatal(err)
		}
	}
	h := app.received()
	if len(h) != 2 || h[0].body != h[1].body || !h[1].valid {
		t.Fatalf("%d requests, not the same callback twice", len(h))
	}
	form, _ := url.ParseQuery(h[0].body)
	for _, want := range []string{`"T0OTHER"`, `"something else"`, `"trouble"`} {
		if !strings.Contains(form.Get("payload"), want) {
			t.Errorf("the payload lacks %s: %s", want, form.Get("payload"))
		}
	}
}

func TestAwaitReceipts(t *testing.T) {
	s, c, _ := newFixture(t, fakeslack.Options{})
	var app callbackServer
	receiveInteractions(t, s, &app)
	ts := withButtons(t, c)
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() {
			if _, err := s.Press(t.Context(), "C1", ts, "ack", "U0ADA"); err != nil {
				t.Error(err)
			}
		})
	}
	if err := s.AwaitReceipts(t.Context(), 5); err != nil || len(s.Receipts()) != 5 {
		t.Errorf("%d receipts, %v", len(s.Receipts()), err)
	}
	wg.Wait()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.AwaitReceipts(ctx, 6); !errors.Is(err, context.Canceled) {
		t.Errorf("waiting in vain: %v", err)
	}
}

// fakeClock is a clock that tests move.
type fakeClock struct {
	mu sync.Mutex
	at time.Time
}

func (c *fakeClock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *fakeClock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// respond posts to a response URL, and returns the error that it answers with.
func respond(t *testing.T, srv *httptest.Server, url, body string) string {
	t.Helper()
	resp, err := srv.Client().Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode == http.StatusOK {
		return ""
	}
	return strings.TrimSpace(string(raw))
}

// callAs is a call without the right token, for another host.
func callAs(t *testing.T, srv *httptest.Server, host string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL+"/api/auth.test?token=wrong", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = host
	resp, err := srv.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
}

func TestResponseURLs(t *testing.T) {
	s, c, srv := newFixture(t, fakeslack.Options{})
	ts := withButtons(t, c)
	callAs(t, srv, "evil.example")
	i, err := s.PressInteraction("C1", ts, "ack", "U0ADA")
	if err != nil || !strings.HasPrefix(i.ResponseURL, srv.URL+"/actions/T0FAKE/") {
		t.Fatal(i.ResponseURL, err)
	}
	for _, tt := range []struct{ body, want string }{
		{`{"text":"only ada"}`, ""},
		{`{"text":"everybody","response_type":"in_channel"}`, ""},
		{`{"text":"acknowledged","replace_original":true}`, ""},
		{`{}`, "no_text"}, // counts as well
		{`{"delete_original":true}`, ""},
		{`{"text":"once too often"}`, "used_url"},
	} {
		got := respond(t, srv, i.ResponseURL, tt.body)
		if !strings.Contains(got, tt.want) || (tt.want == "") != (got == "") {
			t.Errorf("%s: answered %q, want %q", tt.body, got, tt.want)
		}
		if m := s.Messages("C1")[0]; tt.want == "" && strings.Contains(tt.body, "replace") && (m.Text != "acknowledged" || len(m.Versions) != 1) {
			t.Errorf("replaced by %+v", m)
		}
	}
	if w := s.Ephemerals("C1", "U0ADA"); len(w) != 1 || w[0].Text != "only ada" || w[0].OnlyFor != "U0ADA" {
		t.Errorf("ada was shown %+v", w)
	}
	if m := s.Messages("C1"); len(m) != 1 || m[0].Text != "everybody" {
		t.Errorf("the channel has %+v", m)
	}
	if got := respond(t, srv, srv.URL+"/actions/T0FAKE/made-up", `{"text":"x"}`); got == "" {
		t.Error("a made-up URL was taken")
	}
}

func TestResponseURLsExpire(t *testing.T) {
	clock := &fakeClock{at: time.Unix(1_767_225_600, 0)}
	s, c, srv := newFixture(t, fakeslack.Options{Now: clock.now})
	if _, err := c.AuthTestContext(t.Context()); err != nil { // from here on it knows its address
		t.Fatal(err)
	}
	i, err := s.CommandInteraction("C1", "U0BEN", "/headgate status")
	if err != nil {
		t.Fatal(err)
	}
	clock.advance(30 * time.Minute)
	if got := respond(t, srv, i.ResponseURL, `{"text":"just in time"}`); got != "" {
		t.Errorf("after half an hour: %s", got)
	}
	clock.advance(time.Second)
	if got := respond(t, srv, i.ResponseURL, `{"text":"late"}`); !strings.Contains(got, "expired_url") {
		t.Errorf("later: %q", got)
	}
}

func TestResponseURLFaults(t *testing.T) {
	s, _, srv := newFixture(t, fakeslack.Options{})
	i, err := s.CommandInteraction("C1", "U0BEN", "/headgate status")
	if err != nil {
		t.Fatal(err)
	}
	s.Inject(fakeslack.Fault{Method: "response_url", Kind: fakeslack.ServerError, MaxHits: 1})
	for _, want := range []bool{false, true} {
		if got := respond(t, srv, srv.URL+i.ResponseURL, `{"text":"x"}`); (got == "") != want {
			t.Errorf("answered %q", got)
		}
	}
	if s.Count("response_url") != 2 {
		t.Errorf("%d calls", s.Count("response_url"))
	}
}

func TestEphemeralMessages(t *testing.T) {
	s, c, _ := newFixture(t, fakeslack.Options{})
	ts, err := c.PostEphemeralContext(t.Context(), "C1", "U0EVE", text("you may not"))
	if err != nil || ts == "" {
		t.Fatal(ts, err)
	}
	if w := s.Ephemerals("C1", "U0EVE"); len(w) != 1 || w[0].TS != ts {
		t.Errorf("eve was shown %+v", w)
	}
	h, err := c.GetConversationHistoryContext(t.Context(), &slack.GetConversationHistoryParameters{ChannelID: "C1"})
	if err != nil || len(h.Messages) != 0 {
		t.Errorf("history %+v, %v", h, err)
	}
	for _, tt := range []struct{ channel, user, want string }{
		{"C1", "U0STRANGE", "user_not_in_channel"}, {"C9", "U0EVE", "channel_not_found"}, {"C2", "U0EVE", "is_archived"},
	} {
		if _, err := c.PostEphemeralContext(t.Context(), tt.channel, tt.user, text("x")); err == nil || err.Error() != tt.want {
			t.Errorf("to %s in %s: %v, want %s", tt.user, tt.channel, err, tt.want)
		}
	}
}

func TestInvalidButtons(t *testing.T) {
	_, c, _ := newFixture(t, fakeslack.Options{})
	long := func(n int) string { return strings.Repeat("x", n) }
	for _, tt := range []struct{ name, elements, want string }{
		{"fine", `[{"type":"button","action_id":"a","text":{"type":"plain_text","text":"A"},"value":"` + long(2000) + `"}]`, ""},
		{"no text", `[{"type":"button","action_id":"a"}]`, "needs text"},
		{"long text", `[{"type":"button","text":{"type":"plain_text","text":"` + long(76) + `"}}]`, "at most 75"},
		{"long value", `[{"type":"button","text":{"type":"plain_text","text":"A"},"value":"` + long(2001) + `"}]`, "at most 2000"},
		{"odd style", `[{"type":"button","text":{"type":"plain_text","text":"A"},"style":"warning"}]`, "primary or danger"},
		{"twice", `[{"type":"button","action_id":"a","text":{"type":"plain_text","text":"A"}},{"type":"button","action_id":"a","text":{"type":"plain_text","text":"B"}}]`, "not unique"},
		{"long confirmation", `[{"type":"button","text":{"type":"plain_text","text":"A"},"confirm":{"title":{"text":"T"},"text":{"text":"` + long(301) + `"}}}]`, "at most 300"},
		{"long title", `[{"type":"button","text":{"type":"plain_text","text":"A"},"confirm":{"title":{"text":"` + long(101) + `"},"text":{"text":"x"}}}]`, "at most 100"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var blocks slack.Blocks
			if err := blocks.UnmarshalJSON([]byte(`[{"type":"actions","elements":` + tt.elements + `}]`)); err != nil {
				t.Fatal(err)
			}
			_, _, err := c.PostMessageContext(t.Context(), "C1", text("x"), slack.MsgOptionBlocks(blocks.BlockSet...))
			if tt.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			refused, ok := err.(slack.SlackErrorResponse)
			if !ok || refused.Err != "invalid_blocks" || !strings.Contains(strings.Join(refused.ResponseMetadata.Messages, " "), tt.want) {
				t.Errorf("got %#v, want it to say %s", err, tt.want)
			}
		})
	}
}
