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
	maxResponseUses  = 5
	responseLifetime = 30 * time.Minute
	maxResponseURLs  = 1_000 // the oldest go first
)

// responseURL is a response URL.
type responseURL struct {
	id            string
	channel, user string
	ts            string // of the message whose button was pressed
	uses          int
	expires       time.Time
}

// addResponseURLLocked gives an interaction its response URL.
func (s *Server) addResponseURLLocked(i *Interaction, kind string) {
	h := &responseURL{id: rand.Text(), channel: i.Channel, user: i.User.ID, ts: i.TS, expires: i.At.Add(responseLifetime)}
	if len(s.responseURLs) == maxResponseURLs {
		s.responseURLs = slices.Delete(s.responseURLs, 0, 1)
	}
	s.responseURLs = append(s.responseURLs, h)
	i.ResponseURL = s.base + "/" + kind + "/" + teamID + "/" + h.id
}

// serveResponse takes what is sent to a response URL.
func (s *Server) serveResponse(w http.ResponseWriter, r *http.Request) {
	values, err := arguments(r)
	s.serveCall(w, r, "response_url", "", func() object {
		i := slices.IndexFunc(s.responseURLs, func(h *responseURL) bool { return h.id == r.PathValue("id") })
		switch {
		case err != nil:
			return errorObject("invalid_payload")
		case i < 0:
			return errorObject("invalid_url")
		case s.o.Now().After(s.responseURLs[i].expires):
			return errorObject("expired_url")
		case s.responseURLs[i].uses == maxResponseUses:
			return errorObject("used_url")
		}
		return s.respondLocked(s.responseURLs[i], values)
	})
}

func (s *Server) respondLocked(h *responseURL, v url.Values) object {
	c := s.channelLocked(h.channel)
	if c == nil {
		return errorObject("channel_not_found")
	}
	h.uses++
	if v.Get("delete_original") == "true" {
		c.remove(h.ts)
		return object{"ok": true}
	}
	if refused := validateContent(v); refused != nil {
		return refused
	}
	if v.Get("replace_original") == "true" {
		m := c.findVisible(h.ts, h.user)
		if m == nil {
			return errorObject("message_not_found")
		}
		m.edit(v.Get("text"), rawJSON(v.Get("blocks")))
		return object{"ok": true}
	}
	s.postResponseLocked(c, h.user, v.Get("response_type") == "in_channel", v.Get("text"), rawJSON(v.Get("blocks")))
	return object{"ok": true}
}

// postResponseLocked says something to everybody or to one.
func (s *Server) postResponseLocked(c *channel, userID string, everybody bool, text string, blocks json.RawMessage) {
	m := &Message{TS: s.tsLocked(), Text: text, Blocks: blocks}
	if everybody {
		c.add(m)
		return
	}
	m.OnlyFor = userID
	c.addEphemeral(m)
}

func (s *Server) postEphemeral(v url.Values) object {
	c, refused := s.writableChannel(v)
	if refused != nil {
		return refused
	}
	if _, ok := s.user(v.Get("user")); !ok {
		return errorObject("user_not_in_channel")
	}
	if refused := validateContent(v); refused != nil {
		return refused
	}
	m := s.messageLocked(v)
	m.OnlyFor = v.Get("user")
	c.addEphemeral(m)
	return object{"ok": true, "message_ts": m.TS}
}

// Ephemerals returns what only one user has been shown in a channel, oldest first.
func (s *Server) Ephemerals(channelID, userID string) []Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.channelLocked(channelID)
	if c == nil {
		return nil
	}
	var out []Message
	for _, m := range c.ephemeral {
		if m.OnlyFor == userID {
			out = append(out, *m)
		}
	}
	return out
}

// addEphemeral adds a message that one user sees.
func (c *channel) addEphemeral(m *Message) {
	m.Channel = c.ID
	if len(c.ephemeral) == maxEphemeral {
		c.ephemeral = slices.Delete(c.ephemeral, 0, 1)
	}
	c.ephemeral = append(c.ephemeral, m)
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
