package fakeslack_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slack-go/slack"
	"go.uber.org/goleak"

	"headgate/internal/fakeslack"
	"headgate/internal/testkit"
)

const token = "xoxb-right"

// newFixture returns a Slack with channels, and a client of the library that headgate
// uses.
func newFixture(t *testing.T, o fakeslack.Options) (*fakeslack.Server, *slack.Client, *httptest.Server) {
	t.Helper()
	if o.Token == "" {
		o.Token = token
	}
	if o.ResponseTimeout == 0 {
		o.ResponseTimeout = testkit.Timeout(3 * time.Second)
	}
	s := fakeslack.New(o)
	s.SetChannel(fakeslack.Channel{ID: "C1", Name: "ops", Member: true, Secret: "hook"})
	s.SetChannel(fakeslack.Channel{ID: "C2", Name: "old", Member: true, Archived: true, Secret: "hook"})
	s.SetChannel(fakeslack.Channel{ID: "C3", Name: "elsewhere"})
	srv := httptest.NewServer(s)
	t.Cleanup(srv.Close)
	hc := &http.Client{Timeout: testkit.Timeout(5 * time.Second), Transport: &http.Transport{}}
	t.Cleanup(hc.CloseIdleConnections)
	return s, slack.New(token, slack.OptionAPIURL(srv.URL+"/api/"), slack.OptionHTTPClient(hc)), srv
}

func postMessage(t *testing.T, c *slack.Client, opts ...slack.MsgOption) string {
	t.Helper()
	_, ts, err := c.PostMessageContext(t.Context(), "C1", opts...)
	if err != nil || ts == "" {
		t.Fatalf("post: ts %q, %v", ts, err)
	}
	return ts
}

func text(s string) slack.MsgOption { return slack.MsgOptionText(s, false) }

func TestPostsEditsAndThreads(t *testing.T) {
	s, c, _ := newFixture(t, fakeslack.Options{})
	root := postMessage(t, c, text("one <!here>"), slack.MsgOptionMetadata(slack.SlackMetadata{
		EventType: "e", EventPayload: map[string]any{"n": 1},
	}))
	reply := postMessage(t, c, text("two"), slack.MsgOptionTS(root))
	wide := postMessage(t, c, text("three"), slack.MsgOptionTS(root), slack.MsgOptionBroadcast())
	if _, _, _, err := c.UpdateMessageContext(t.Context(), "C1", root, text("one, edited <@U123>")); err != nil {
		t.Fatal(err)
	}
	roots, replies := s.Roots("C1"), s.Replies("C1", root)
	if len(roots) != 1 || len(replies) != 2 {
		t.Fatalf("%d roots and %d replies, want 1 and 2", len(roots), len(replies))
	}
	if r := roots[0]; r.Text != "one, edited <@U123>" || len(r.Versions) != 1 || r.Versions[0].Text != "one <!here>" {
		t.Errorf("root: %+v", r)
	}
	if p := roots[0].Pings; len(p) != 1 || p[0] != "<!here>" {
		t.Errorf("pings: got %q, want only that of the post", p)
	}
	if replies[0].TS != reply || replies[1].TS != wide || !replies[1].Broadcast {
		t.Errorf("replies: %+v", replies)
	}
}

func TestDistinctTS(t *testing.T) {
	now := time.Unix(1_767_225_600, 0)
	_, c, _ := newFixture(t, fakeslack.Options{Now: func() time.Time { return now }})
	var mu sync.Mutex
	seen := make(map[string]bool)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			_, ts, err := c.PostMessage("C1", text("x"))
			mu.Lock()
			defer mu.Unlock()
			if err != nil || seen[ts] || !strings.HasPrefix(ts, "1767225600.0000") {
				t.Errorf("ts %q: %v", ts, err)
			}
			seen[ts] = true
		})
	}
	wg.Wait()
}

