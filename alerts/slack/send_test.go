package slack

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/slack-go/slack"

	"headgate/alerts"
	"headgate/engine"
	"headgate/internal/fakeslack"
)

const (
	token = "xoxb-1-secret-token"
	hook  = "hook-secret"
)

// fixture is a Slack with a bot and a webhook in front of it.
type fixture struct {
	slack *fakeslack.Server
	srv   *httptest.Server
	bot   *Bot
	hook  *Webhook
}

func newFixture(t *testing.T, o fakeslack.Options) *fixture { return newFixtureOn(t, o, nil) }

// newFixtureOn is newFixture on a given network; nil: loopback.
func newFixtureOn(t *testing.T, o fakeslack.Options, network *memoryNetwork) *fixture {
	t.Helper()
	o.Token = token
	w := &fixture{slack: fakeslack.New(o)}
	var transport http.RoundTripper
	w.slack.SetChannel(fakeslack.Channel{ID: "C1", Name: "ops", Member: true})
	w.slack.SetChannel(fakeslack.Channel{ID: "C9", Name: "spare", Member: true, Secret: hook})
	w.srv = httptest.NewUnstartedServer(w.slack)
	if network != nil {
		w.srv.Listener.Close()
		w.srv.Listener = network
		transport = &http.Transport{DialContext: network.dial}
	}
	w.srv.Start()
	t.Cleanup(w.srv.Close)
	here, err := ParseMention("<!here>")
	if err != nil {
		t.Fatal(err)
	}
	w.bot, err = New(Options{
		Token: token, APIURL: w.srv.URL + "/api/", PageMention: here, Timeout: 2 * time.Second,
		Channels: map[alerts.Destination]string{alerts.ToPage: "C1"}, Transport: transport,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.bot.Close)
	w.hook, err = NewWebhook(WebhookOptions{
		URL: w.srv.URL + "/services/C9/" + hook, PageMention: here, Timeout: 2 * time.Second, Transport: transport,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.hook.Close)
	return w
}

// wantNoSecret fails if a text shows a secret.
func wantNoSecret(t *testing.T, what, s string) {
	t.Helper()
	for _, secret := range []string{token, hook} {
		if strings.Contains(s, secret) {
			t.Errorf("%s shows a secret: %s", what, s)
		}
	}
}

func wantDelivered(t *testing.T, a alerts.SendResult) alerts.Ref {
	t.Helper()
	if a.Outcome != alerts.Delivered || a.Ref.TS == "" {
		t.Fatalf("%+v, want that it arrived", a)
	}
	return a.Ref
}

func attempted(change ...func(*alerts.Delivery)) alerts.Delivery {
	d := sampleDelivery(change...)
	d.LastAttempt = time.Now()
	return d
}

func TestMessageLifecycle(t *testing.T) {
	w := newFixture(t, fakeslack.Options{})
	root := wantDelivered(t, w.bot.Send(t.Context(), attempted(), alerts.Ref{}, false))
	if root.Channel != "C1" {
		t.Errorf("channel: got %s, want C1", root.Channel)
	}
	edit := attempted(atEvent(engine.EventEscalated, alerts.Edit, time.Minute))
	if got := wantDelivered(t, w.bot.Send(t.Context(), edit, root, false)); got != root {
		t.Errorf("the edit stands at %v, want %v", got, root)
	}
	wantDelivered(t, w.bot.Send(t.Context(), attempted(atEvent(engine.EventEscalated, alerts.Reply, time.Minute)), root, false))
	wantDelivered(t, w.bot.Send(t.Context(), attempted(atEvent(engine.EventResolved, alerts.Edit, 5*time.Minute), resolved), root, false))
	wantDelivered(t, w.bot.Send(t.Context(), attempted(atEvent(engine.EventResolved, alerts.Reply, 5*time.Minute), resolved), root, false))

	roots, replies := w.slack.Roots("C1"), w.slack.Replies("C1", root.TS)
	if len(roots) != 1 || len(replies) != 2 {
		t.Fatalf("%d messages and %d replies, want 1 and 2", len(roots), len(replies))
	}
	if m := roots[0]; len(m.Versions) != 2 || !strings.Contains(m.Text, "RESOLVED") || m.Blocks == nil || len(m.Pings) != 1 {
		t.Errorf("the message: %+v", m)
	}
	if !replies[0].Broadcast || len(replies[0].Pings) != 1 || replies[1].Broadcast {
		t.Errorf("the replies: %+v", replies)
	}
	if !strings.Contains(string(roots[0].Metadata), `"incident":"`+edit.Incident) {
		t.Errorf("metadata %s", roots[0].Metadata)
	}
}

func TestOutcomes(t *testing.T) {
	refuse := func(code string) fakeslack.Fault { return fakeslack.Fault{Kind: fakeslack.ErrorResponse, Error: code} }
	type row struct {
		fault fakeslack.Fault
		want  alerts.Outcome
		after time.Duration
	}
	rows := map[string]row{
		"429 with Retry-After":     {fakeslack.Fault{Kind: fakeslack.TooManyRequests, RetryAfter: "7"}, alerts.RetryLater, 7 * time.Second},
		"429 with Retry-After 0":   {fakeslack.Fault{Kind: fakeslack.TooManyRequests, RetryAfter: "0"}, alerts.RetryLater, time.Second},
		"429 without":              {fakeslack.Fault{Kind: fakeslack.TooManyRequests}, alerts.RetryLater, defaultRetryAfter},
		"429 with half a second":   {fakeslack.Fault{Kind: fakeslack.TooManyRequests, RetryAfter: "0.5"}, alerts.RetryLater, defaultRetryAfter},
		"ratelimited in a 200":     {fakeslack.Fault{Kind: fakeslack.RateLimitedBody}, alerts.RetryLater, defaultRetryAfter},
		"500":                      {fakeslack.Fault{Kind: fakeslack.ServerError}, alerts.Ambiguous, 0},
		"500 after":                {fakeslack.Fault{Kind: fakeslack.ErrorAfter}, alerts.Ambiguous, 0},
		"403 of a proxy":           {fakeslack.Fault{Kind: fakeslack.Forbidden}, alerts.RetryLater, 0},
		"{}":                       {fakeslack.Fault{Kind: fakeslack.EmptyResponse}, alerts.Ambiguous, 0},
		"{} after":                 {fakeslack.Fault{Kind: fakeslack.EmptyAfter}, alerts.Ambiguous, 0},
		"ok:false without a code":  {fakeslack.Fault{Kind: fakeslack.NotOK}, alerts.Ambiguous, 0},
		"not JSON":                 {fakeslack.Fault{Kind: fakeslack.NotJSON}, alerts.Ambiguous, 0},
		"dropped before":           {fakeslack.Fault{Kind: fakeslack.DropBefore}, alerts.Ambiguous, 0},
		"dropped after":            {fakeslack.Fault{Kind: fakeslack.DropAfter}, alerts.Ambiguous, 0},
		"endless":                  {fakeslack.Fault{Kind: fakeslack.EndlessBody}, alerts.Ambiguous, 0},
		"blocks, and why":          {fakeslack.Fault{Kind: fakeslack.InvalidBlocks}, alerts.Malformed, 0},
		"a code of tomorrow":       {refuse("something_new"), alerts.RetryLater, 0},
		"a code as long as a book": {refuse(strings.Repeat("x", 100_000)), alerts.RetryLater, 0},
		"a code with the token":    {refuse("bad token " + token), alerts.RetryLater, 0},
	}
	for _, code := range strings.Fields("is_archived channel_not_found not_in_channel invalid_auth token_revoked account_inactive restricted_action missing_scope") {
		rows[code] = row{refuse(code), alerts.PermanentFailure, 0}
	}
	for _, code := range strings.Fields("invalid_blocks msg_too_long msg_blocks_too_long") {
		rows[code] = row{refuse(code), alerts.Malformed, 0}
	}
	for _, code := range strings.Fields("message_not_found cant_update_message edit_window_closed") {
		rows[code] = row{refuse(code), alerts.ThreadGone, 0}
	}
	for _, code := range strings.Fields("fatal_error internal_error") {
		rows[code] = row{refuse(code), alerts.Ambiguous, 0}
	}
	w := newFixture(t, fakeslack.Options{})
	root := wantDelivered(t, w.bot.Send(t.Context(), attempted(), alerts.Ref{}, false))
	for name, r := range rows {
		for _, kind := range []alerts.Kind{alerts.Post, alerts.Edit, alerts.Reply} {
			t.Run(name+"/"+string(kind), func(t *testing.T) {
				defer w.slack.Inject(r.fault)()
				at := root
				if kind == alerts.Post {
					at = alerts.Ref{}
				}
				a := w.bot.Send(t.Context(), attempted(func(d *alerts.Delivery) { d.Kind = kind }), at, false)
				if a.Outcome != r.want || a.RetryAfter != r.after || a.Reason == "" || len(a.Reason) > 1000 {
					t.Errorf("outcome %d after %s, want %d after %s; reason %.200q", a.Outcome, a.RetryAfter, r.want, r.after, a.Reason)
				}
				wantNoSecret(t, "the reason", a.Reason)
			})
		}
	}
}

func TestBlockRejectionReason(t *testing.T) {
	w := newFixture(t, fakeslack.Options{})
	w.slack.Inject(fakeslack.Fault{Kind: fakeslack.InvalidBlocks})
	a := w.bot.Send(t.Context(), attempted(), alerts.Ref{}, false)
	if !strings.Contains(a.Reason, "must be shorter than 3001") {
		t.Errorf("reason %q", a.Reason)
	}
}

func TestTimeout(t *testing.T) {
	w := newFixture(t, fakeslack.Options{})
	w.slack.Inject(fakeslack.Fault{Kind: fakeslack.SlowAfter, Delay: time.Hour})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	a := w.bot.Send(ctx, attempted(), alerts.Ref{}, false)
	if a.Outcome != alerts.Ambiguous {
		t.Errorf("%+v, want unknown: it was accepted", a)
	}
	wantNoSecret(t, "the reason", a.Reason)
	if ref, ok, err := w.find(t, attempted(), alerts.Ref{}); !ok || err != nil || ref.TS == "" {
		t.Errorf("not found though it stands there: %v %v", ref, err)
	}
}

// find looks with all faults gone.
func (w *fixture) find(t *testing.T, d alerts.Delivery, root alerts.Ref) (alerts.Ref, bool, error) {
	t.Helper()
	w.slack.ClearFaults()
	return w.bot.Lookup(t.Context(), d, root)
}

func TestConnectionFailureIsRetried(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dead := l.Addr().String()
	l.Close()
	for _, host := range []string{dead, "no-such-host.invalid"} {
		bot, err := New(Options{Token: token, APIURL: "http://" + host + "/api/", Channels: map[alerts.Destination]string{alerts.ToPage: "C1"}})
		if err != nil {
			t.Fatal(err)
		}
		defer bot.Close()
		a := bot.Send(t.Context(), attempted(), alerts.Ref{}, false)
		if a.Outcome != alerts.RetryLater || a.RetryAfter != 0 {
			t.Errorf("%s: %+v, want again", host, a)
		}
		wantNoSecret(t, "the reason", a.Reason)
		wh, err := NewWebhook(WebhookOptions{URL: "http://" + host + "/services/C9/" + hook})
		if err != nil {
			t.Fatal(err)
		}
		defer wh.Close()
		a = wh.Send(t.Context(), attempted(), alerts.Ref{}, false)
		if a.Outcome != alerts.RetryLater {
			t.Errorf("webhook at %s: %+v, want again", host, a)
		}
		wantNoSecret(t, "the webhook's reason", a.Reason)
	}
}

func TestLookup(t *testing.T) {
	w := newFixture(t, fakeslack.Options{})
	w.slack.Inject(fakeslack.Fault{Method: "chat.postMessage", Kind: fakeslack.DropAfter, MaxHits: 1})
	d := attempted()
	if a := w.bot.Send(t.Context(), d, alerts.Ref{}, false); a.Outcome != alerts.Ambiguous {
		t.Fatalf("%+v", a)
	}
	root, ok, err := w.find(t, d, alerts.Ref{})
	if err != nil || !ok || root != (alerts.Ref{Channel: "C1", TS: w.slack.Roots("C1")[0].TS}) {
		t.Fatalf("%v %v %v", root, ok, err)
	}
	for _, change := range []func(*alerts.Delivery){
		func(d *alerts.Delivery) { d.Seq++ },
		func(d *alerts.Delivery) { d.Kind = alerts.Edit },
		func(d *alerts.Delivery) { d.Incident = "another" },
	} {
		if ref, ok, err := w.find(t, attempted(change), alerts.Ref{}); ok || err != nil {
			t.Errorf("another delivery is found at %v: %v", ref, err)
		}
	}
	later := d
	later.LastAttempt = d.LastAttempt.Add(time.Hour)
	if ref, ok, err := w.find(t, later, alerts.Ref{}); ok || err != nil {
		t.Errorf("what stands there since long before is found at %v: %v", ref, err)
	}
	reply := attempted(atEvent(engine.EventAcked, alerts.Reply, time.Minute))
	if _, ok, err := w.find(t, reply, root); ok || err != nil {
		t.Errorf("a reply that was not sent: %v %v", ok, err)
	}
	sent := wantDelivered(t, w.bot.Send(t.Context(), reply, root, false))
	if ref, ok, err := w.find(t, reply, root); !ok || err != nil || ref != sent {
		t.Errorf("a reply that was: %v %v %v", ref, ok, err)
	}
	w.slack.Delete("C1", root.TS)
	if _, ok, err := w.find(t, reply, root); ok || err != nil {
		t.Errorf("a thread that is gone: %v %v", ok, err)
	}
}

func TestLookupPages(t *testing.T) {
	w := newFixture(t, fakeslack.Options{})
	d := attempted()
	want := wantDelivered(t, w.bot.Send(t.Context(), d, alerts.Ref{}, false))
	for range pageSize + 5 {
		if _, _, err := w.bot.api.PostMessage("C1", textOption("chat")); err != nil {
			t.Fatal(err)
		}
	}
	if ref, ok, err := w.find(t, d, alerts.Ref{}); !ok || err != nil || ref != want {
		t.Errorf("%v %v %v, want %v", ref, ok, err, want)
	}
}

func TestLookupEmptyResponse(t *testing.T) {
	tests := []struct {
		fault  fakeslack.Fault
		cannot bool
	}{
		{fakeslack.Fault{Kind: fakeslack.EmptyResponse}, false},
		{fakeslack.Fault{Kind: fakeslack.NotOK}, false},
		{fakeslack.Fault{Kind: fakeslack.ServerError}, false},
		{fakeslack.Fault{Kind: fakeslack.TooManyRequests}, false},
		{fakeslack.Fault{Kind: fakeslack.DropBefore}, false},
		{fakeslack.Fault{Kind: fakeslack.EndlessBody}, false},
		{fakeslack.Fault{Kind: fakeslack.ErrorResponse, Error: "missing_scope"}, true},
		{fakeslack.Fault{Kind: fakeslack.ErrorResponse, Error: "not_in_channel"}, true},
	}
	w := newFixture(t, fakeslack.Options{})
	root := wantDelivered(t, w.bot.Send(t.Context(), attempted(), alerts.Ref{}, false))
	for _, tt := range tests {
		for _, at := range []alerts.Ref{{}, root} {
			t.Run(fmt.Sprint(tt.fault.Kind, tt.fault.Error, at.TS == ""), func(t *testing.T) {
				defer w.slack.Inject(tt.fault)()
				_, ok, err := w.bot.Lookup(t.Context(), attempted(func(d *alerts.Delivery) { d.Kind = alerts.Reply }), at)
				if ok || err == nil || errors.Is(err, alerts.ErrLookupUnavailable) != tt.cannot {
					t.Fatalf("%v %v, want an error; ErrLookupUnavailable: %v", ok, err, tt.cannot)
				}
				wantNoSecret(t, "the error", err.Error())
			})
		}
	}
}

func TestStrayReplyIsDeleted(t *testing.T) {
	w := newFixture(t, fakeslack.Options{})
	root := wantDelivered(t, w.bot.Send(t.Context(), attempted(), alerts.Ref{}, false))
	w.slack.Delete("C1", root.TS)
	a := w.bot.Send(t.Context(), attempted(atEvent(engine.EventAcked, alerts.Reply, time.Minute)), root, false)
	if a.Outcome != alerts.ThreadGone {
		t.Errorf("%+v, want that the message is gone", a)
	}
	if ms := w.slack.Messages("C1"); len(ms) != 0 {
		t.Errorf("%d messages are left behind", len(ms))
	}
	if a := w.bot.Send(t.Context(), attempted(atEvent(engine.EventAcked, alerts.Edit, time.Minute)), root, false); a.Outcome != alerts.ThreadGone {
		t.Errorf("an edit of it: %+v", a)
	}
}

func TestSlackLimits(t *testing.T) {
	for _, s := range renderCases() {
		t.Run(s.name, func(t *testing.T) {
			w := newFixture(t, fakeslack.Options{})
			root := alerts.Ref{}
			if s.root != root {
				root = wantDelivered(t, w.bot.Send(t.Context(), attempted(), root, false))
			}
			d := s.d
			d.LastAttempt = time.Now()
			if a := w.bot.Send(t.Context(), d, root, s.plain); a.Outcome != alerts.Delivered {
				t.Errorf("%+v", a)
			}
			if a := w.hook.Send(t.Context(), d, alerts.Ref{}, s.plain); a.Outcome != alerts.Delivered {
				t.Errorf("webhook: %+v", a)
			}
		})
	}
}

func TestPlainMessage(t *testing.T) {
	w := newFixture(t, fakeslack.Options{})
	root := wantDelivered(t, w.bot.Send(t.Context(), attempted(), alerts.Ref{}, false))
	wantDelivered(t, w.bot.Send(t.Context(), attempted(atEvent(engine.EventAcked, alerts.Edit, time.Minute)), root, true))
	if m := w.slack.Roots("C1")[0]; m.Blocks != nil || m.Text == "" {
		t.Errorf("%+v", m)
	}
}

func TestNoRedirects(t *testing.T) {
	asked := false
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked = true }))
	defer other.Close()
	srv := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	defer srv.Close()
	bot, err := New(Options{Token: token, APIURL: srv.URL + "/", Channels: map[alerts.Destination]string{alerts.ToPage: "C1"}})
	if err != nil {
		t.Fatal(err)
	}
	defer bot.Close()
	if a := bot.Send(t.Context(), attempted(), alerts.Ref{}, false); a.Outcome != alerts.RetryLater || asked {
		t.Errorf("%+v, followed: %v", a, asked)
	}
}

