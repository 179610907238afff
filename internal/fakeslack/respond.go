package fakeslack

import (
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"time"
)

// Bounds of response URLs, as Slack has them, and of how many are kept.
const (
	maxResponses = 5
	responseLife = 30 * time.Minute
	maxHooks     = 1_000 // the oldest go first
)

// hook is a response URL.
type hook struct {
	id            string
	channel, user string
	ts            string // of the message whose button was pressed
	uses          int
	until         time.Time
}

// hookLocked gives an interaction its response URL.
func (s *Server) hookLocked(i *Interaction, kind string) {
	h := &hook{id: rand.Text(), channel: i.Channel, user: i.User.ID, ts: i.TS, until: i.At.Add(responseLife)}
	if len(s.hooks) == maxHooks {
		s.hooks = slices.Delete(s.hooks, 0, 1)
	}
	s.hooks = append(s.hooks, h)
	i.ResponseURL = s.base + "/" + kind + "/" + teamID + "/" + h.id
}

// serveResponse takes what is sent to a response URL.
func (s *Server) serveResponse(w http.ResponseWriter, r *http.Request) {
	values, err := arguments(r)
	s.serve(w, r, "response_url", "", func() reply {
		i := slices.IndexFunc(s.hooks, func(h *hook) bool { return h.id == r.PathValue("id") })
		switch {
		case err != nil:
			return refusal("invalid_payload")
		case i < 0:
			return refusal("invalid_url")
		case s.o.Now().After(s.hooks[i].until):
			return refusal("expired_url")
		case s.hooks[i].uses == maxResponses:
			return refusal("used_url")
		}
		return s.respondLocked(s.hooks[i], values)
	})
}

func (s *Server) respondLocked(h *hook, v url.Values) reply {
	c := s.channelLocked(h.channel)
	if c == nil {
		return refusal("channel_not_found")
	}
	h.uses++
	if v.Get("delete_original") == "true" {
		c.remove(h.ts)
		return reply{"ok": true}
	}
	if refused := content(v); refused != nil {
		return refused
	}
	if v.Get("replace_original") == "true" {
		m := c.seen(h.ts, h.user)
		if m == nil {
			return refusal("message_not_found")
		}
		m.edit(v.Get("text"), raw(v.Get("blocks")))
		return reply{"ok": true}
	}
	s.sayLocked(c, h.user, v.Get("response_type") == "in_channel", v.Get("text"), raw(v.Get("blocks")))
	return reply{"ok": true}
}

// sayLocked says something to everybody or to one.
func (s *Server) sayLocked(c *channel, userID string, everybody bool, text string, blocks json.RawMessage) {
	m := &Message{TS: s.tsLocked(), Text: text, Blocks: blocks}
	if everybody {
		c.add(m)
		return
	}
	m.To = userID
	c.whisper(m)
}

func (s *Server) postEphemeral(v url.Values) reply {
	c, refused := s.into(v)
	if refused != nil {
		return refused
	}
	if _, ok := s.user(v.Get("user")); !ok {
		return refusal("user_not_in_channel")
	}
	if refused := content(v); refused != nil {
		return refused
	}
	m := s.messageLocked(v)
	m.To = v.Get("user")
	c.whisper(m)
	return reply{"ok": true, "message_ts": m.TS}
}

// Whispers returns what only one user has been shown in a channel, oldest first.
func (s *Server) Whispers(channelID, userID string) []Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.channelLocked(channelID)
	if c == nil {
		return nil
	}
	var out []Message
	for _, m := range c.whispers {
		if m.To == userID {
			out = append(out, *m)
		}
	}
	return out
}

// whisper adds a message that one user sees.
func (c *channel) whisper(m *Message) {
	m.Channel = c.ID
	if len(c.whispers) == maxWhispers {
		c.whispers = slices.Delete(c.whispers, 0, 1)
	}
	c.whispers = append(c.whispers, m)
}

// seen finds a message that a user can see.
func (c *channel) seen(ts, userID string) *Message {
	if m := c.find(ts); m != nil {
		return m
	}
	i := slices.IndexFunc(c.whispers, func(m *Message) bool { return m.TS == ts && m.To == userID })
	if i < 0 {
		return nil
	}
	return c.whispers[i]
}