func TestHistory(t *testing.T) {
	_, c, _ := newFixture(t, fakeslack.Options{})
	var all []string
	for i := range 5 {
		all = append(all, postMessage(t, c, text(fmt.Sprint(i)), slack.MsgOptionMetadata(slack.SlackMetadata{
			EventType: "e", EventPayload: map[string]any{"n": i},
		})))
	}
	postMessage(t, c, text("in a thread"), slack.MsgOptionTS(all[0]))
	var got []string
	p := &slack.GetConversationHistoryParameters{ChannelID: "C1", Limit: 2, Oldest: all[0], IncludeAllMetadata: true}
	for {
		h, err := c.GetConversationHistoryContext(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range h.Messages {
			got = append(got, m.Timestamp)
			if m.Metadata.EventType != "e" {
				t.Errorf("no metadata in %+v", m)
			}
		}
		if !h.HasMore {
			break
		}
		p.Cursor = h.ResponseMetaData.NextCursor
	}
	if want := []string{all[4], all[3], all[2], all[1]}; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("history %v, want %v", got, want)
	}
	h, err := c.GetConversationHistoryContext(t.Context(), &slack.GetConversationHistoryParameters{
		ChannelID: "C1", Oldest: all[4], Latest: all[4], Inclusive: true,
	})
	if err != nil || len(h.Messages) != 1 || h.Messages[0].Metadata.EventType != "" {
		t.Errorf("one message without metadata: %+v, %v", h, err)
	}
}

func TestReplies(t *testing.T) {
	_, c, _ := newFixture(t, fakeslack.Options{})
	root := postMessage(t, c, text("root"))
	postMessage(t, c, text("a"), slack.MsgOptionTS(root))
	postMessage(t, c, text("b"), slack.MsgOptionTS(root))
	ms, _, _, err := c.GetConversationRepliesContext(t.Context(), &slack.GetConversationRepliesParameters{ChannelID: "C1", Timestamp: root})
	if err != nil || len(ms) != 3 || ms[0].Text != "root" || ms[2].Text != "b" {
		t.Errorf("%+v, %v", ms, err)
	}
	_, _, _, err = c.GetConversationRepliesContext(t.Context(), &slack.GetConversationRepliesParameters{ChannelID: "C1", Timestamp: "1.1"})
	if err == nil || err.Error() != "thread_not_found" {
		t.Errorf("error %v", err)
	}
}

func TestDeletedRoot(t *testing.T) {
	s, c, _ := newFixture(t, fakeslack.Options{})
	root := postMessage(t, c, text("root"))
	if !s.Delete("C1", root) || s.Delete("C1", root) {
		t.Error("deleting says whether the message was there")
	}
	if _, _, _, err := c.UpdateMessageContext(t.Context(), "C1", root, text("x")); err == nil || err.Error() != "message_not_found" {
		t.Errorf("update: %v", err)
	}
	_, _, m, err := c.PostMessageWithResponseContext(t.Context(), "C1", text("reply"), slack.MsgOptionTS(root))
	if err != nil || m.ThreadTimestamp != "" {
		t.Errorf("a reply to nothing: thread %q, %v; want a message without a thread", m.ThreadTimestamp, err)
	}
	if _, _, err := c.DeleteMessageContext(t.Context(), "C1", m.Timestamp); err != nil || len(s.Messages("C1")) != 0 {
		t.Errorf("deleting: %v, %d left", err, len(s.Messages("C1")))
	}
}

