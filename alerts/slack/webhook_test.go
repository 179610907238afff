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

func TestWhatAWebhooksAnswersMean(t *testing.T) {
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
