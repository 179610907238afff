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
	s.serveCall(w, r, "webhook", id, func() object {
		c := s.channelLocked(id)
		switch {
		case err != nil:
			return errorObject("invalid_payload")
		case c == nil || c.Secret == "" || subtle.ConstantTimeCompare([]byte(c.Secret), []byte(secret)) != 1:
			return errorObject("no_service")
		case c.Archived:
			return errorObject("channel_is_archived")
		}
		if refused := validateContent(values); refused != nil {
			return refused
		}
		m := s.messageLocked(values)
		m.Thread, m.Webhook = "", true
		c.add(m)
		return object{"ok": true}
	})
}
