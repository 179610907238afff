package slack

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/slack-go/slack"

	"headgate/alerts"
)

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
