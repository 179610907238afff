package slack

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/slack-go/slack"

	"headgate/alerts"
	"headgate/engine"
)

// Options of a Bot.
type Options struct {
	Token       string // xoxb-…; it is shown nowhere
	Channels    map[alerts.Destination]string
	PageMention Mention // for pages
	ExternalURL string  // external URL of headgate; empty: messages give commands instead
	Buttons     bool    // put buttons into messages: presses come back to a Executor

	APIURL    string            // ends in a slash; empty: Slack's
	Timeout   time.Duration     // of one call; 0: 10 s
	Transport http.RoundTripper // nil: one of its own
}

// Bot sends with a bot token. It is safe for concurrent use.
type Bot struct {
	api      *slack.Client
	http     *http.Client
	token    string
	channels map[alerts.Destination]string
	renderer renderer
	apiURL   *url.URL // of the API

	mu     sync.Mutex
	teamID string // once it is known
}

var channelIDPattern = regexp.MustCompile(`^[CGD][A-Z0-9]{1,20}$`)

// New returns a Bot. Channels are given by their ID: names change, and look-ups
// take none.
func New(o Options) (*Bot, error) {
	if !strings.HasPrefix(o.Token, "xoxb-") || strings.ContainsAny(o.Token, " \r\n\t") {
		return nil, errors.New("the bot token must begin with xoxb- (app tokens, xapp-, are for Socket Mode)")
	}
	if len(o.Channels) == 0 {
		return nil, errors.New("no channel is given")
	}
	for to, id := range o.Channels {
		if !channelIDPattern.MatchString(id) {
			return nil, fmt.Errorf("the channel of %s, %.40q, must be an ID such as C024BE91L: it stands at the end of the channel's details", to, id)
		}
	}
	words, err := newRenderer(o.ExternalURL, o.PageMention)
	if err != nil {
		return nil, err
	}
	words.withButtons = o.Buttons
	if o.APIURL == "" {
		o.APIURL = slack.APIURL
	}
	if err := checkURL("the API's address", o.APIURL); err != nil {
		return nil, err
	}
	if !strings.HasSuffix(o.APIURL, "/") {
		return nil, errors.New("the API's address must end in a slash")
	}
	home, err := url.Parse(o.APIURL)
	if err != nil {
		return nil, errors.New("the API's address is no URL")
	}
	if o.Timeout <= 0 {
		o.Timeout = 10 * time.Second
	}
	hc := newClient(o.Timeout, o.Transport)
	return &Bot{
		api:  slack.New(o.Token, slack.OptionAPIURL(o.APIURL), slack.OptionHTTPClient(hc)),
		http: hc, token: o.Token, channels: o.Channels, renderer: words, apiURL: home,
	}, nil
}

func newRenderer(links string, page Mention) (renderer, error) {
	if links == "" {
		return renderer{pageMention: page}, nil
	}
	u, err := url.Parse(links)
	if err != nil || checkURL("", links) != nil || u.User != nil || strings.ContainsAny(links, "<>| ") {
		return renderer{}, errors.New("the external URL must be an http or https URL without a user")
	}
	return renderer{baseURL: strings.TrimSuffix(links, "/"), pageMention: page}, nil
}

// Close lets go of idle connections.
func (b *Bot) Close() { b.http.CloseIdleConnections() }

// Format prints what the Bot is, and nothing of what it holds.
func (b *Bot) Format(f fmt.State, _ rune) { _, _ = fmt.Fprint(f, "slack.Bot") }

// Send implements alerts.Notifier.
func (b *Bot) Send(ctx context.Context, d alerts.Delivery, root alerts.Ref, plain bool) alerts.SendResult {
	m := b.renderer.render(d, root, plain)
	opts := []slack.MsgOption{
		slack.MsgOptionText(m.text, false), // escaped where it was put together
		slack.MsgOptionDisableLinkUnfurl(), slack.MsgOptionDisableMediaUnfurl(),
	}
	if m.blocks != nil {
		opts = append(opts, slack.MsgOptionBlocks(m.blocks...))
	}
	if !d.StartsThread(root) && d.Kind != alerts.Reply {
		return b.edit(ctx, root, opts)
	}
	return b.post(ctx, d, root, append(opts, slack.MsgOptionMetadata(metadata(d))))
}

func (b *Bot) edit(ctx context.Context, root alerts.Ref, opts []slack.MsgOption) alerts.SendResult {
	ctx, left := withSentTrace(ctx)
	channel, ts, _, err := b.api.UpdateMessageContext(ctx, root.Channel, root.TS, opts...)
	if err != nil || ts == "" {
		return classifyError(err, left.Load(), b.token)
	}
	return alerts.SendResult{Outcome: alerts.Delivered, Ref: alerts.Ref{Channel: channel, TS: ts}}
}

func (b *Bot) post(ctx context.Context, d alerts.Delivery, root alerts.Ref, opts []slack.MsgOption) alerts.SendResult {
	to := root.Channel
	if d.StartsThread(root) {
		if to = b.channels[d.Destination]; to == "" {
			return alerts.SendResult{Outcome: alerts.PermanentFailure, Reason: fmt.Sprintf("no channel is set for %s", d.Destination)}
		}
	} else {
		opts = append(opts, slack.MsgOptionTS(root.TS))
		if broadcasts(d) {
			opts = append(opts, slack.MsgOptionBroadcast())
		}
	}
	ctx, left := withSentTrace(ctx)
	channel, ts, m, err := b.api.PostMessageWithResponseContext(ctx, to, opts...)
	if err != nil || ts == "" || channel == "" {
		return classifyError(err, left.Load(), b.token)
	}
	if !d.StartsThread(root) && m.ThreadTimestamp == "" {
		return b.deleteStrayReply(ctx, channel, ts)
	}
	return alerts.SendResult{Outcome: alerts.Delivered, Ref: alerts.Ref{Channel: channel, TS: ts}}
}

// deleteStrayReply takes back a reply that went to the channel because its root is gone: a
// new root will say it.
func (b *Bot) deleteStrayReply(ctx context.Context, channel, ts string) alerts.SendResult {
	reason := "the message was deleted"
	if _, _, err := b.api.DeleteMessageContext(ctx, channel, ts); err != nil {
		reason += "; its reply stands in the channel"
	}
	return alerts.SendResult{Outcome: alerts.ThreadGone, Reason: reason}
}

// broadcasts says whether a reply is shown in the channel too: people who were not
// called before are called now.
func broadcasts(d alerts.Delivery) bool {
	switch d.Notification.Event.Kind {
	case engine.EventEscalated, engine.EventReopened, engine.EventUnmuted:
		return d.Notification.Ping
	default:
		return false
	}
}

var _ alerts.Notifier = (*Bot)(nil)
