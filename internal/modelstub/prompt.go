package modelstub

import (
	"encoding/json"
	"strings"
)

// bytesPerToken is the usual rule of thumb for English text.
const bytesPerToken = 4

// prompt is what a request says to the model: how much, and the text of the
// user when the user spoke last.
type prompt struct {
	bytes    int
	userText string
}

func (p prompt) tokens() int { return max(p.bytes/bytesPerToken, 1) }

// isNull also holds for a field that was not sent.
func isNull(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

// readMessages weighs chat messages or /v1/responses items.
func readMessages(messages []message) prompt {
	var p prompt
	for _, m := range messages {
		text := contentText(m.Content)
		p.bytes += len(text) + len(contentText(m.Output))
		p.userText = ""
		if m.Role == "user" {
			p.userText = text
		}
	}
	return p
}

// contentText returns a content's text: a string, or the text of its parts. A
// part without text, such as an image, counts with its JSON.
func contentText(raw json.RawMessage) string {
	if isNull(raw) {
		return ""
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var parts []struct {
		Text *string `json:"text"`
	}
	if json.Unmarshal(raw, &parts) != nil {
		return string(raw)
	}
	var b strings.Builder
	for _, part := range parts {
		if part.Text == nil {
			return string(raw)
		}
		b.WriteString(*part.Text)
	}
	return b.String()
}

// addTools weighs the tool descriptions, which a model reads too.
func (p *prompt) addTools(tools []json.RawMessage) {
	for _, t := range tools {
		p.bytes += len(t)
	}
}
