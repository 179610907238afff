package slack

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
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

const (
	eventType = "headgate_delivery"
	pageSize  = 200
	maxPages  = 10
	// clockSkew is how far Slack's clock may be from ours.
	clockSkew = 5 * time.Minute
)

// metadata names a delivery within its channel.
func metadata(d alerts.Delivery) slack.SlackMetadata {
	return slack.SlackMetadata{EventType: eventType, EventPayload: map[string]any{
		"incident": d.Incident, "seq": strconv.Itoa(d.Seq), "kind": string(d.Kind),
	}}
}

func matchesDelivery(m slack.SlackMetadata, d alerts.Delivery) bool {
	if m.EventType != eventType {
		return false
	}
	for k, v := range metadata(d).EventPayload {
		if m.EventPayload[k] != v {
			return false
		}
	}
	return true
}

// messagePage is one page of messages.
type messagePage struct {
	messages []slack.Message
	next     string
}

// Lookup implements alerts.Notifier: it looks through what was posted since shortly
// before the latest attempt.
func (b *Bot) Lookup(ctx context.Context, d alerts.Delivery, root alerts.Ref) (alerts.Ref, bool, error) {
	channel := root.Channel
	if d.StartsThread(root) {
		channel = b.channels[d.Destination]
	}
	read := b.history
	if !d.StartsThread(root) {
		read = b.replies
	}
	cursor := ""
	for range maxPages {
		p, err := read(ctx, channel, root.TS, searchFrom(d), cursor)
		if err != nil {
			return alerts.Ref{}, false, err
		}
		for _, m := range p.messages {
			if matchesDelivery(m.Metadata, d) {
				return alerts.Ref{Channel: channel, TS: m.Timestamp}, m.Timestamp != "", nil
			}
		}
		if cursor = p.next; cursor == "" {
			return alerts.Ref{}, false, nil
		}
	}
	return alerts.Ref{}, false, fmt.Errorf("%w: more than %d messages since", alerts.ErrLookupUnavailable, maxPages*pageSize)
}

func searchFrom(d alerts.Delivery) string {
	since := d.LastAttempt
	if since.IsZero() {
		since = d.Created
	}
	return fmt.Sprintf("%d.000000", max(0, since.Add(-clockSkew).Unix()))
}

func (b *Bot) history(ctx context.Context, channel, _, oldest, cursor string) (messagePage, error) {
	ctx, left := withSentTrace(ctx)
	h, err := b.api.GetConversationHistoryContext(ctx, &slack.GetConversationHistoryParameters{
		ChannelID: channel, Oldest: oldest, Cursor: cursor, Limit: pageSize, IncludeAllMetadata: true,
	})
	if err != nil {
		return messagePage{}, b.lookupError(err, left.Load())
	}
	if !h.Ok { // an answer that is none would read as an empty channel
		return messagePage{}, fmt.Errorf("the answer is none")
	}
	return messagePage{messages: h.Messages, next: h.ResponseMetaData.NextCursor}, nil
}

// replies reads replies. A thread that is there has at least its root.
func (b *Bot) replies(ctx context.Context, channel, root, oldest, cursor string) (messagePage, error) {
	ctx, left := withSentTrace(ctx)
	ms, more, next, err := b.api.GetConversationRepliesContext(ctx, &slack.GetConversationRepliesParameters{
		ChannelID: channel, Timestamp: root, Oldest: oldest, Cursor: cursor, Limit: pageSize, IncludeAllMetadata: true,
	})
	if err != nil {
		if a := classifyError(err, left.Load(), b.token); a.Outcome == alerts.ThreadGone {
			return messagePage{}, nil // nothing stands in a thread that is gone
		}
		return messagePage{}, b.lookupError(err, left.Load())
	}
	if len(ms) == 0 {
		return messagePage{}, fmt.Errorf("the answer is none")
	}
	if !more {
		next = ""
	}
	return messagePage{messages: ms, next: next}, nil
}

