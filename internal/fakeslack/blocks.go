package fakeslack

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"net/url"
	"strconv"
	"unicode/utf8"
)

// Limits of a message.
const (
	maxText   = 40_000
	maxBlocks = 50
	maxAll    = 11_000 // characters of all blocks together
)

// validateContent rejects what Slack rejects.
func validateContent(v url.Values) object {
	text, raw := v.Get("text"), v.Get("blocks")
	blocks := rawJSON(raw)
	switch {
	case raw != "" && !json.Valid([]byte(raw)):
		return invalidBlocks("not JSON")
	case text == "" && blocks == nil:
		return errorObject("no_text")
	case utf8.RuneCountInString(text) > maxText:
		return errorObject("msg_too_long")
	case blocks == nil:
		return nil
	}
	var all []block
	if err := json.Unmarshal(blocks, &all); err != nil {
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

// block holds the fields of a block that are validated or shown.
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

// element is part of a context, whose text is a string, or a button, whose text is an object.
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
	_ = json.Unmarshal(e.Text, &t) // anything else has no text
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

// confirmation is a dialog before a button press takes effect.
type confirmation struct {
	Title   text   `json:"title"`
	Text    text   `json:"text"`
	Confirm text   `json:"confirm"`
	Deny    text   `json:"deny"`
	Style   string `json:"style"`
}

const (
	maxButtonText  = 75
	maxButtonValue = 2000
	maxActionID    = 255
	maxButtonURL   = 3000
)

// check returns what Slack would reject about a button.
func (e element) check() (wrong []string) {
	atMost := func(what, s string, n int) {
		if c := utf8.RuneCountInString(s); c > n {
			wrong = append(wrong, fmt.Sprintf("%s must have at most %d characters, it has %d", what, n, c))
		}
	}
	if e.plainText() == "" {
		wrong = append(wrong, "a button needs text")
	}
	atMost("a button's text", e.plainText(), maxButtonText)
	atMost("a button's value", e.Value, maxButtonValue)
	atMost("action_id", e.Action, maxActionID)
	atMost("a button's url", e.URL, maxButtonURL)
	if e.Style != "" && e.Style != "primary" && e.Style != "danger" {
		wrong = append(wrong, fmt.Sprintf("a button's style must be primary or danger, it is %q", e.Style))
	}
	if c := e.Confirm; c != nil {
		atMost("a confirmation's title", c.Title.Text, 100)
		atMost("a confirmation's text", c.Text.Text, 300)
		atMost("a confirmation's confirm", c.Confirm.Text, 30)
		atMost("a confirmation's deny", c.Deny.Text, 30)
		if c.Text.Text == "" {
			wrong = append(wrong, "a confirmation needs text")
		}
	}
	return wrong
}

// checkButtons checks all buttons of a block.
func (b block) checkButtons() (wrong []string) {
	seen := make(map[string]bool)
	for _, e := range b.buttons() {
		wrong = append(wrong, e.check()...)
		if e.Action != "" && seen[e.Action] {
			wrong = append(wrong, fmt.Sprintf("action_id %q is not unique in its block", e.Action))
		}
		seen[e.Action] = true
	}
	return wrong
}

func (b block) buttons() (out []element) {
	all := b.Elements
	if b.Accessory != nil {
		all = append(all[:len(all):len(all)], *b.Accessory)
	}
	for _, e := range all {
		if e.Type == "button" {
			out = append(out, e)
		}
	}
	return out
}

// buttonRef identifies a button of a message.
type buttonRef struct {
	version string // of the message, as version returns it; empty or unknown: the present one
	block   string // empty: the first that has it
	action  string
}

// version identifies the blocks of a version of a message.
func version(blocks json.RawMessage) string {
	h := fnv.New64a()
	_, _ = h.Write(blocks) // never fails
	return strconv.FormatUint(h.Sum64(), 36)
}

// atVersion returns a message in one of its versions: a user may press a button of an outdated page, and the app has to
// notice.
func (m *Message) atVersion(v string) *Message {
	for _, old := range m.Versions {
		if version(old.Blocks) == v && v != version(m.Blocks) {
			was := *m
			was.Text, was.Blocks = old.Text, old.Blocks
			return &was
		}
	}
	return m
}

// button finds one by its action_id, in the given block or, if that is empty, in the first that has it. It also returns
// the ID of its block.
func (m *Message) button(blockID, actionID string) (element, string, bool) {
	for i, b := range m.decodedBlocks() {
		id := b.id(i)
		if blockID != "" && blockID != id {
			continue
		}
		for _, e := range b.buttons() {
			if e.Action == actionID {
				return e, id, true
			}
		}
	}
	return element{}, "", false
}

func (m *Message) decodedBlocks() (all []block) {
	if m.Blocks != nil {
		_ = json.Unmarshal(m.Blocks, &all) // validated on arrival
	}
	return all
}

// id is a block's own, or one that Slack would generate.
func (b block) id(index int) string {
	if b.ID != "" {
		return b.ID
	}
	return fmt.Sprintf("b%d", index)
}

func rawJSON(text string) json.RawMessage {
	if text == "" || text == "null" || text == "[]" || !json.Valid([]byte(text)) {
		return nil
	}
	return json.RawMessage(text)
}
