package fakeslack_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slack-go/slack"

	"headgate/internal/fakeslack"
)

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

func TestFaultsOfResponseURLs(t *testing.T) {
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

func TestButtonsThatSlackRefuses(t *testing.T) {
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