func (b *Bot) lookupError(err error, left bool) error {
	a := classifyError(err, left, b.token)
	if a.Outcome == alerts.PermanentFailure {
		return fmt.Errorf("%w: %s", alerts.ErrLookupUnavailable, a.Reason)
	}
	return fmt.Errorf("look-up: %s", a.Reason)
}

// WebhookOptions are those of a Webhook.
type WebhookOptions struct {
	URL         string // it is a secret, and shown nowhere
	PageMention Mention
	ExternalURL string
	Timeout     time.Duration     // of one call; 0: 10 s
	Transport   http.RoundTripper // nil: one of its own
}

// Webhook sends to an incoming webhook. It cannot edit, and whether something has
// arrived cannot be looked up: it is for the fallback. It is safe for concurrent
// use.
type Webhook struct {
	url      string
	http     *http.Client
	renderer renderer
}

// NewWebhook returns a Webhook.
func NewWebhook(o WebhookOptions) (*Webhook, error) {
	if err := checkURL("the webhook", o.URL); err != nil {
		return nil, err
	}
	words, err := newRenderer(o.ExternalURL, o.PageMention)
	if err != nil {
		return nil, err
	}
	if o.Timeout <= 0 {
		o.Timeout = 10 * time.Second
	}
	return &Webhook{url: o.URL, http: newClient(o.Timeout, o.Transport), renderer: words}, nil
}

// Close lets go of idle connections.
func (w *Webhook) Close() { w.http.CloseIdleConnections() }

// Format prints what the Webhook is, and nothing of what it holds.
func (w *Webhook) Format(f fmt.State, _ rune) { _, _ = fmt.Fprint(f, "slack.Webhook") }

// webhookRef is where a webhook's messages stand: somewhere.
func webhookRef() alerts.Ref { return alerts.Ref{Channel: "webhook"} }

// Send implements alerts.Notifier. What would edit is left out, since the reply
// that goes with it says it; a reply stands alone.
func (w *Webhook) Send(ctx context.Context, d alerts.Delivery, root alerts.Ref, plain bool) alerts.SendResult {
	if !d.StartsThread(root) && d.Kind != alerts.Reply {
		return alerts.SendResult{Outcome: alerts.Delivered, Ref: webhookRef()}
	}
	m := w.renderer.render(d, root, plain)
	msg := &slack.WebhookMessage{Text: m.text}
	if m.blocks != nil {
		msg.Blocks = &slack.Blocks{BlockSet: m.blocks}
	}
	ctx, left := withSentTrace(ctx)
	err := slack.PostWebhookCustomHTTPContext(ctx, w.url, w.http, msg)
	if err == nil {
		return alerts.SendResult{Outcome: alerts.Delivered, Ref: webhookRef()}
	}
	return w.classify(err, left.Load())
}

// classify classifies. The error holds the URL and is not passed on. A server error
// counts as a refusal here: nothing can tell it from one, and giving up on the
// last resort would be worse than a repeat.
func (w *Webhook) classify(err error, left bool) alerts.SendResult {
	var status slack.StatusCodeError
	if !errors.As(err, &status) {
		return classifyError(err, left, w.url)
	}
	a := classifyStatus(status.Code)
	switch {
	case status.Code == http.StatusBadRequest, status.Code == http.StatusRequestEntityTooLarge:
		a.Outcome = alerts.Malformed
	case status.Code == http.StatusForbidden, status.Code == http.StatusNotFound, status.Code == http.StatusGone:
		a.Outcome = alerts.PermanentFailure
	case status.Code >= 500:
		a.Outcome = alerts.RetryLater
	}
	return a
}

// Lookup implements alerts.Notifier: it cannot tell.
func (w *Webhook) Lookup(context.Context, alerts.Delivery, alerts.Ref) (alerts.Ref, bool, error) {
	return alerts.Ref{}, false, alerts.ErrLookupUnavailable
}

var _ alerts.Notifier = (*Webhook)(nil)
