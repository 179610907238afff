package app

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"headgate/runbooks/drill"
)

// maxSlackBody bounds what is read of a message, and of the answer to it.
const maxSlackBody = 1 << 20

// slackRecorder overhears what is said to Slack, and what Slack accepts. It looks at the
// wire alone, so that it sees what a person would. It is safe for concurrent use.
type slackRecorder struct {
	mu                sync.Mutex
	attemptCount      int
	accepted          map[string]bool // posts and replies, by their key
	duplicates        int
	firstAttempt      map[string]time.Time // when each post or reply was tried first
	messages          []drill.Message
	incidentByMessage map[string]string // by channel and ts of the message that stands for it
	levelByIncident   map[string]string // of incidents, as they were told last
}

func newSlackRecorder() *slackRecorder {
	return &slackRecorder{firstAttempt: make(map[string]time.Time), accepted: make(map[string]bool), incidentByMessage: make(map[string]string), levelByIncident: make(map[string]string)}
}

// sentMessage is a call that says something.
type sentMessage struct {
	edit     bool
	channel  string
	thread   string
	ts       string // of the message that is edited
	text     string
	delivery deliveryID // of the delivery; an edit has none
}

// deliveryID is what headgate writes beside a message.
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

// roundTripperFunc is a round tripper made of a function.
type roundTripperFunc func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (t roundTripperFunc) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

// wrapAttempts is headgate's end of the way: what is tried is counted there.
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

// wrapAccepted is Slack's end: what it answers is believed there.
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
	if err != nil {
		return sentMessage{}, false
	}
	form, err := url.ParseQuery(string(text))
	if err != nil {
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

// recordAccepted notes what Slack has accepted: it says so, and where the message stands.
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

// countDuplicateLocked finds what is accepted a second time. One that says that it may be a
// repeat is one that nobody could know of.
func (c *slackRecorder) countDuplicateLocked(s sentMessage) {
	key := s.key()
	if key == "" || s.edit {
		return
	}
	c.duplicates += btoi(c.accepted[key] && !strings.Contains(s.text, "This may be a repeat"))
	c.accepted[key] = true
}

func btoi(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// levelPattern finds what a message, or a line of its thread, says of how bad it is.
var levelPattern = regexp.MustCompile(`^(?:<[^>]*> )*(?:DRILL · )?(PAGE|WARNING|RESOLVED|Now a page|Resolved after|Down from page)`)

func levelOf(text string) string {
	m := levelPattern.FindStringSubmatch(text)
	if m == nil {
		return ""
	}
	switch m[1] {
	case "PAGE", "Now a page":
		return "page"
	case "WARNING", "Down from page":
		return "warn"
	default:
		return "resolved"
	}
}

// addTo fills in what has been overheard.
func (c *slackRecorder) addTo(e *drill.Evidence) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e.SlackCalls, e.DuplicateMessages, e.Messages = c.attemptCount, c.duplicates, slices.Clone(c.messages)
}