func TestInvalidBotOptions(t *testing.T) {
	good := Options{Token: token, Channels: map[alerts.Destination]string{alerts.ToPage: "C1"}}
	tests := []struct {
		name  string
		spoil func(*Options)
		want  string
	}{
		{"an app token", func(o *Options) { o.Token = "xapp-1-x" }, "xoxb-"},
		{"no token", func(o *Options) { o.Token = "" }, "xoxb-"},
		{"a token with a line end", func(o *Options) { o.Token = token + "\n" }, "xoxb-"},
		{"no channel", func(o *Options) { o.Channels = nil }, "no channel"},
		{"a channel by name", func(o *Options) { o.Channels = map[alerts.Destination]string{alerts.ToPage: "#ops"} }, "ID"},
		{"an address without a slash", func(o *Options) { o.APIURL = "http://x/api" }, "slash"},
		{"an address that is none", func(o *Options) { o.APIURL = "x" }, "http"},
		{"links with a password", func(o *Options) { o.ExternalURL = "https://a:b@x" }, "external URL"},
		{"links that break markup", func(o *Options) { o.ExternalURL = "https://x/|y" }, "external URL"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := good
			tt.spoil(&o)
			_, err := New(o)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("%v, want an error about %s", err, tt.want)
			}
			wantNoSecret(t, "the error", err.Error())
		})
	}
	if _, err := NewWebhook(WebhookOptions{URL: hook}); err == nil || strings.Contains(err.Error(), hook) {
		t.Errorf("a webhook that is no URL: %v", err)
	}
}

