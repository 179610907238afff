package fakeslack

import (
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

// object is the body of an answer.
type object map[string]any

func errorObject(code string) object { return object{"ok": false, "error": code} }

func invalidBlocks(messages ...string) object {
	return object{
		"ok": false, "error": "invalid_blocks",
		"response_metadata": object{"messages": messages},
	}
}

func writeJSON(w http.ResponseWriter, body object) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	_ = json.NewEncoder(w).Encode(body) // the caller has gone: nobody to tell
}

// method is one of the API's. It is called with the lock held.
type method struct {
	scope  string
	handle func(*Server, url.Values) object
}

func methods() map[string]method {
	return map[string]method{
		"auth.test":                    {"", (*Server).authTest},
		"chat.postMessage":             {"chat:write", (*Server).post},
		"chat.update":                  {"chat:write", (*Server).update},
		"chat.delete":                  {"chat:write", (*Server).deleteMessage},
		"chat.postEphemeral":           {"chat:write", (*Server).postEphemeral},
		"apps.connections.open":        {scopeConnections, (*Server).openConnection},
		"conversations.info":           {"channels:read", (*Server).info},
		"conversations.history":        {"channels:history", (*Server).history},
		"conversations.replies":        {"channels:history", (*Server).replies},
		"files.getUploadURLExternal":   {"files:write", (*Server).uploadURL},
		"files.completeUploadExternal": {"files:write", (*Server).completeUpload},
	}
}

func (s *Server) serveAPI(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("method")
	values, err := arguments(r)
	if err != nil {
		writeJSON(w, errorObject("invalid_arguments"))
		return
	}
	if name == "files.getUploadURLExternal" {
		values.Set("base", "http://"+r.Host)
	}
	if name == "apps.connections.open" {
		values.Set("host", r.Host)
	}
	w.Header().Set("X-Oauth-Scopes", strings.Join(s.o.Scopes, ","))
	s.serveCall(w, r, name, values.Get("channel"), func() object { return s.call(name, r, values) })
}

// serveCall does a call between the faults that hit it, and remembers it.
func (s *Server) serveCall(w http.ResponseWriter, r *http.Request, name, channelID string, do func() object) {
	s.mu.Lock()
	f := s.matchFaultLocked(name, channelID)
	s.mu.Unlock()
	call := Call{Method: name, Channel: channelID}
	if f != nil {
		call.Error = string(f.Kind)
		if preventsCall(f.Kind) {
			s.recordCall(call)
			f.respondInstead(w, r)
			return
		}
		f.respondInstead(w, r)
	}
	s.mu.Lock()
	body := do()
	s.mu.Unlock()
	if code, _ := body["error"].(string); code != "" {
		call.Error = code
	}
	s.recordCall(call)
	if f != nil && f.respondAfter(w, r) {
		return
	}
	s.writeResult(w, name, body)
}

// preventsCall says whether a call that such a fault hits is not done.
func preventsCall(k FaultKind) bool {
	return !slices.Contains([]FaultKind{Slow, DropAfter, SlowAfter, EmptyAfter, ErrorAfter}, k)
}

func (s *Server) writeResult(w http.ResponseWriter, name string, body object) {
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
	if len(s.calls) == maxCalls {
		s.calls = slices.Delete(s.calls, 0, maxCalls/2)
	}
	s.calls = append(s.calls, c)
}

// call checks the token and its scopes.
func (s *Server) call(name string, r *http.Request, values url.Values) object {
	m, ok := methods()[name]
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	if token == "" {
		token = values.Get("token")
	}
	switch {
	case !ok:
		return errorObject("unknown_method")
	case token == "":
		return errorObject("not_authed")
	case m.scope == scopeConnections:
		if refused := s.checkAppToken(token); refused != nil {
			return refused
		}
	case strings.HasPrefix(token, "xapp-"):
		return errorObject("not_allowed_token_type")
	case s.o.Token != "" && token != s.o.Token:
		return errorObject("invalid_auth")
	case m.scope != "" && !slices.Contains(s.o.Scopes, m.scope):
		return object{
			"ok": false, "error": "missing_scope",
			"needed": m.scope, "provided": strings.Join(s.o.Scopes, ","),
		}
	}
	s.base = "http://" + r.Host // of nobody but the app
	return m.handle(s, values)
}

// scopeConnections is the scope of Socket Mode. It belongs to an app's token, and to no
// bot's.
const scopeConnections = "connections:write"

func (s *Server) checkAppToken(token string) object {
	switch {
	case !strings.HasPrefix(token, "xapp-"):
		return errorObject("not_allowed_token_type")
	case s.o.AppToken != "" && token != s.o.AppToken:
		return errorObject("invalid_auth")
	}
	return nil
}

// arguments reads a form, or JSON whose values that are not text stay JSON.
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
		var text string
		if json.Unmarshal(v, &text) == nil {
			values.Set(k, text)
			continue
		}
		values.Set(k, string(v))
	}
	return values, nil
}

func (s *Server) authTest(url.Values) object {
	return object{
		"ok": true, "url": "https://fake.slack.example/", "team": "Fake", "user": "headgate",
		"team_id": teamID, "user_id": botUser, "bot_id": "B0FAKE",
	}
}
