package fakeslack

import (
	"encoding/json"
	"fmt"
	"net/url"
	"time"
	"unicode/utf8"
)

// writableChannel finds the channel that a call writes to.
func (s *Server) writableChannel(v url.Values) (*channel, object) {
	c := s.channelLocked(v.Get("channel"))
	switch {
	case c == nil:
		return nil, errorObject("channel_not_found")
	case c.Archived:
		return nil, errorObject("is_archived")
	case !c.Member:
		return nil, errorObject("not_in_channel")
	}
	return c, nil
}

func (s *Server) post(v url.Values) object {
	c, refused := s.writableChannel(v)
	if refused != nil {
		return refused
	}
	if refused := validateContent(v); refused != nil {
		return refused
	}
	if now := s.o.Now(); s.o.RateLimited {
		if now.Sub(c.lastPost) < time.Second {
			return errorObject("ratelimited")
		}
		c.lastPost = now
	}
	m := s.messageLocked(v)
	if m.Thread != "" && c.find(m.Thread) == nil {
		m.Thread = "" // the root is gone: it goes to the channel
	}
	c.add(m)
	return object{"ok": true, "channel": c.ID, "ts": m.TS, "message": m.object(true)}
}

func (s *Server) messageLocked(v url.Values) *Message {
	return &Message{
		TS: s.tsLocked(), Thread: v.Get("thread_ts"), Broadcast: v.Get("reply_broadcast") == "true",
		Text: v.Get("text"), Blocks: rawJSON(v.Get("blocks")), Metadata: rawJSON(v.Get("metadata")),
	}
}

func (s *Server) update(v url.Values) object {
	c, refused := s.writableChannel(v)
	if refused != nil {
		return refused
	}
	m := c.find(v.Get("ts"))
	if m == nil {
		return errorObject("message_not_found")
	}
	if refused := validateContent(v); refused != nil {
		return refused
	}
	m.edit(v.Get("text"), rawJSON(v.Get("blocks")))
	if md := rawJSON(v.Get("metadata")); md != nil {
		m.Metadata = md
	}
	return object{"ok": true, "channel": c.ID, "ts": m.TS, "text": m.Text, "message": m.object(true)}
}

func (s *Server) deleteMessage(v url.Values) object {
	c, refused := s.writableChannel(v)
	if refused != nil {
		return refused
	}
	if !c.remove(v.Get("ts")) {
		return errorObject("message_not_found")
	}
	return object{"ok": true, "channel": c.ID, "ts": v.Get("ts")}
}

// object returns a message as answers have it.
func (m *Message) object(metadata bool) object {
	r := object{"type": "message", "ts": m.TS, "text": m.Text, "bot_id": "B0FAKE", "user": "U0FAKE"}
	if m.Thread != "" {
		r["thread_ts"] = m.Thread
	}
	if m.Broadcast {
		r["subtype"] = "thread_broadcast"
	}
	if m.Blocks != nil {
		r["blocks"] = m.Blocks
	}
	if metadata && m.Metadata != nil {
		r["metadata"] = m.Metadata
	}
	if len(m.Versions) > 0 {
		r["edited"] = object{"user": "U0FAKE", "ts": m.TS}
	}
	return r
}

func rawJSON(text string) json.RawMessage {
	if text == "" || text == "null" || text == "[]" || !json.Valid([]byte(text)) {
		return nil
	}
	return json.RawMessage(text)
}

// Limits of a message.
const (
	maxText   = 40_000
	maxBlocks = 50
	maxAll    = 11_000 // characters of all blocks together
)