func TestFormatHidesSecrets(t *testing.T) {
	w := newFixture(t, fakeslack.Options{})
	for _, v := range []any{w.bot, w.hook} {
		for _, f := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
			wantNoSecret(t, f, fmt.Sprintf(f, v))
		}
	}
}

func textOption(s string) slack.MsgOption { return slack.MsgOptionText(s, false) }

func TestWebhook(t *testing.T) {
	w := newFixture(t, fakeslack.Options{})
	a := w.hook.Send(t.Context(), attempted(), alerts.Ref{}, false)
	if a.Outcome != alerts.Delivered || a.Ref == (alerts.Ref{}) {
		t.Fatalf("%+v", a)
	}
	edit := w.hook.Send(t.Context(), attempted(atEvent(engine.EventAcked, alerts.Edit, time.Minute)), a.Ref, false)
	if edit.Outcome != alerts.Delivered || len(w.slack.Messages("C9")) != 1 {
		t.Errorf("an edit: %+v, %d messages", edit, len(w.slack.Messages("C9")))
	}
	reply := w.hook.Send(t.Context(), attempted(atEvent(engine.EventAcked, alerts.Reply, time.Minute)), a.Ref, false)
	if reply.Outcome != alerts.Delivered || len(w.slack.Roots("C9")) != 2 {
		t.Errorf("a reply: %+v, %d messages", reply, len(w.slack.Roots("C9")))
	}
	if _, _, err := w.hook.Lookup(t.Context(), attempted(), alerts.Ref{}); !errors.Is(err, alerts.ErrLookupUnavailable) {
		t.Errorf("a look: %v", err)
	}
}

