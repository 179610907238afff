package fakeslack

import (
	"crypto/subtle"
	"net/http"
)

// serveWebhook takes what an incoming webhook is sent: its answers are text, and
// do not say where the message stands.
func (s *Server) serveWebhook(w http.ResponseWriter, r *http.Request) {
	id, secret := r.PathValue("channel"), r.PathValue("secret")
	values, err := arguments(r)
	s.serve(w, r, "webhook", id, func() reply {
		c := s.channelLocked(id)
		switch {
		case err != nil:
			return refusal("invalid_payload")
		case c == nil || c.Secret == "" || subtle.ConstantTimeCompare([]byte(c.Secret), []byte(secret)) != 1:
			return refusal("no_service")
		case c.Archived:
			return refusal("channel_is_archived")
		}
		if refused := content(values); refused != nil {
			return refused
		}
		m := s.messageLocked(values)
		m.Thread, m.Webhook = "", true
		c.add(m)
		return reply{"ok": true}
	})
}
