package fakeslack

import (
	"encoding/json"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Message is a message in its present version.
type Message struct {
	Channel   string
	TS        string
	Thread    string // ts of the thread's first message; empty: it is not a reply
	Broadcast bool   // a reply that is shown in the channel too
	Text      string
	Blocks    json.RawMessage // nil: none
	Metadata  json.RawMessage // nil: none
	Webhook   bool
	OnlyFor   string    // ID of the only user who sees it; empty: everybody does
	Author    string    // empty: the app
	Versions  []Version // earlier ones, oldest first
	Pings     []string  // mentions that notified a user: those of the first version
}

// Version is a message before an edit.
type Version struct {
	Text   string
	Blocks json.RawMessage
}

// Call is one request.
type Call struct {
	Method  string // webhook for a webhook, response_url for a response URL
	Channel string
	Error   string // of the response, or the fault's kind
}

// Messages returns the messages of a channel, replies too, in the order of their ts.
func (s *Server) Messages(channelID string) []Message {
	return s.copyMessages(channelID, func(c *channel) []*Message { return c.messages })
}

func (s *Server) copyMessages(channelID string, of func(*channel) []*Message) []Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.channelLocked(channelID)
	if c == nil {
		return nil
	}
	var ms []Message
	for _, m := range of(c) {
		copied := *m
		copied.Versions, copied.Pings = slices.Clone(m.Versions), slices.Clone(m.Pings)
		ms = append(ms, copied)
	}
	return ms
}

// Roots returns the messages of a channel that are not replies.
func (s *Server) Roots(channelID string) []Message { return s.Replies(channelID, "") }

// Replies returns the thread below a message, without it.
func (s *Server) Replies(channelID, ts string) []Message {
	return slices.DeleteFunc(s.Messages(channelID), func(m Message) bool { return m.Thread != ts })
}

// Ephemerals returns the messages that only one user has seen in a channel, oldest first.
func (s *Server) Ephemerals(channelID, userID string) []Message {
	all := s.copyMessages(channelID, func(c *channel) []*Message { return c.ephemeral })
	return slices.DeleteFunc(all, func(m Message) bool { return m.OnlyFor != userID })
}

// Delete removes a message, as a person would. It says whether the message existed.
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

// Count returns the number of calls of a method.
func (s *Server) Count(method string) int {
	n := 0
	for _, c := range s.Calls() {
		if c.Method == method {
			n++
		}
	}
	return n
}

func (c *channel) index(ts string) (int, bool) {
	return slices.BinarySearchFunc(c.messages, ts, func(m *Message, ts string) int { return strings.Compare(m.TS, ts) })
}

func (c *channel) find(ts string) *Message {
	if i, ok := c.index(ts); ok {
		return c.messages[i]
	}
	return nil
}

// findVisible finds a message that a user can see.
func (c *channel) findVisible(ts, userID string) *Message {
	if m := c.find(ts); m != nil {
		return m
	}
	i := slices.IndexFunc(c.ephemeral, func(m *Message) bool { return m.TS == ts && m.OnlyFor == userID })
	if i < 0 {
		return nil
	}
	return c.ephemeral[i]
}

func (c *channel) remove(ts string) bool {
	i, ok := c.index(ts)
	if ok {
		c.messages = slices.Delete(c.messages, i, i+1)
	}
	return ok
}

// mention matches what notifies people. A group may carry a label.
var mention = regexp.MustCompile(`<(?:!here|!channel|!everyone|!subteam\^S[A-Z0-9]+|@U[A-Z0-9]+)(?:\|[^>]*)?>`)

// add adds a message for everybody, or for one user.
func (c *channel) add(m *Message) {
	m.Channel = c.ID
	if m.OnlyFor != "" {
		c.ephemeral = appendBounded(c.ephemeral, m, maxEphemeral)
		return
	}
	m.Pings = mention.FindAllString(m.Text+" "+string(m.Blocks), -1)
	slices.Sort(m.Pings)
	m.Pings = slices.Compact(m.Pings)
	c.messages = appendBounded(c.messages, m, maxMessages)
}

func (m *Message) edit(v url.Values) {
	if len(m.Versions) == maxVersions {
		m.Versions = slices.Delete(m.Versions, 1, 2)
	}
	m.Versions = append(m.Versions, Version{Text: m.Text, Blocks: m.Blocks})
	m.Text, m.Blocks = v.Get("text"), rawJSON(v.Get("blocks"))
	if md := rawJSON(v.Get("metadata")); md != nil {
		m.Metadata = md
	}
}