// validateContent refuses what Slack refuses.
func validateContent(v url.Values) object {
	text, blocks := v.Get("text"), v.Get("blocks")
	if blocks != "" && !json.Valid([]byte(blocks)) {
		return invalidBlocks("not JSON")
	}
	if text == "" && rawJSON(blocks) == nil {
		return errorObject("no_text")
	}
	if utf8.RuneCountInString(text) > maxText {
		return errorObject("msg_too_long")
	}
	if rawJSON(blocks) == nil {
		return nil
	}
	var all []block
	if err := json.Unmarshal([]byte(blocks), &all); err != nil {
		return invalidBlocks(err.Error())
	}
	if wrong := checkBlocks(all); len(wrong) > 0 {
		return invalidBlocks(wrong...)
	}
	total := 0
	for _, b := range all {
		total += b.size()
	}
	if total > maxAll {
		return errorObject("msg_blocks_too_long")
	}
	return nil
}

// block is what is looked at in a block.
type block struct {
	Type      string    `json:"type"`
	ID        string    `json:"block_id"`
	Text      *text     `json:"text"`
	Fields    []text    `json:"fields"`
	Elements  []element `json:"elements"`
	Accessory *element  `json:"accessory"`
}

type text struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// element is part of a context, whose text is a string, or a button, whose text
// is an object.
type element struct {
	Type string          `json:"type"`
	Text json.RawMessage `json:"text"`
	URL  string          `json:"url"`

	// Of a button.
	Action  string        `json:"action_id"`
	Value   string        `json:"value"`
	Style   string        `json:"style"`
	Confirm *confirmation `json:"confirm"`
}

func (e element) plainText() string {
	var plain string
	if json.Unmarshal(e.Text, &plain) == nil {
		return plain
	}
	var t text
	_ = json.Unmarshal(e.Text, &t) // what is neither has no words
	return t.Text
}

func (b block) size() int {
	n := 0
	if b.Text != nil {
		n += utf8.RuneCountInString(b.Text.Text)
	}
	for _, f := range b.Fields {
		n += utf8.RuneCountInString(f.Text)
	}
	for _, e := range b.Elements {
		n += utf8.RuneCountInString(e.plainText())
	}
	return n
}

func checkBlocks(all []block) (wrong []string) {
	if len(all) > maxBlocks {
		wrong = append(wrong, "no more than 50 items allowed [json-pointer:/blocks]")
	}
	ids := make(map[string]bool)
	for i, b := range all {
		if b.ID != "" && ids[b.ID] {
			wrong = append(wrong, fmt.Sprintf("block_id is not unique [json-pointer:/blocks/%d/block_id]", i))
		}
		ids[b.ID] = true
		for _, w := range b.check() {
			wrong = append(wrong, fmt.Sprintf("%s [json-pointer:/blocks/%d]", w, i))
		}
	}
	return wrong
}

func (b block) check() (wrong []string) {
	limit := func(t text, n int) {
		if c := utf8.RuneCountInString(t.Text); c == 0 || c > n {
			wrong = append(wrong, fmt.Sprintf("text must have 1 to %d characters, it has %d", n, c))
		}
	}
	if len(b.ID) > 255 {
		wrong = append(wrong, "block_id must be shorter than 256 characters")
	}
	switch b.Type {
	case "header":
		if b.Text == nil || b.Text.Type != "plain_text" {
			return append(wrong, "a header needs plain_text")
		}
		limit(*b.Text, 150)
	case "section":
		if b.Text == nil && len(b.Fields) == 0 {
			return append(wrong, "a section needs text or fields")
		}
		if b.Text != nil {
			limit(*b.Text, 3000)
		}
		if len(b.Fields) > 10 {
			wrong = append(wrong, "no more than 10 fields allowed")
		}
		for _, f := range b.Fields {
			limit(f, 2000)
		}
	case "context", "actions":
		if n := len(b.Elements); n == 0 || n > 25 || (b.Type == "context" && n > 10) {
			wrong = append(wrong, fmt.Sprintf("%d elements", n))
		}
	case "divider", "image", "rich_text":
	default:
		wrong = append(wrong, "unsupported type: "+b.Type)
	}
	return append(wrong, b.checkButtons()...)
}
