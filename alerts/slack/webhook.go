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
	URL       string // it is a secret, and shown nowhere
	Page      Mention
	Links     string
	Timeout   time.Duration     // of one call; 0: 10 s
	Transport http.RoundTripper // nil: one of its own
}

// Webhook sends to an incoming webhook. It cannot edit, and whether something has
// arrived cannot be looked up: it is for the fallback. It is safe for concurrent
// use.
type Webhook struct {
	url   string
	http  *http.Client
	words renderer
}

// NewWebhook returns a Webhook.
func NewWebhook(o WebhookOptions) (*Webhook, error) {
	if err := checkURL("the webhook", o.URL); err != nil {
		return nil, err
	}
	words, err := newRenderer(o.Links, o.Page)
	if err != nil {
		return nil, err
	}
	if o.Timeout <= 0 {
		o.Timeout = 10 * time.Second
	}
	return &Webhook{url: o.URL, http: newClient(o.Timeout, o.Transport), words: words}, nil
}

// Close lets go of idle connections.
func (w *Webhook) Close() { w.http.CloseIdleConnections() }

// Format prints what the Webhook is, and nothing of what it holds.
func (w *Webhook) Format(f fmt.State, _ rune) { _, _ = fmt.Fprint(f, "slack.Webhook") }

// posted is where a webhook's messages stand: somewhere.
func posted() alerts.Ref { return alerts.Ref{Channel: "webhook"} }

// Send implements alerts.Sender. What would edit is left out, since the reply
// that goes with it says it; a reply stands alone.
func (w *Webhook) Send(ctx context.Context, d alerts.Delivery, root alerts.Ref, plain bool) alerts.Attempt {
	if !d.Opens(root) && d.Kind != alerts.Reply {
		return alerts.Attempt{Outcome: alerts.Arrived, Ref: posted()}
	}
	m := w.words.render(d, root, plain)
	msg := &slack.WebhookMessage{Text: m.text}
	if m.blocks != nil {
		msg.Blocks = &slack.Blocks{BlockSet: m.blocks}
	}
	ctx, left := traced(ctx)
	err := slack.PostWebhookCustomHTTPContext(ctx, w.url, w.http, msg)
	if err == nil {
		return alerts.Attempt{Outcome: alerts.Arrived, Ref: posted()}
	}
	return w.failed(err, left.Load())
}

// failed classifies. The error holds the URL and is not passed on. A server error
// counts as a refusal here: nothing can tell it from one, and giving up on the
// last resort would be worse than a repeat.
func (w *Webhook) failed(err error, left bool) alerts.Attempt {
	var status slack.StatusCodeError
	if !errors.As(err, &status) {
		return failure(err, left, w.url)
	}
	a := byStatus(status.Code)
	switch {
	case status.Code == http.StatusBadRequest, status.Code == http.StatusRequestEntityTooLarge:
		a.Outcome = alerts.Malformed
	case status.Code == http.StatusForbidden, status.Code == http.StatusNotFound, status.Code == http.StatusGone:
		a.Outcome = alerts.Never
	case status.Code >= 500:
		a.Outcome = alerts.Again
	}
	return a
}

// Find implements alerts.Sender: it cannot tell.
func (w *Webhook) Find(context.Context, alerts.Delivery, alerts.Ref) (alerts.Ref, bool, error) {
	return alerts.Ref{}, false, alerts.ErrCannotTell
}

var _ alerts.Sender = (*Webhook)(nil)
