package fakeslack_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/slack-go/slack"

	"headgate/internal/fakeslack"
)

// What the client library makes of each fault is what a sender has to live with.
func TestFaultsAsTheLibrarySeesThem(t *testing.T) {
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

func TestFaultsHitWhenTheyShould(t *testing.T) {
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