func TestRefusals(t *testing.T) {
	long := strings.Repeat("x", 3001)
	section := func(s string) slack.Block {
		return slack.NewSectionBlock(slack.NewTextBlockObject("mrkdwn", s, false, false), nil, nil)
	}
	var many, heavy []slack.Block
	for range 51 {
		many = append(many, section("x"))
	}
	for range 4 {
		heavy = append(heavy, section(long[:2999]))
	}
	tests := []struct {
		name, channel string
		opts          []slack.MsgOption
		want          string
	}{
		{"unknown channel", "C9", []slack.MsgOption{text("x")}, "channel_not_found"},
		{"archived", "C2", []slack.MsgOption{text("x")}, "is_archived"},
		{"not a member", "C3", []slack.MsgOption{text("x")}, "not_in_channel"},
		{"nothing", "C1", nil, "no_text"},
		{"too long", "C1", []slack.MsgOption{text(strings.Repeat("x", 40_001))}, "msg_too_long"},
		{"a section too long", "C1", []slack.MsgOption{slack.MsgOptionBlocks(section(long))}, "invalid_blocks"},
		{"a header too long", "C1", []slack.MsgOption{slack.MsgOptionBlocks(
			slack.NewHeaderBlock(slack.NewTextBlockObject("plain_text", long[:151], false, false)))}, "invalid_blocks"},
		{"too many blocks", "C1", []slack.MsgOption{slack.MsgOptionBlocks(many...)}, "invalid_blocks"},
		{"all legal, together too long", "C1", []slack.MsgOption{slack.MsgOptionBlocks(heavy...)}, "msg_blocks_too_long"},
		{"one id twice", "C1", []slack.MsgOption{slack.MsgOptionBlocks(
			&slack.DividerBlock{Type: "divider", BlockID: "a"}, &slack.DividerBlock{Type: "divider", BlockID: "a"})}, "invalid_blocks"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, c, _ := newFixture(t, fakeslack.Options{})
			_, _, err := c.PostMessageContext(t.Context(), tt.channel, tt.opts...)
			if err == nil || err.Error() != tt.want {
				t.Fatalf("error %v, want %s", err, tt.want)
			}
			var se slack.SlackErrorResponse
			if tt.want == "invalid_blocks" && (!errors.As(err, &se) || len(se.ResponseMetadata.Messages) == 0) {
				t.Errorf("%v does not say why", err)
			}
			if n := len(s.Messages(tt.channel)); n != 0 {
				t.Errorf("%d messages, want none", n)
			}
		})
	}
}

func TestTokensAndScopes(t *testing.T) {
	_, _, srv := newFixture(t, fakeslack.Options{Scopes: []string{"chat:write"}})
	c := slack.New("xoxb-wrong", slack.OptionAPIURL(srv.URL+"/api/"))
	if _, err := c.AuthTestContext(t.Context()); err == nil || err.Error() != "invalid_auth" {
		t.Errorf("wrong token: %v", err)
	}
	c = slack.New(token, slack.OptionAPIURL(srv.URL+"/api/"))
	a, err := c.AuthTestContext(t.Context())
	if err != nil || a.Header.Get("X-Oauth-Scopes") != "chat:write" || a.UserID == "" {
		t.Errorf("auth.test: %+v, %v", a, err)
	}
	_, err = c.GetConversationHistoryContext(t.Context(), &slack.GetConversationHistoryParameters{ChannelID: "C1"})
	var se slack.SlackErrorResponse
	if !errors.As(err, &se) || se.Err != "missing_scope" || se.Needed != "channels:history" || se.Provided != "chat:write" {
		t.Errorf("history without its scope: %+v", err)
	}
}

func TestInfo(t *testing.T) {
	_, c, _ := newFixture(t, fakeslack.Options{})
	ch, err := c.GetConversationInfoContext(t.Context(), &slack.GetConversationInfoInput{ChannelID: "C2"})
	if err != nil || ch.Name != "old" || !ch.IsArchived || !ch.IsMember {
		t.Errorf("%+v, %v", ch, err)
	}
}

func TestPostRatePerChannel(t *testing.T) {
	var mu sync.Mutex
	now := time.Unix(1_767_225_600, 0)
	s, c, _ := newFixture(t, fakeslack.Options{RateLimited: true, Now: func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		return now
	}})
	s.SetChannel(fakeslack.Channel{ID: "C4", Name: "other", Member: true})
	postMessage(t, c, text("one"))
	_, _, err := c.PostMessageContext(t.Context(), "C1", text("two"))
	var limited *slack.RateLimitedError
	if !errors.As(err, &limited) || limited.RetryAfter != time.Second {
		t.Fatalf("error %v, want a rate limit of 1 s", err)
	}
	if _, _, err := c.PostMessageContext(t.Context(), "C4", text("two")); err != nil {
		t.Errorf("another channel: %v", err)
	}
	mu.Lock()
	now = now.Add(time.Second)
	mu.Unlock()
	postMessage(t, c, text("two"))
}