func TestWebhookOutcomes(t *testing.T) {
	tests := []struct {
		fault fakeslack.Fault
		want  alerts.Outcome
		after time.Duration
	}{
		{fakeslack.Fault{Kind: fakeslack.TooManyRequests, RetryAfter: "3"}, alerts.RetryLater, 3 * time.Second},
		{fakeslack.Fault{Kind: fakeslack.TooManyRequests}, alerts.RetryLater, defaultRetryAfter},
		{fakeslack.Fault{Kind: fakeslack.TooManyRequests, RetryAfter: "0.5"}, alerts.RetryLater, defaultRetryAfter},
		{fakeslack.Fault{Kind: fakeslack.ServerError}, alerts.RetryLater, 0},
		{fakeslack.Fault{Kind: fakeslack.NotFoundPage}, alerts.PermanentFailure, 0},
		{fakeslack.Fault{Kind: fakeslack.Forbidden}, alerts.PermanentFailure, 0},
		{fakeslack.Fault{Kind: fakeslack.DropAfter}, alerts.Ambiguous, 0},
		{fakeslack.Fault{Kind: fakeslack.DropBefore}, alerts.Ambiguous, 0},
	}
	w := newFixture(t, fakeslack.Options{})
	for _, tt := range tests {
		t.Run(fmt.Sprint(tt.fault.Kind, tt.fault.RetryAfter), func(t *testing.T) {
			defer w.slack.Inject(tt.fault)()
			a := w.hook.Send(t.Context(), attempted(), alerts.Ref{}, false)
			if a.Outcome != tt.want || a.RetryAfter != tt.after || a.Reason == "" {
				t.Errorf("%+v, want %d after %s", a, tt.want, tt.after)
			}
			wantNoSecret(t, "the reason", a.Reason)
		})
	}
	w.slack.SetChannel(fakeslack.Channel{ID: "C9", Name: "spare", Member: true, Secret: hook, Archived: true})
	if a := w.hook.Send(t.Context(), attempted(), alerts.Ref{}, false); a.Outcome != alerts.PermanentFailure {
		t.Errorf("an archived channel: %+v", a)
	}
}
