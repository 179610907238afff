package sandbox

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"headgate/internal/fakeslack"
	"headgate/internal/lifecycle"
	"headgate/proxy/fault"
	"headgate/runbooks/drill"
)

// fakeSlackChannel is the channel of the stand-in.
const fakeSlackChannel = "C0DRILLS"

// slackTarget is where a twin's messages go: the channel for drills, or a stand-in for Slack.
type slackTarget struct {
	channel         SlackChannel
	recorder        *slackRecorder
	faults          *fault.Injector
	senderTransport http.RoundTripper // for the sender
	transport       *http.Transport
	slack           *fakeslack.Server // nil: the real one
	server          *lifecycle.Server // of slack
}

func newSlackTarget(c SlackChannel, seed uint64) (*slackTarget, error) {
	d := &slackTarget{channel: c, recorder: newSlackRecorder()}
	if !c.real() {
		if err := d.startFakeSlack(seed); err != nil {
			return nil, err
		}
	}
	d.transport = &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
		TLSHandshakeTimeout: 5 * time.Second, MaxIdleConnsPerHost: 4, IdleConnTimeout: time.Minute, ForceAttemptHTTP2: true,
	}
	d.faults = fault.New(d.recorder.wrapAccepted(d.transport), seed)
	d.senderTransport = d.recorder.wrapAttempts(d.faults)
	return d, nil
}

func (d *slackTarget) startFakeSlack(seed uint64) (err error) {
	token := "xoxb-drill-" + rand.Text()
	d.slack = fakeslack.New(fakeslack.Options{Token: token, RateLimited: true, Seed: seed})
	d.slack.SetChannel(fakeslack.Channel{ID: fakeSlackChannel, Name: "drills", Member: true})
	if d.server, err = serveLoopback("stand-in for Slack", d.slack); err != nil {
		return err
	}
	d.channel = SlackChannel{Token: token, APIURL: d.server.URL() + "/api/", Channel: fakeSlackChannel}
	return nil
}

func (d *slackTarget) close(context.Context) error {
	d.transport.CloseIdleConnections()
	if d.slack == nil {
		return nil
	}
	d.slack.Close()
	return d.server.Close()
}

// maxSlackBody bounds what is read of a message, and of the answer to it.
const maxSlackBody = 1 << 20

// slackRecorder records what is sent to Slack, and what Slack accepts. It reads the wire alone, so that it sees what a
// person would. It is safe for concurrent use.
type slackRecorder struct {
	mu                sync.Mutex
	attemptCount      int
	accepted          map[string]bool // posts and replies, by their key
	duplicates        int
	firstAttempt      map[string]time.Time // when each post or reply was tried first
	messages          []drill.Message
	incidentByMessage map[string]string // by channel and ts of the incident's message
	levelByIncident   map[string]string // of the latest message
}

func newSlackRecorder() *slackRecorder {
	return &slackRecorder{
		firstAttempt: map[string]time.Time{}, accepted: map[string]bool{},
		incidentByMessage: map[string]string{}, levelByIncident: map[string]string{},
	}
}

// sentMessage is a call that posts or edits a message.
type sentMessage struct {
	edit     bool
	channel  string
	thread   string
	ts       string // of the message that is edited
	text     string
	delivery deliveryID // of the delivery; an edit has none
}

// deliveryID is the metadata that headgate attaches to a message.
type deliveryID struct {
	Incident string `json:"incident"`
	Seq      string `json:"seq"`
	Kind     string `json:"kind"`
}

func (s sentMessage) key() string {
	if s.delivery.Incident == "" {
		return ""
	}
	return s.delivery.Incident + " " + s.delivery.Seq + " " + s.delivery.Kind
}

// wrapAttempts counts what headgate tries to send.
func (c *slackRecorder) wrapAttempts(next http.RoundTripper) http.RoundTripper {
	return roundTripperFunc(func(r *http.Request) (*http.Response, error) {
		if s, ok := parseSentMessage(r); ok {
			c.mu.Lock()
			c.attemptCount++
			if _, known := c.firstAttempt[s.key()]; !known && s.key() != "" {
				c.firstAttempt[s.key()] = time.Now()
			}
			c.mu.Unlock()
		}
		return next.RoundTrip(r)
	})
}

