package fakeslack

import (
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// object is the body of a response.
type object map[string]any

func errorObject(code string) object { return object{"ok": false, "error": code} }

func invalidBlocks(messages ...string) object {
	return object{"ok": false, "error": "invalid_blocks", "response_metadata": object{"messages": messages}}
}

func writeJSON(w http.ResponseWriter, body object) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	_ = json.NewEncoder(w).Encode(body) // fails when the caller has gone
}

// scopeConnections is the scope of Socket Mode. Only app-level tokens have it.
const scopeConnections = "connections:write"

// access is what a method needs of its channel. Each level includes those before it.
type access int

const (
	noChannel access = iota
	exists
	member
	writable
)

// method is one method of the API. Its handler is called with the lock held, and with the channel if it needs one.
type method struct {
	scope  string
	access access
	handle func(*Server, *channel, url.Values) object
}

func methods() map[string]method {
	return map[string]method{
		"auth.test":             {"", noChannel, (*Server).authTest},
		"chat.postMessage":      {"chat:write", writable, (*Server).post},
		"chat.update":           {"chat:write", writable, (*Server).update},
		"chat.delete":           {"chat:write", writable, (*Server).deleteMessage},
		"chat.postEphemeral":    {"chat:write", writable, (*Server).postEphemeral},
		"apps.connections.open": {scopeConnections, noChannel, (*Server).openConnection},
		"conversations.info":    {"channels:read", exists, (*Server).info},
		"conversations.history": {"channels:history", member, (*Server).history},
		"conversations.replies": {"channels:history", member, (*Server).replies},
	}
}

func (s *Server) serveAPI(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("method")
	values, err := arguments(r)
	if err != nil {
		writeJSON(w, errorObject("invalid_arguments"))
		return
	}
	w.Header().Set("X-Oauth-Scopes", strings.Join(s.o.Scopes, ","))
	s.serveCall(w, r, name, values.Get("channel"), func() object { return s.call(name, r, values) })
}

// serveCall performs a call unless a fault prevents it, and records it.
func (s *Server) serveCall(w http.ResponseWriter, r *http.Request, name, channelID string, do func() object) {
	s.mu.Lock()
	f := s.matchFaultLocked(name, channelID)
	s.mu.Unlock()
	call := Call{Method: name, Channel: channelID, Error: string(f.Kind)}
	if f.preventsCall() {
		s.recordCall(call) // before the response, so that its receiver finds the call
		f.respond(w, r)
		return
	}
	if f.Kind == Slow {
		f.respond(w, r)
	}
	s.mu.Lock()
	body := do()
	s.mu.Unlock()
	if code, _ := body["error"].(string); code != "" {
		call.Error = code
	}
	s.recordCall(call)
	if f.Kind == Slow || !f.respond(w, r) {
		writeResult(w, name, body)
	}
}

// writeResult writes the response of a call. Webhooks and response URLs answer in text.
func writeResult(w http.ResponseWriter, name string, body object) {
	code, _ := body["error"].(string)
	switch {
	case code == "ratelimited":
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusTooManyRequests)
	case name != "webhook" && name != "response_url":
		writeJSON(w, body)
	case code == "":
		fmt.Fprint(w, "ok")
	case code == "invalid_payload", code == "no_text", code == "invalid_blocks":
		http.Error(w, code, http.StatusBadRequest)
	case code == "channel_is_archived":
		http.Error(w, code, http.StatusGone)
	default:
		http.Error(w, code, http.StatusNotFound)
	}
}

func (s *Server) recordCall(c Call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = appendBounded(s.calls, c, maxCalls)
}

// call checks the token, its scopes and the channel.
func (s *Server) call(name string, r *http.Request, values url.Values) object {
	m, ok := methods()[name]
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	if token == "" {
		token = values.Get("token")
	}
	want := s.o.Token
	if m.scope == scopeConnections {
		want = s.o.AppToken
	}
	switch {
	case !ok:
		return errorObject("unknown_method")
	case token == "":
		return errorObject("not_authed")
	case strings.HasPrefix(token, "xapp-") != (m.scope == scopeConnections):
		return errorObject("not_allowed_token_type")
	case want != "" && token != want:
		return errorObject("invalid_auth")
	case m.scope != "" && m.scope != scopeConnections && !slices.Contains(s.o.Scopes, m.scope):
		return object{"ok": false, "error": "missing_scope", "needed": m.scope, "provided": strings.Join(s.o.Scopes, ",")}
	}
	s.base = "http://" + r.Host // only the app calls the API
	c := s.channelLocked(values.Get("channel"))
	switch {
	case m.access >= exists && c == nil:
		return errorObject("channel_not_found")
	case m.access >= writable && c.Archived:
		return errorObject("is_archived")
	case m.access >= member && !c.Member:
		return errorObject("not_in_channel")
	}
	return m.handle(s, c, values)
}

// arguments reads a form, or JSON. Values of JSON that are not text stay JSON.
func arguments(r *http.Request) (url.Values, error) {
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if kind != "application/json" {
		err := r.ParseForm()
		return r.Form, err
	}
	var raw map[string]json.RawMessage
	if err := json.NewDecoder(r.Body).Decode(&raw); err != nil && !errors.Is(err, io.EOF) { // an empty body has no arguments
		return nil, fmt.Errorf("the body is not a JSON object: %w", err)
	}
	if len(raw) > 100 {
		return nil, errors.New("more than 100 arguments")
	}
	values := make(url.Values, len(raw))
	for k, v := range raw {
		text := string(v)
		_ = json.Unmarshal(v, &text)
		values.Set(k, text)
	}
	return values, nil
}

func (s *Server) authTest(*channel, url.Values) object {
	return object{
		"ok": true, "url": "https://fake.slack.example/", "team": "Fake", "user": "headgate",
		"team_id": teamID, "user_id": botUser, "bot_id": "B0FAKE",
	}
}

// serveWebhook accepts a message to an incoming webhook. The response does not contain its ts.
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