func TestWebhooks(t *testing.T) {
	tests := []struct {
		path string
		msg  slack.WebhookMessage
		want int
	}{
		{"/services/C1/hook", slack.WebhookMessage{Text: "x"}, 200},
		{"/services/C1/hook", slack.WebhookMessage{}, 400},
		{"/services/C1/guess", slack.WebhookMessage{Text: "x"}, 404},
		{"/services/C3/", slack.WebhookMessage{Text: "x"}, 404},
		{"/services/C2/hook", slack.WebhookMessage{Text: "x"}, 410},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprint(tt.path, tt.want), func(t *testing.T) {
			s, _, srv := newFixture(t, fakeslack.Options{})
			err := slack.PostWebhookContext(t.Context(), srv.URL+tt.path, &tt.msg)
			var status slack.StatusCodeError
			switch {
			case tt.want == 200 && err != nil:
				t.Errorf("error %v", err)
			case tt.want != 200 && (!errors.As(err, &status) || status.Code != tt.want):
				t.Errorf("error %v, want status %d", err, tt.want)
			}
			if n := len(s.Messages("C1")); (n == 1) != (tt.want == 200) {
				t.Errorf("%d messages", n)
			}
		})
	}
}

func TestJSONArguments(t *testing.T) {
	s, _, srv := newFixture(t, fakeslack.Options{})
	body := `{"channel":"#ops","text":"hi","blocks":[{"type":"divider"}],"reply_broadcast":true}`
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL+"/api/chat.postMessage", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json; charset=utf-8")
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := srv.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var got struct{ OK bool }
	if err := json.NewDecoder(resp.Body).Decode(&got); err != nil || !got.OK {
		t.Fatalf("%+v, %v", got, err)
	}
	if ms := s.Messages("C1"); len(ms) != 1 || string(ms[0].Blocks) != `[{"type":"divider"}]` {
		t.Errorf("%+v", ms)
	}
}

func TestInvalidArguments(t *testing.T) {
	_, _, srv := newFixture(t, fakeslack.Options{})
	for _, form := range []url.Values{
		{}, {"token": {token}, "channel": {"C1"}, "cursor": {"-4"}}, {"token": {token}, "channel": {"C1"}, "cursor": {"x"}},
		{"token": {token}, "channel": {"C1"}, "blocks": {"{"}},
		{"token": {token}, "channel": {"C1"}, "ts": {""}, "text": {"x"}},
	} {
		for _, m := range []string{
			"auth.test", "chat.postMessage", "chat.update", "chat.delete", "conversations.history", "conversations.replies",
			"conversations.info", "no.such",
		} {
			resp, err := srv.Client().PostForm(srv.URL+"/api/"+m, form)
			if err != nil {
				t.Fatalf("%s %v: %v", m, form, err)
			}
			body, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			if resp.StatusCode != 200 || !json.Valid(body) {
				t.Errorf("%s %v: %d %s", m, form, resp.StatusCode, body)
			}
		}
	}
}

func TestConcurrentUse(t *testing.T) {
	s, c, _ := newFixture(t, fakeslack.Options{})
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Timeout(10*time.Second))
	defer cancel()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 10 {
				_, ts, _ := c.PostMessageContext(ctx, "C1", text("x"))
				_, _, _, _ = c.UpdateMessageContext(ctx, "C1", ts, text("y"))
				s.Messages("C1")
				s.Calls()
			}
		})
	}
	wg.Wait()
	if n := s.Count("chat.update"); n != 40 {
		t.Errorf("%d updates, want 40", n)
	}
}

