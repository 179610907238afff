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

func names(m slack.SlackMetadata, d alerts.Delivery) bool {
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

// page is one page of messages.
type page struct {
	messages []slack.Message
	next     string
}

// Find implements alerts.Sender: it looks through what was posted since shortly
// before the latest attempt.
func (b *Bot) Find(ctx context.Context, d alerts.Delivery, root alerts.Ref) (alerts.Ref, bool, error) {
	channel := root.Channel
	if d.Opens(root) {
		channel = b.channels[d.Destination]
	}
	read := b.history
	if !d.Opens(root) {
		read = b.thread
	}
	cursor := ""
	for range maxPages {
		p, err := read(ctx, channel, root.TS, oldest(d), cursor)
		if err != nil {
			return alerts.Ref{}, false, err
		}
		for _, m := range p.messages {
			if names(m.Metadata, d) {
				return alerts.Ref{Channel: channel, TS: m.Timestamp}, m.Timestamp != "", nil
			}
		}
		if cursor = p.next; cursor == "" {
			return alerts.Ref{}, false, nil
		}
	}
	return alerts.Ref{}, false, fmt.Errorf("%w: more than %d messages since", alerts.ErrCannotTell, maxPages*pageSize)
}

func oldest(d alerts.Delivery) string {
	since := d.Tried
	if since.IsZero() {
		since = d.Created
	}
	return fmt.Sprintf("%d.000000", max(0, since.Add(-clockSkew).Unix()))
}

func (b *Bot) history(ctx context.Context, channel, _, oldest, cursor string) (page, error) {
	ctx, left := traced(ctx)
	h, err := b.api.GetConversationHistoryContext(ctx, &slack.GetConversationHistoryParameters{
		ChannelID: channel, Oldest: oldest, Cursor: cursor, Limit: pageSize, IncludeAllMetadata: true,
	})
	if err != nil {
		return page{}, b.lookFailed(err, left.Load())
	}
	if !h.Ok { // an answer that is none would read as an empty channel
		return page{}, fmt.Errorf("the answer is none")
	}
	return page{messages: h.Messages, next: h.ResponseMetaData.NextCursor}, nil
}

// thread reads replies. A thread that is there has at least its root.
func (b *Bot) thread(ctx context.Context, channel, root, oldest, cursor string) (page, error) {
	ctx, left := traced(ctx)
	ms, more, next, err := b.api.GetConversationRepliesContext(ctx, &slack.GetConversationRepliesParameters{
		ChannelID: channel, Timestamp: root, Oldest: oldest, Cursor: cursor, Limit: pageSize, IncludeAllMetadata: true,
	})
	if err != nil {
		if a := failure(err, left.Load(), b.token); a.Outcome == alerts.RootGone {
			return page{}, nil // nothing stands in a thread that is gone
		}
		return page{}, b.lookFailed(err, left.Load())
	}
	if len(ms) == 0 {
		return page{}, fmt.Errorf("the answer is none")
	}
	if !more {
		next = ""
	}
	return page{messages: ms, next: next}, nil
}

func (b *Bot) lookFailed(err error, left bool) error {
	a := failure(err, left, b.token)
	if a.Outcome == alerts.Never {
		return fmt.Errorf("%w: %s", alerts.ErrCannotTell, a.Reason)
	}
	return fmt.Errorf("look-up: %s", a.Reason)
}
