package slack

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/slack-go/slack"

	"headgate/alerts"
)

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