// What the client library makes of each fault is what a sender has to live with.
func TestFaults(t *testing.T) {
	tests := []struct {
		name  string
		fault fakeslack.Fault
		check func(ts string, err error) bool
		done  int // messages that stand there nevertheless
	}{
		{"429 with Retry-After", fakeslack.Fault{Kind: fakeslack.TooManyRequests, RetryAfter: "7"}, func(_ string, err error) bool {
			var r *slack.RateLimitedError
			return errors.As(err, &r) && r.RetryAfter == 7*time.Second
		}, 0},
		{"429 without", fakeslack.Fault{Kind: fakeslack.TooManyRequests}, status(429), 0},
		{"429 with half a second", fakeslack.Fault{Kind: fakeslack.TooManyRequests, RetryAfter: "0.5"}, func(_ string, err error) bool {
			var r *slack.RateLimitedError
			return err != nil && !errors.As(err, &r) && strings.Contains(err.Error(), "ParseInt")
		}, 0},
		{"ratelimited in a 200", fakeslack.Fault{Kind: fakeslack.RateLimitedBody}, func(_ string, err error) bool {
			var r *slack.RateLimitedError
			return err != nil && !errors.As(err, &r) && err.Error() == "ratelimited"
		}, 0},
		{"500", fakeslack.Fault{Kind: fakeslack.ServerError}, status(500), 0},
		{"500 after", fakeslack.Fault{Kind: fakeslack.ErrorAfter}, status(500), 1},
		{"refused", fakeslack.Fault{Kind: fakeslack.ErrorResponse, Error: "account_inactive"}, func(_ string, err error) bool {
			return err != nil && err.Error() == "account_inactive"
		}, 0},
		{"{}", fakeslack.Fault{Kind: fakeslack.EmptyResponse}, silent, 0},
		{"{} after", fakeslack.Fault{Kind: fakeslack.EmptyAfter}, silent, 1},
		{"ok:false", fakeslack.Fault{Kind: fakeslack.NotOK}, silent, 0},
		{"not JSON", fakeslack.Fault{Kind: fakeslack.NotJSON}, failed, 0},
		{"dropped after", fakeslack.Fault{Kind: fakeslack.DropAfter}, failed, 1},
		{"dropped before", fakeslack.Fault{Kind: fakeslack.DropBefore}, failed, 0},
		{"slow", fakeslack.Fault{Kind: fakeslack.Slow, Delay: time.Millisecond}, func(ts string, err error) bool {
			return ts != "" && err == nil
		}, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, c, _ := newFixture(t, fakeslack.Options{})
			heal := s.Inject(tt.fault)
			_, ts, err := c.PostMessageContext(t.Context(), "C1", text("x"))
			if !tt.check(ts, err) {
				t.Errorf("ts %q, error %T %v", ts, err, err)
			}
			if n := len(s.Messages("C1")); n != tt.done {
				t.Errorf("%d messages, want %d", n, tt.done)
			}
			heal()
			postMessage(t, c, text("healed"))
		})
	}
}

func status(code int) func(string, error) bool {
	return func(_ string, err error) bool {
		var s slack.StatusCodeError
		return errors.As(err, &s) && s.Code == code
	}
}

func silent(ts string, err error) bool { return ts == "" && err == nil }

func failed(_ string, err error) bool { return err != nil }

func TestFaultSelection(t *testing.T) {
	s, c, _ := newFixture(t, fakeslack.Options{Seed: 1})
	hits := func(n int) (pattern string) {
		for range n {
			_, _, err := c.PostMessageContext(t.Context(), "C1", text("x"))
			if err != nil {
				pattern += "x"
			} else {
				pattern += "."
			}
		}
		return pattern
	}
	s.Inject(fakeslack.Fault{Method: "chat.postMessage", Kind: fakeslack.ServerError, Every: 3})
	if got := hits(7); got != "..x..x." {
		t.Errorf("every third: %s", got)
	}
	s.ClearFaults()
	s.Inject(fakeslack.Fault{Kind: fakeslack.ServerError, MaxHits: 2})
	if got := hits(4); got != "xx.." {
		t.Errorf("twice: %s", got)
	}
	s.ClearFaults()
	s.Inject(fakeslack.Fault{Method: "chat.update", Kind: fakeslack.ServerError})
	s.Inject(fakeslack.Fault{Channel: "C2", Kind: fakeslack.ServerError})
	if got := hits(2); got != ".." {
		t.Errorf("other methods and channels: %s", got)
	}
	s.ClearFaults()
	s.Inject(fakeslack.Fault{Kind: fakeslack.ServerError, Probability: 0.5})
	if n := strings.Count(hits(60), "x"); n < 15 || n > 45 {
		t.Errorf("%d of 60 by chance of a half", n)
	}
}

