package sandbox

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"headgate/runbooks/drill"
)

// cannedResponse is a Slack with one answer.
type cannedResponse string

func (a cannedResponse) RoundTrip(r *http.Request) (*http.Response, error) {
	if a == "" {
		return nil, errors.New("no connection")
	}
	return &http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader(string(a))), Request: r}, nil
}

// callSlackAPI makes a call of Slack's API through a receiver.
func callSlackAPI(t *testing.T, c *slackRecorder, slack cannedResponse, method string, form url.Values) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://slack/api/"+method, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	res, err := c.wrapAttempts(c.wrapAccepted(slack)).RoundTrip(r)
	if err != nil {
		return
	}
	if text, err := io.ReadAll(res.Body); err != nil || string(text) != string(slack) {
		t.Errorf("headgate reads %q, %v", text, err)
	}
	_ = res.Body.Close()
}

func deliveryMetadata(incident, seq, kind string) string {
	return `{"event_type":"headgate_delivery","event_payload":{"incident":"` + incident + `","seq":"` + seq + `","kind":"` + kind + `"}}`
}

// TestSlackRecorderCountsAccepted: only what Slack accepts is a message, not what is tried, nor what is answered without
// a ts.
func TestSlackRecorderCountsAccepted(t *testing.T) {
	c := newSlackRecorder()
	post := url.Values{"channel": {"C1"}, "text": {"DRILL · WARNING · tasks wait (pool default): 31 tasks, limit 19 tasks"}, "metadata": {deliveryMetadata("i1", "1", "post")},
		"blocks": {`[{"type":"header","text":{"type":"plain_text","text":"DRILL"}},{"type":"section","fields":[{"text":"Value"}]},{"elements":[{"text":"rule"}]}]`}}
	for _, answer := range []cannedResponse{"", "{}", `{"ok":false,"error":"ratelimited"}`, `{"ok":true}`, "<html>"} {
		callSlackAPI(t, c, answer, "chat.postMessage", post)
	}
	var e drill.Evidence
	if c.addTo(&e); len(e.Messages) != 0 || e.SlackCalls != 5 {
		t.Fatalf("%d tries, accepted %+v", e.SlackCalls, e.Messages)
	}
	first := time.Now()
	callSlackAPI(t, c, `{"ok":true,"channel":"C1","ts":"1.2"}`, "chat.postMessage", post)
	edit := url.Values{"channel": {"C1"}, "ts": {"1.2"}, "text": {"<!here> DRILL · PAGE · tasks wait"}}
	callSlackAPI(t, c, `{"ok":true,"channel":"C1","ts":"1.2"}`, "chat.update", edit)
	reply := func(seq, text string) {
		callSlackAPI(t, c, cannedResponse(`{"ok":true,"channel":"C1","ts":"1.`+seq+`"}`), "chat.postMessage",
			url.Values{"channel": {"C1"}, "thread_ts": {"1.2"}, "text": {text}, "metadata": {deliveryMetadata("i1", seq, "reply")}})
	}
	reply("3", "DRILL · Now a page: 40 tasks, limit 32 tasks")
	reply("4", "DRILL · Acknowledged by me")
	reply("5", "DRILL · Resolved after 2m: the value went back below the limit")
	callSlackAPI(t, c, `{"ok":true}`, "conversations.history", url.Values{"channel": {"C1"}})
	e = drill.Evidence{}
	c.addTo(&e)
	var got []string
	for _, m := range e.Messages {
		got = append(got, m.Incident+" "+m.Kind+" "+m.Level)
	}
	if want := "i1 post warn, i1 edit page, i1 reply page, i1 reply page, i1 reply resolved"; strings.Join(got, ", ") != want {
		t.Errorf("%v, want %s", got, want)
	}
	if m := e.Messages[0]; !m.FirstAttempt.Before(first) || m.Accepted.Before(first) || !strings.Contains(m.Text, "\nValue\nrule") {
		t.Errorf("%+v: it was tried before it was accepted, and has all texts", m)
	}
}

// TestDuplicateMessages: a message that Slack accepts twice counts, unless it says that it may be a repeat.
func TestDuplicateMessages(t *testing.T) {
	c := newSlackRecorder()
	say := func(text string, name deliveryID) {
		c.recordAccepted(sentMessage{channel: "C1", text: text, delivery: name}, []byte(`{"ok":true,"channel":"C1","ts":"1.1"}`), time.Now())
	}
	first := deliveryID{Incident: "i1", Seq: "1", Kind: "post"}
	say("WARNING", first)
	say("WARNING", deliveryID{Incident: "i2", Seq: "1", Kind: "post"})
	say("WARNING\nThis may be a repeat", first)
	var e drill.Evidence
	if c.addTo(&e); e.DuplicateMessages != 0 {
		t.Errorf("%d repeated", e.DuplicateMessages)
	}
	say("WARNING", first)
	if c.addTo(&e); e.DuplicateMessages != 1 || len(e.Messages) != 4 {
		t.Errorf("%d repeated, of %d", e.DuplicateMessages, len(e.Messages))
	}
}

// TestSlackTarget: messages go to the channel for drills if there is one, and to a stand-in otherwise.
func TestSlackTarget(t *testing.T) {
	for _, c := range []struct {
		channel SlackChannel
		real    bool
	}{
		{SlackChannel{}, false}, {SlackChannel{Token: "xoxb-1"}, false}, {SlackChannel{Channel: "C9"}, false},
		{SlackChannel{Token: "xoxb-1", Channel: "C9"}, true},
	} {
		d, err := newSlackTarget(c.channel, 1)
		if err != nil {
			t.Fatal(err)
		}
		if real := d.slack == nil; real != c.real || strings.Contains(c.channel.Target(), "C9") != c.real || (d.channel == c.channel) != c.real {
			t.Errorf("%+v: real %t, named %q, sent to %+v", c.channel, real, c.channel.Target(), d.channel)
		}
		if err := d.close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
