package slack

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/slack-go/slack"

	"headgate/alerts"
	"headgate/engine"
)

// Options configure a Bot.
type Options struct {
	Token       string // xoxb-…; a secret that is never shown
	Channels    map[alerts.Destination]string
	PageMention Mention // for pages
	ExternalURL string  // external URL of headgate; empty: messages hold commands instead of links
	Buttons     bool    // put buttons into messages; presses come back through Interactions

	APIURL    string            // ends in a slash; empty: Slack's
	Timeout   time.Duration     // of one call; 0: 10 s
	Transport http.RoundTripper // nil: a new one
}

// Bot sends with a bot token. It is safe for concurrent use.
type Bot struct {
	api      *slack.Client
	http     *http.Client
	token    string
	channels map[alerts.Destination]string
	renderer renderer
	apiURL   *url.URL

	mu     sync.Mutex
	teamID string // once it is known
}

var (
	_ alerts.Notifier = (*Bot)(nil)
	_ alerts.Notifier = (*Webhook)(nil)
)

var channelIDPattern = regexp.MustCompile(`^[CGD][A-Z0-9]{1,20}$`)

// New returns a Bot. Channels are given by ID: names change, and look-ups do not accept them.
func New(o Options) (*Bot, error) {
	if err := checkToken(o.Token, "xoxb-", "the bot token must begin with xoxb- (app tokens, xapp-, are for Socket Mode)"); err != nil {
		return nil, err
	}
	if len(o.Channels) == 0 {
		return nil, errors.New("no channel is given")
	}
	for to, id := range o.Channels {
		if !channelIDPattern.MatchString(id) {
			return nil, fmt.Errorf("the channel of %s, %.40q, must be an ID such as C024BE91L; "+
				"Slack shows it at the end of the channel's details", to, id)
		}
	}
	r, err := newRenderer(o.ExternalURL, o.PageMention)
	if err != nil {
		return nil, err
	}
	r.withButtons = o.Buttons
	api, err := parseAPIURL(o.APIURL)
	if err != nil {
		return nil, err
	}
	hc := newClient(o.Timeout, o.Transport)
	return &Bot{
		api:  slack.New(o.Token, slack.OptionAPIURL(api.String()), slack.OptionHTTPClient(hc)),
		http: hc, token: o.Token, channels: o.Channels, renderer: r, apiURL: api,
	}, nil
}

// Close closes idle connections.
func (b *Bot) Close() { b.http.CloseIdleConnections() }

// Format prints the type only, because the fields hold secrets.
func (b *Bot) Format(f fmt.State, _ rune) { _, _ = fmt.Fprint(f, "slack.Bot") }

// Send makes one attempt.
func (b *Bot) Send(ctx context.Context, d alerts.Delivery, thread alerts.Ref, plain bool) alerts.SendResult {
	m := b.renderer.render(d, thread, plain)
	opts := []slack.MsgOption{
		slack.MsgOptionText(m.text, false), // already escaped
		slack.MsgOptionDisableLinkUnfurl(), slack.MsgOptionDisableMediaUnfurl(),
	}
	if m.blocks != nil {
		opts = append(opts, slack.MsgOptionBlocks(m.blocks...))
	}
	if d.EditsMessage(thread) {
		return b.edit(ctx, thread, opts)
	}
	return b.post(ctx, d, thread, append(opts, slack.MsgOptionMetadata(metadata(d))))
}

func (b *Bot) edit(ctx context.Context, root alerts.Ref, opts []slack.MsgOption) alerts.SendResult {
	ctx, sent := withSentTrace(ctx)
	channel, ts, _, err := b.api.UpdateMessageContext(ctx, root.Channel, root.TS, opts...)
	if err != nil || ts == "" {
		return classifyError(err, sent.Load(), b.token)
	}
	return alerts.SendResult{Outcome: alerts.Delivered, Ref: alerts.Ref{Channel: channel, TS: ts}}
}