// wrapAccepted records what Slack accepts.
func (c *slackRecorder) wrapAccepted(next http.RoundTripper) http.RoundTripper {
	return roundTripperFunc(func(r *http.Request) (*http.Response, error) {
		s, ok := parseSentMessage(r)
		res, err := next.RoundTrip(r)
		if err != nil || !ok {
			return res, err
		}
		text, err := io.ReadAll(io.LimitReader(res.Body, maxSlackBody))
		_ = res.Body.Close() // it has been read
		if err != nil {
			return nil, err
		}
		res.Body = io.NopCloser(bytes.NewReader(text))
		c.recordAccepted(s, text, time.Now())
		return res, nil
	})
}

// parseSentMessage reads a call that posts or edits.
func parseSentMessage(r *http.Request) (sentMessage, bool) {
	edit := strings.HasSuffix(r.URL.Path, "/chat.update")
	if !edit && !strings.HasSuffix(r.URL.Path, "/chat.postMessage") || r.GetBody == nil {
		return sentMessage{}, false
	}
	body, err := r.GetBody()
	if err != nil {
		return sentMessage{}, false
	}
	defer body.Close()
	text, err := io.ReadAll(io.LimitReader(body, maxSlackBody))
	form, formErr := url.ParseQuery(string(text))
	if err != nil || formErr != nil {
		return sentMessage{}, false
	}
	s := sentMessage{
		edit: edit, channel: form.Get("channel"), thread: form.Get("thread_ts"), ts: form.Get("ts"),
		text: strings.Join(append([]string{form.Get("text")}, blockTexts(form.Get("blocks"))...), "\n"),
	}
	var meta struct {
		Payload deliveryID `json:"event_payload"`
	}
	if json.Unmarshal([]byte(form.Get("metadata")), &meta) == nil {
		s.delivery = meta.Payload
	}
	return s, true
}

// blockTexts returns all texts of blocks, in their order.
func blockTexts(blocks string) []string {
	var tree any
	if json.Unmarshal([]byte(blocks), &tree) != nil {
		return nil
	}
	var all []string
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, one := range v {
				walk(one)
			}
		case map[string]any:
			if text, ok := v["text"].(string); ok {
				all = append(all, text)
			}
			for _, key := range []string{"text", "fields", "elements"} {
				walk(v[key])
			}
		}
	}
	walk(tree)
	return all
}

// recordAccepted records a message if the answer says that Slack has accepted it.
func (c *slackRecorder) recordAccepted(s sentMessage, text []byte, now time.Time) {
	var a struct {
		OK      bool   `json:"ok"`
		Channel string `json:"channel"`
		TS      string `json:"ts"`
	}
	if json.Unmarshal(text, &a) != nil || !a.OK || a.TS == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	m := drill.Message{Incident: s.delivery.Incident, Kind: "post", Channel: s.channel, Text: s.text, Accepted: now}
	switch {
	case s.edit:
		m.Kind, m.Incident = "edit", c.incidentByMessage[a.Channel+" "+a.TS]
	case s.thread != "":
		m.Kind = "reply"
	default:
		c.incidentByMessage[a.Channel+" "+a.TS] = m.Incident
	}
	c.countDuplicateLocked(s)
	m.FirstAttempt = c.firstAttempt[s.key()]
	if m.Level = levelOf(s.text); m.Level == "" {
		m.Level = c.levelByIncident[m.Incident]
	}
	c.levelByIncident[m.Incident] = m.Level
	c.messages = append(c.messages, m)
}

// countDuplicateLocked counts messages that are accepted a second time, except those that say that they may be a
// repeat: their first delivery was in doubt.
func (c *slackRecorder) countDuplicateLocked(s sentMessage) {
	key := s.key()
	if key == "" || s.edit {
		return
	}
	if c.accepted[key] && !strings.Contains(s.text, "This may be a repeat") {
		c.duplicates++
	}
	c.accepted[key] = true
}

// prefixPattern matches what may come before the level in a message, or in a line of its thread.
var prefixPattern = regexp.MustCompile(`^(?:<[^>]*> )*(?:DRILL · )?`)

// levelOf returns the level that a message begins with; empty: none.
func levelOf(text string) string {
	text = text[len(prefixPattern.FindString(text)):]
	for _, l := range []struct{ begins, level string }{
		{"PAGE", "page"}, {"Now a page", "page"}, {"WARNING", "warn"}, {"Down from page", "warn"},
		{"RESOLVED", "resolved"}, {"Resolved after", "resolved"},
	} {
		if strings.HasPrefix(text, l.begins) {
			return l.level
		}
	}
	return ""
}

// addTo adds the messages.
func (c *slackRecorder) addTo(e *drill.Evidence) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e.SlackCalls, e.DuplicateMessages, e.Messages = c.attemptCount, c.duplicates, slices.Clone(c.messages)
}
