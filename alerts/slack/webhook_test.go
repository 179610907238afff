package slack

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/slack-go/slack"

	"headgate/alerts"
	"headgate/engine"
	"headgate/internal/fakeslack"
)

func textOption(s string) slack.MsgOption { return slack.MsgOptionText(s, false) }

func TestAWebhookPostsAndReplies(t *testing.T) {
	w := newWorld(t, fakeslack.Options{})
	a := w.hook.Send(t.Context(), tried(), alerts.Ref{}, false)
	if a.Outcome != alerts.Arrived || a.Ref == (alerts.Ref{}) {
		t.Fatalf("%+v", a)
	}
	edit := w.hook.Send(t.Context(), tried(after(engine.EventAcked, alerts.Edit, time.Minute)), a.Ref, false)
	if edit.Outcome != alerts.Arrived || len(w.slack.Messages("C9")) != 1 {
		t.Errorf("an edit: %+v, %d messages", edit, len(w.slack.Messages("C9")))
	}
	reply := w.hook.Send(t.Context(), tried(after(engine.EventAcked, alerts.Reply, time.Minute)), a.Ref, false)
	if reply.Outcome != alerts.Arrived || len(w.slack.Roots("C9")) != 2 {
		t.Errorf("a reply: %+v, %d messages", reply, len(w.slack.Roots("C9")))
	}
	if _, _, err := w.hook.Find(t.Context(), tried(), alerts.Ref{}); !errors.Is(err, alerts.ErrCannotTell) {
		t.Errorf("a look: %v", err)
	}
}

func TestWhatAWebhooksAnswersMean(t *testing.T) {
	tests := []struct {
		fault fakeslack.Fault
		want  alerts.Outcome
		after time.Duration
	}{
		{fakeslack.Fault{Kind: fakeslack.TooMany, RetryAfter: "3"}, alerts.Again, 3 * time.Second},
		{fakeslack.Fault{Kind: fakeslack.TooMany}, alerts.Again, limitedFor},
		{fakeslack.Fault{Kind: fakeslack.TooMany, RetryAfter: "0.5"}, alerts.Again, limitedFor},
		{fakeslack.Fault{Kind: fakeslack.ServerError}, alerts.Again, 0},
		{fakeslack.Fault{Kind: fakeslack.NotFoundPage}, alerts.Never, 0},
		{fakeslack.Fault{Kind: fakeslack.Forbidden}, alerts.Never, 0},
		{fakeslack.Fault{Kind: fakeslack.DropAfter}, alerts.Unknown, 0},
		{fakeslack.Fault{Kind: fakeslack.DropBefore}, alerts.Unknown, 0},
	}
	w := newWorld(t, fakeslack.Options{})
	for _, tt := range tests {
		t.Run(fmt.Sprint(tt.fault.Kind, tt.fault.RetryAfter), func(t *testing.T) {
			defer w.slack.Inject(tt.fault)()
			a := w.hook.Send(t.Context(), tried(), alerts.Ref{}, false)
			if a.Outcome != tt.want || a.After != tt.after || a.Reason == "" {
				t.Errorf("%+v, want %d after %s", a, tt.want, tt.after)
			}
			clean(t, "the reason", a.Reason)
		})
	}
	w.slack.SetChannel(fakeslack.Channel{ID: "C9", Name: "spare", Member: true, Secret: hook, Archived: true})
	if a := w.hook.Send(t.Context(), tried(), alerts.Ref{}, false); a.Outcome != alerts.Never {
		t.Errorf("an archived channel: %+v", a)
	}
}