func (b *Bot) post(ctx context.Context, d alerts.Delivery, thread alerts.Ref, opts []slack.MsgOption) alerts.SendResult {
	to := thread.Channel
	if d.StartsThread(thread) {
		if to = b.channels[d.Destination]; to == "" {
			return alerts.SendResult{Outcome: alerts.PermanentFailure, Reason: fmt.Sprintf("no channel is set for %s", d.Destination)}
		}
	} else {
		opts = append(opts, slack.MsgOptionTS(thread.TS))
		if broadcasts(d) {
			opts = append(opts, slack.MsgOptionBroadcast())
		}
	}
	ctx, sent := withSentTrace(ctx)
	channel, ts, m, err := b.api.PostMessageWithResponseContext(ctx, to, opts...)
	if err != nil || ts == "" || channel == "" {
		return classifyError(err, sent.Load(), b.token)
	}
	if !d.StartsThread(thread) && m.ThreadTimestamp == "" {
		return b.deleteStrayReply(ctx, channel, ts)
	}
	return alerts.SendResult{Outcome: alerts.Delivered, Ref: alerts.Ref{Channel: channel, TS: ts}}
}

// deleteStrayReply deletes a reply that Slack put into the channel because the thread's message was deleted: a new
// message will be posted.
func (b *Bot) deleteStrayReply(ctx context.Context, channel, ts string) alerts.SendResult {
	reason := "the message was deleted"
	if _, _, err := b.api.DeleteMessageContext(ctx, channel, ts); err != nil {
		reason += "; its reply is left in the channel"
	}
	return alerts.SendResult{Outcome: alerts.ThreadGone, Reason: reason}
}

// broadcasts says whether a reply is also shown in the channel: it pings people who were not pinged before.
func broadcasts(d alerts.Delivery) bool {
	again := []engine.EventKind{engine.EventEscalated, engine.EventReopened, engine.EventUnmuted}
	return d.Notification.Ping && slices.Contains(again, d.Notification.Event.Kind)
}

const (
	eventType = "headgate_delivery"
	pageSize  = 200 // messages
	maxPages  = 10
	clockSkew = 5 * time.Minute // between Slack's clock and ours
)

// metadata identifies a delivery within its channel.
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

// Lookup searches what was posted since shortly before the latest attempt.
func (b *Bot) Lookup(ctx context.Context, d alerts.Delivery, thread alerts.Ref) (alerts.Ref, bool, error) {
	channel, read := thread.Channel, b.replies
	if d.StartsThread(thread) {
		channel, read = b.channels[d.Destination], b.history
	}
	cursor := ""
	for range maxPages {
		messages, next, err := read(ctx, channel, thread.TS, searchFrom(d), cursor)
		if err != nil {
			return alerts.Ref{}, false, err
		}
		for _, m := range messages {
			if matchesDelivery(m.Metadata, d) {
				return alerts.Ref{Channel: channel, TS: m.Timestamp}, m.Timestamp != "", nil
			}
		}
		if cursor = next; cursor == "" {
			return alerts.Ref{}, false, nil
		}
	}
	return alerts.Ref{}, false, fmt.Errorf("%w: more than %d messages since the attempt", alerts.ErrLookupUnavailable, maxPages*pageSize)
}

func searchFrom(d alerts.Delivery) string {
	since := d.LastAttempt
	if since.IsZero() {
		since = d.Created
	}
	return fmt.Sprintf("%d.000000", max(0, since.Add(-clockSkew).Unix()))
}

// history reads a page of the messages of a channel.
func (b *Bot) history(ctx context.Context, channel, _, oldest, cursor string) (ms []slack.Message, next string, err error) {
	ctx, sent := withSentTrace(ctx)
	h, err := b.api.GetConversationHistoryContext(ctx, &slack.GetConversationHistoryParameters{
		ChannelID: channel, Oldest: oldest, Cursor: cursor, Limit: pageSize, IncludeAllMetadata: true,
	})
	if err != nil {
		return nil, "", b.lookupError(err, sent.Load())
	}
	if !h.Ok { // otherwise it would look like an empty channel
		return nil, "", errEmptyResponse
	}
	return h.Messages, h.ResponseMetaData.NextCursor, nil
}