// object returns a message as responses contain it.
func (m *Message) object(metadata bool) object {
	r := object{"type": "message", "ts": m.TS, "text": m.Text, "bot_id": "B0FAKE", "user": botUser}
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
		r["edited"] = object{"user": botUser, "ts": m.TS}
	}
	return r
}

func (s *Server) post(c *channel, v url.Values) object {
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
		m.Thread = "" // the thread was deleted: Slack posts in the channel
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

func (s *Server) postEphemeral(c *channel, v url.Values) object {
	if _, ok := s.user(v.Get("user")); !ok {
		return errorObject("user_not_in_channel")
	}
	if refused := validateContent(v); refused != nil {
		return refused
	}
	m := s.messageLocked(v)
	m.OnlyFor = v.Get("user")
	c.add(m)
	return object{"ok": true, "message_ts": m.TS}
}

func (s *Server) update(c *channel, v url.Values) object {
	m := c.find(v.Get("ts"))
	if m == nil {
		return errorObject("message_not_found")
	}
	if refused := validateContent(v); refused != nil {
		return refused
	}
	m.edit(v)
	return object{"ok": true, "channel": c.ID, "ts": m.TS, "text": m.Text, "message": m.object(true)}
}

func (s *Server) deleteMessage(c *channel, v url.Values) object {
	if !c.remove(v.Get("ts")) {
		return errorObject("message_not_found")
	}
	return object{"ok": true, "channel": c.ID, "ts": v.Get("ts")}
}

func (s *Server) info(c *channel, _ url.Values) object {
	return object{"ok": true, "channel": object{
		"id": c.ID, "name": c.Name, "is_channel": true, "is_member": c.Member, "is_archived": c.Archived,
	}}
}

// history returns messages, newest first.
func (s *Server) history(c *channel, v url.Values) object {
	ms := filterMessages(c.messages, v, func(m *Message) bool { return m.Thread == "" || m.Broadcast })
	slices.Reverse(ms)
	return paginate(ms, v)
}

// replies returns a thread, its first message included.
func (s *Server) replies(c *channel, v url.Values) object {
	root := c.find(v.Get("ts"))
	if root == nil {
		return errorObject("thread_not_found")
	}
	ms := filterMessages(c.messages, v, func(m *Message) bool { return m.Thread == root.TS })
	return paginate(slices.Insert(ms, 0, root), v)
}

// filterMessages returns the messages between oldest and latest for which keep returns true.
func filterMessages(all []*Message, v url.Values, keep func(*Message) bool) (ms []*Message) {
	oldest, latest, inclusive := v.Get("oldest"), v.Get("latest"), isTrue(v, "inclusive")
	for _, m := range all {
		after := oldest == "" || cmpTS(m.TS, oldest) > 0 || inclusive && cmpTS(m.TS, oldest) == 0
		before := latest == "" || cmpTS(m.TS, latest) < 0 || inclusive && cmpTS(m.TS, latest) == 0
		if after && before && keep(m) {
			ms = append(ms, m)
		}
	}
	return ms
}

func isTrue(v url.Values, name string) bool { return v.Get(name) == "1" || v.Get(name) == "true" }

// cmpTS compares two ts by their seconds, then their fractions.
func cmpTS(a, b string) int {
	as, _, _ := strings.Cut(a, ".")
	bs, _, _ := strings.Cut(b, ".")
	if len(as) != len(bs) {
		return len(as) - len(bs)
	}
	return strings.Compare(a, b)
}

// paginate returns one page of messages. A cursor is the number of messages before it.
func paginate(ms []*Message, v url.Values) object {
	limit, err := strconv.Atoi(v.Get("limit"))
	if err != nil || limit <= 0 || limit > 999 {
		limit = 100
	}
	skip, err := strconv.Atoi(v.Get("cursor"))
	if v.Get("cursor") != "" && (err != nil || skip < 0) {
		return errorObject("invalid_cursor")
	}
	ms = ms[min(skip, len(ms)):]
	out, next := []object{}, ""
	for i, m := range ms {
		if i == limit {
			next = strconv.Itoa(skip + limit)
			break
		}
		out = append(out, m.object(isTrue(v, "include_all_metadata")))
	}
	return object{
		"ok": true, "messages": out, "has_more": next != "",
		"response_metadata": object{"next_cursor": next},
	}
}