func TestPage(t *testing.T) {
	s, c, srv := newFixture(t, fakeslack.Options{})
	root := postMessage(t, c, text("plain"), slack.MsgOptionBlocks(
		slack.NewHeaderBlock(slack.NewTextBlockObject("plain_text", "<script>alert(1)</script>", false, false)),
		slack.NewSectionBlock(slack.NewTextBlockObject("mrkdwn",
			"*bold* `code` a&lt;b&gt; <!here> <javascript:alert(1)|x> <https://e.example/?a=1&amp;b=2|link> <!date^1^{time}|12:00 UTC>", false, false), nil, nil),
		slack.NewContextBlock("", slack.NewTextBlockObject("mrkdwn", "_since_ then", false, false)),
		slack.NewActionBlock("", slack.NewButtonBlockElement("a", "v", slack.NewTextBlockObject("plain_text", "Roll back", false, false)))))
	postMessage(t, c, text("in the thread"), slack.MsgOptionTS(root))
	s.SetChannel(fakeslack.Channel{ID: `C"><b>`, Name: `<i>`, Member: true})
	resp, err := srv.Client().Get(srv.URL + "/channel?channel=C1")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatal(resp.Status, err)
	}
	page := string(raw)
	for _, want := range []string{
		"&lt;script&gt;alert(1)", "<strong>bold</strong>", "<code>code</code>", "a&lt;b&gt;", "<mark>@here</mark>",
		`href="https://e.example/?a=1&amp;b=2"`, "12:00 UTC", "<em>since</em>", "Roll back", "in the thread",
		`http-equiv="refresh"`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	for _, bad := range []string{"<script", `href="javascript`, "<i>", "<b>"} {
		if strings.Contains(page, bad) {
			t.Errorf("the page has %s", bad)
		}
	}
}

// Whatever an app posts, the page shows it without giving it power, and its
// buttons can be pressed without harm.
func FuzzBlocks(f *testing.F) {
	f.Add(`[{"type":"actions","elements":[{"type":"button","action_id":"a","text":{"type":"plain_text","text":"A"},"confirm":{"text":{"text":"?"}}}]}]`)
	f.Add(`[{"type":"section","text":{"type":"mrkdwn","text":"<javascript:x|y>"},"accessory":{"type":"button","action_id":"a","url":"javascript:x","text":{"text":"<b>"}}}]`)
	f.Add(`[{"type":"context","elements":[{"type":"mrkdwn","text":"*_<@U0ADA>_*"}]},{"type":"header","text":{"type":"plain_text","text":"<script>"}}]`)
	f.Fuzz(func(t *testing.T, blocks string) {
		s := fakeslack.New(fakeslack.Options{})
		s.SetChannel(fakeslack.Channel{ID: "C1", Name: "ops", Member: true})
		send(t, s, "/api/chat.postMessage", url.Values{"token": {"x"}, "channel": {"C1"}, "text": {"t"}, "blocks": {blocks}})
		page := send(t, s, "/channel?channel=C1", nil)
		for _, bad := range []string{"<script", "<b>", `href="javascript`, "<style"} {
			if strings.Contains(strings.ToLower(page), bad) {
				t.Errorf("the page has %s:\n%s", bad, page)
			}
		}
		for _, m := range s.Messages("C1") {
			for _, action := range []string{"", "a"} {
				v := url.Values{"channel": {"C1"}, "as": {"U0ADA"}, "ts": {m.TS}, "action": {action}}
				if answer := send(t, s, "/press", v); strings.Contains(strings.ToLower(answer), "<script") {
					t.Errorf("pressed, it answers %s", answer)
				}
			}
		}
	})
}

// send asks without a network. Fields make it a POST.
func send(t *testing.T, s *fakeslack.Server, path string, fields url.Values) string {
	t.Helper()
	method := http.MethodGet
	if fields != nil {
		method = http.MethodPost
	}
	r := httptest.NewRequest(method, "http://127.0.0.1"+path, strings.NewReader(fields.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	if w.Code >= http.StatusInternalServerError {
		t.Errorf("%s: %d %s", path, w.Code, w.Body)
	}
	return w.Body.String()
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