// replies reads a page of a thread. An existing thread has at least its first message.
func (b *Bot) replies(ctx context.Context, channel, thread, oldest, cursor string) (ms []slack.Message, next string, err error) {
	ctx, sent := withSentTrace(ctx)
	ms, more, next, err := b.api.GetConversationRepliesContext(ctx, &slack.GetConversationRepliesParameters{
		ChannelID: channel, Timestamp: thread, Oldest: oldest, Cursor: cursor, Limit: pageSize, IncludeAllMetadata: true,
	})
	switch {
	case err != nil && classifyError(err, sent.Load(), b.token).Outcome == alerts.ThreadGone:
		return nil, "", nil // a deleted thread has no replies
	case err != nil:
		return nil, "", b.lookupError(err, sent.Load())
	case len(ms) == 0:
		return nil, "", errEmptyResponse
	case !more:
		next = ""
	}
	return ms, next, nil
}

var errEmptyResponse = errors.New("empty response")

func (b *Bot) lookupError(err error, sent bool) error {
	a := classifyError(err, sent, b.token)
	if a.Outcome == alerts.PermanentFailure {
		return fmt.Errorf("%w: %s", alerts.ErrLookupUnavailable, a.Reason)
	}
	return fmt.Errorf("look-up: %s", a.Reason)
}

// WebhookOptions configure a Webhook.
type WebhookOptions struct {
	URL         string // a secret that is never shown
	PageMention Mention
	ExternalURL string
	Timeout     time.Duration     // of one call; 0: 10 s
	Transport   http.RoundTripper // nil: a new one
}

// Webhook sends to an incoming webhook. It cannot edit messages, and deliveries cannot be looked up: it is for the
// fallback. It is safe for concurrent use.
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
	r, err := newRenderer(o.ExternalURL, o.PageMention)
	if err != nil {
		return nil, err
	}
	return &Webhook{url: o.URL, http: newClient(o.Timeout, o.Transport), renderer: r}, nil
}

// Close closes idle connections.
func (w *Webhook) Close() { w.http.CloseIdleConnections() }

// Format prints the type only, because the fields hold secrets.
func (w *Webhook) Format(f fmt.State, _ rune) { _, _ = fmt.Fprint(f, "slack.Webhook") }

// Send makes one attempt. Edits are skipped, since the reply that goes with one has the content; a reply is sent as a
// separate message. Slack does not say where messages of webhooks are.
func (w *Webhook) Send(ctx context.Context, d alerts.Delivery, thread alerts.Ref, plain bool) alerts.SendResult {
	delivered := alerts.SendResult{Outcome: alerts.Delivered, Ref: alerts.Ref{Channel: "webhook"}}
	if d.EditsMessage(thread) {
		return delivered
	}
	m := w.renderer.render(d, thread, plain)
	msg := &slack.WebhookMessage{Text: m.text}
	if m.blocks != nil {
		msg.Blocks = &slack.Blocks{BlockSet: m.blocks}
	}
	ctx, sent := withSentTrace(ctx)
	if err := slack.PostWebhookCustomHTTPContext(ctx, w.url, w.http, msg); err != nil {
		return w.classify(err, sent.Load())
	}
	return delivered
}

// classify does not pass the error on, which holds the URL. A server error counts as not delivered: look-ups are
// impossible, and giving up on the last resort would be worse than a duplicate.
func (w *Webhook) classify(err error, sent bool) alerts.SendResult {
	var status slack.StatusCodeError
	if !errors.As(err, &status) {
		return classifyError(err, sent, w.url)
	}
	a := classifyStatus(status.Code)
	switch c := status.Code; {
	case c == http.StatusBadRequest, c == http.StatusRequestEntityTooLarge:
		a.Outcome = alerts.Malformed
	case c == http.StatusForbidden, c == http.StatusNotFound, c == http.StatusGone:
		a.Outcome = alerts.PermanentFailure
	case c >= 500:
		a.Outcome = alerts.RetryLater
	}
	return a
}

// Lookup is unavailable.
func (w *Webhook) Lookup(context.Context, alerts.Delivery, alerts.Ref) (alerts.Ref, bool, error) {
	return alerts.Ref{}, false, alerts.ErrLookupUnavailable
}
