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

// maxOverheard bounds what is read of a message, and of the answer to it.
const maxOverheard = 1 << 20

// receiver overhears what is said to Slack, and what Slack accepts. It looks at the
// wire alone, so that it sees what a person would. It is safe for concurrent use.
type receiver struct {
	mu        sync.Mutex
	tried     int
	accepted  map[string]bool // posts and replies, by their key
	repeated  int
	made      map[string]time.Time // when each post or reply was tried first
	messages  []drill.Message
	incidents map[string]string // by channel and ts of the message that stands for it
	levels    map[string]string // of incidents, as they were told last
}

func newReceiver() *receiver {
	return &receiver{made: make(map[string]time.Time), accepted: make(map[string]bool), incidents: make(map[string]string), levels: make(map[string]string)}
}

// spoken is a call that says something.
type spoken struct {
	edit    bool
	channel string
	thread  string
	ts      string // of the message that is edited
	text    string
	name    payload // of the delivery; an edit has none
}

// payload is what headgate writes beside a message.
type payload struct {
	Incident string `json:"incident"`
	Seq      string `json:"seq"`
	Kind     string `json:"kind"`
}

func (s spoken) key() string {
	if s.name.Incident == "" {
		return ""
	}
	return s.name.Incident + " " + s.name.Seq + " " + s.name.Kind
}

// trip is a round tripper made of a function.
type trip func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (t trip) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

// attempts is headgate's end of the way: what is tried is counted there.
func (c *receiver) attempts(next http.RoundTripper) http.RoundTripper {
	return trip(func(r *http.Request) (*http.Response, error) {
		if s, ok := hear(r); ok {
			c.mu.Lock()
			c.tried++
			if _, known := c.made[s.key()]; !known && s.key() != "" {
				c.made[s.key()] = time.Now()
			}
			c.mu.Unlock()
		}
		return next.RoundTrip(r)
	})
}

// acceptances is Slack's end: what it answers is believed there.
func (c *receiver) acceptances(next http.RoundTripper) http.RoundTripper {
	return trip(func(r *http.Request) (*http.Response, error) {
		s, ok := hear(r)
		res, err := next.RoundTrip(r)
		if err != nil || !ok {
			return res, err
		}
		text, err := io.ReadAll(io.LimitReader(res.Body, maxOverheard))
		_ = res.Body.Close() // it has been read
		if err != nil {
			return nil, err
		}
		res.Body = io.NopCloser(bytes.NewReader(text))
		c.answered(s, text, time.Now())
		return res, nil
	})
}

// hear reads a call that posts or edits.
func hear(r *http.Request) (spoken, bool) {
	edit := strings.HasSuffix(r.URL.Path, "/chat.update")
	if !edit && !strings.HasSuffix(r.URL.Path, "/chat.postMessage") || r.GetBody == nil {
		return spoken{}, false
	}
	body, err := r.GetBody()
	if err != nil {
		return spoken{}, false
	}
	defer body.Close()
	text, err := io.ReadAll(io.LimitReader(body, maxOverheard))
	if err != nil {
		return spoken{}, false
	}
	form, err := url.ParseQuery(string(text))
	if err != nil {
		return spoken{}, false
	}
	s := spoken{
		edit: edit, channel: form.Get("channel"), thread: form.Get("thread_ts"), ts: form.Get("ts"),
		text: strings.Join(append([]string{form.Get("text")}, blockTexts(form.Get("blocks"))...), "\n"),
	}
	var meta struct {
		Payload payload `json:"event_payload"`
	}
	if json.Unmarshal([]byte(form.Get("metadata")), &meta) == nil {
		s.name = meta.Payload
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

// answered notes what Slack has accepted: it says so, and where the message stands.
func (c *receiver) answered(s spoken, text []byte, now time.Time) {
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
	m := drill.Message{Incident: s.name.Incident, Kind: "post", Channel: s.channel, Text: s.text, Accepted: now}
	switch {
	case s.edit:
		m.Kind, m.Incident = "edit", c.incidents[a.Channel+" "+a.TS]
	case s.thread != "":
		m.Kind = "reply"
	default:
		c.incidents[a.Channel+" "+a.TS] = m.Incident
	}
	c.acceptLocked(s)
	m.Made = c.made[s.key()]
	if m.Level = levelOf(s.text); m.Level == "" {
		m.Level = c.levels[m.Incident]
	}
	c.levels[m.Incident] = m.Level
	c.messages = append(c.messages, m)
}

// acceptLocked finds what is accepted a second time. One that says that it may be a
// repeat is one that nobody could know of.
func (c *receiver) acceptLocked(s spoken) {
	key := s.key()
	if key == "" || s.edit {
		return
	}
	c.repeated += one(c.accepted[key] && !strings.Contains(s.text, "This may be a repeat"))
	c.accepted[key] = true
}

func one(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// leveled finds what a message, or a line of its thread, says of how bad it is.
var leveled = regexp.MustCompile(`^(?:<[^>]*> )*(?:DRILL · )?(PAGE|WARNING|RESOLVED|Now a page|Resolved after|Down from page)`)

func levelOf(text string) string {
	m := leveled.FindStringSubmatch(text)
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

// see fills in what has been overheard.
func (c *receiver) see(e *drill.Evidence) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e.Tried, e.Repeated, e.Messages = c.tried, c.repeated, slices.Clone(c.messages)
}
