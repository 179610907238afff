package fakeslack

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
)

// Message is a message as it stands.
type Message struct {
	Channel   string
	TS        string
	Thread    string // ts of the root; empty: it is one
	Broadcast bool   // a reply that is shown in the channel too
	Text      string
	Blocks    json.RawMessage // nil: none
	Metadata  json.RawMessage // nil: none
	Webhook   bool
	OnlyFor   string    // ID of the user who alone sees it; empty: everybody does
	Author    string    // empty: the app
	File      string    // name of the file that came with it
	Versions  []Version // earlier ones, oldest first
	Pings     []string  // mentions that notified somebody: those of the first version
}

// Version is a message before an edit.
type Version struct {
	Text   string
	Blocks json.RawMessage
}

// Call is one request.
type Call struct {
	Method  string // webhook for a webhook
	Channel string
	Error   string // of the answer, or the fault's kind
}

// Messages returns what stands in a channel, replies too, in the order in which
// it came.
func (s *Server) Messages(channelID string) []Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.channelLocked(channelID)
	if c == nil {
		return nil
	}
	ms := make([]Message, 0, len(c.messages))
	for _, m := range c.messages {
		copied := *m
		copied.Versions, copied.Pings = slices.Clone(m.Versions), slices.Clone(m.Pings)
		ms = append(ms, copied)
	}
	return ms
}

// Roots returns the messages of a channel that are not replies.
func (s *Server) Roots(channelID string) []Message {
	return slices.DeleteFunc(s.Messages(channelID), func(m Message) bool { return m.Thread != "" })
}

// Replies returns the thread below a message, without it.
func (s *Server) Replies(channelID, ts string) []Message {
	return slices.DeleteFunc(s.Messages(channelID), func(m Message) bool { return m.Thread != ts })
}

// Delete removes a message, as a person would. It says whether it was there.
func (s *Server) Delete(channelID, ts string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.channelLocked(channelID)
	return c != nil && c.remove(ts)
}

// Calls returns the requests to the API and to webhooks so far, oldest first.
func (s *Server) Calls() []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls)
}

// Count returns how many calls of a method there were.
func (s *Server) Count(method string) int {
	n := 0
	for _, c := range s.Calls() {
		if c.Method == method {
			n++
		}
	}
	return n
}

func (c *channel) find(ts string) *Message {
	i, ok := c.index(ts)
	if !ok {
		return nil
	}
	return c.messages[i]
}

func (c *channel) index(ts string) (int, bool) {
	return slices.BinarySearchFunc(c.messages, ts, func(m *Message, ts string) int { return strings.Compare(m.TS, ts) })
}

func (c *channel) remove(ts string) bool {
	i, ok := c.index(ts)
	if ok {
		c.messages = slices.Delete(c.messages, i, i+1)
	}
	return ok
}

func (c *channel) add(m *Message) {
	m.Channel = c.ID
	m.Pings = mention.FindAllString(m.Text+" "+string(m.Blocks), -1)
	slices.Sort(m.Pings)
	m.Pings = slices.Compact(m.Pings)
	c.messages = append(c.messages, m)
	if n := len(c.messages) - maxMessages; n > 0 {
		c.messages = slices.Delete(c.messages, 0, n)
	}
}

func (m *Message) edit(text string, blocks json.RawMessage) {
	if len(m.Versions) == maxVersions {
		m.Versions = slices.Delete(m.Versions, 1, 2)
	}
	m.Versions = append(m.Versions, Version{Text: m.Text, Blocks: m.Blocks})
	m.Text, m.Blocks = text, blocks
}

// mention matches what notifies people. A group may carry a label.
var mention = regexp.MustCompile(`<(?:!here|!channel|!everyone|!subteam\^S[A-Z0-9]+|@U[A-Z0-9]+)(?:\|[^>]*)?>`)
