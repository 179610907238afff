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
	"strconv"
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

// upload is a file on its way.
type upload struct {
	name      string
	data      []byte
	completed bool
}

// uploadURL is the first of three steps; what is uploaded is bounded as every
// body is.
func (s *Server) uploadURL(v url.Values) object {
	size, err := strconv.Atoi(v.Get("length"))
	if v.Get("filename") == "" || err != nil || size <= 0 || size > maxBody {
		return errorObject("invalid_arguments")
	}
	if len(s.files) >= maxFiles {
		return errorObject("file_upload_size_restricted")
	}
	s.lastFile++
	id := fmt.Sprintf("F%06d", s.lastFile)
	s.files[id] = &upload{name: v.Get("filename")}
	return object{"ok": true, "file_id": id, "upload_url": v.Get("base") + "/api/upload/" + id}
}

func (s *Server) serveUpload(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("file")
	data, err := readUpload(r)
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.files[id]
	if err != nil || f == nil {
		http.Error(w, "no such upload", http.StatusBadRequest)
		return
	}
	f.data = data
	fmt.Fprintf(w, "OK - %d", len(data))
}

// readUpload reads the one file of a multipart body.
func readUpload(r *http.Request) ([]byte, error) {
	parts, err := r.MultipartReader()
	if err != nil {
		return nil, err
	}
	for {
		p, err := parts.NextPart()
		if err != nil {
			return nil, err
		}
		if p.FileName() != "" {
			return io.ReadAll(p)
		}
	}
}

func (s *Server) completeUpload(v url.Values) object {
	var wanted []struct {
		ID    string `json:"id"`
		Title string `json:"title"`
	}
	if err := json.Unmarshal([]byte(v.Get("files")), &wanted); err != nil || len(wanted) == 0 {
		return errorObject("invalid_arguments")
	}
	v.Set("channel", v.Get("channel_id"))
	c, refused := s.writableChannel(v)
	if refused != nil {
		return refused
	}
	out := []object{}
	for _, f := range wanted {
		up := s.files[f.ID]
		if up == nil || up.data == nil || up.completed {
			return errorObject("file_not_found")
		}
		up.completed = true
		m := &Message{TS: s.tsLocked(), Thread: v.Get("thread_ts"), Text: v.Get("initial_comment"), File: up.name}
		c.add(m)
		out = append(out, object{"id": f.ID, "title": f.Title})
	}
	return object{"ok": true, "files": out}
}

// File returns what was uploaded under a name, the latest first.
func (s *Server) File(name string) ([]byte, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := s.lastFile; i > 0; i-- {
		if f := s.files[fmt.Sprintf("F%06d", i)]; f != nil && f.name == name && f.completed {
			return f.data, true
		}
	}
	return nil, false
}
