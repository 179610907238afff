package fakeslack

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"strconv"
	"unicode/utf8"
)

// confirmation is what a button asks before it counts.
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

// check says what Slack would refuse about a button.
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

// checkButtons looks at all buttons of a block.
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

// buttonRef says which button of a message is meant.
type buttonRef struct {
	version string // of the message, as version returns it; empty or unknown: the present one
	block   string // empty: the first that has it
	action  string
}

// version names what a message had for blocks.
func version(blocks json.RawMessage) string {
	h := fnv.New64a()
	_, _ = h.Write(blocks) // never fails
	return strconv.FormatUint(h.Sum64(), 36)
}

// atVersion returns a message as it was in one of its versions: who has that before them
// presses its buttons, and the app has to see that things have moved on.
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

// placedButton is a button where it stands.
type placedButton struct {
	element
	block string // its block_id
}

// button finds one by its action_id, in the given block or, if that is empty, in
// the first that has it.
func (m *Message) button(blockID, actionID string) (placedButton, bool) {
	for i, b := range m.decodedBlocks() {
		id := b.id(i)
		if blockID != "" && blockID != id {
			continue
		}
		for _, e := range b.buttons() {
			if e.Action == actionID {
				return placedButton{e, id}, true
			}
		}
	}
	return placedButton{}, false
}

func (m *Message) decodedBlocks() (all []block) {
	if m.Blocks != nil {
		_ = json.Unmarshal(m.Blocks, &all) // was checked when it came
	}
	return all
}

// id is a block's own, or what Slack would make up for it.
func (b block) id(place int) string {
	if b.ID != "" {
		return b.ID
	}
	return fmt.Sprintf("b%d", place)
}
