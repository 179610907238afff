package fakeslack

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Kind is what an interaction is. As a method it names the faults that hit it.
type Kind string

// The kinds of interactions.
const (
	ButtonPress  Kind = "block_actions"
	SlashCommand Kind = "slash_commands"
)

// Interaction is something that a person did, as the app will be told of it.
// Tests may change what they like before it is delivered; delivered twice, it is
// the same callback twice.
type Interaction struct {
	Kind        Kind
	App, Team   string
	User        User
	Channel     string // ID
	ChannelName string
	TriggerID   string    // trigger_id: no two interactions share one
	ResponseURL string    // takes five answers within half an hour; has no host before the app's first call
	At          time.Time // when it was done

	// Of a press.
	TS, Thread string          // of the message, and of its root if it is a reply
	Message    json.RawMessage // as it stood
	Action     ButtonAction

	// Of a command.
	Command string // with its slash
	Text    string // what follows it
}

// ButtonAction is a button that was pressed.
type ButtonAction struct {
	ID    string // action_id
	Block string // block_id
	Value string
	Text  string // what it says
	Style string // empty, primary or danger
}

// What keeps somebody from doing something.
var (
	ErrNoChannel = errors.New("fake slack: there is no such channel")
	ErrNoMessage = errors.New("fake slack: there is no such message")
	ErrNoButton  = errors.New("fake slack: the message has no such button")
	ErrNoUser    = errors.New("fake slack: there is no such user")
	ErrNoCommand = errors.New("fake slack: not a command: it must begin with a slash and have at most 4000 characters")
)

// PressInteraction returns what an app is told when a user presses a button of a
// message as it stands now. Delivered after an edit, it is a press on a message
// that has changed meanwhile.
func (s *Server) PressInteraction(channelID, ts, actionID, userID string) (Interaction, error) {
	i, _, err := s.newPress(channelID, ts, buttonRef{action: actionID}, userID)
	return i, err
}

// newPress also returns what the button asks first, if it does.
func (s *Server) newPress(channelID, ts string, p buttonRef, userID string) (Interaction, *confirmation, error) {
	i, err := s.newInteraction(ButtonPress, channelID, userID)
	if err != nil {
		return i, nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.channelLocked(channelID).findVisible(ts, userID)
	if m == nil {
		return i, nil, ErrNoMessage
	}
	m = m.atVersion(p.version)
	b, ok := m.button(p.block, p.action)
	if !ok {
		return i, nil, ErrNoButton
	}
	i.TS, i.Thread = m.TS, m.Thread
	i.Action = ButtonAction{ID: b.Action, Block: b.block, Value: b.Value, Text: b.plainText(), Style: b.Style}
	i.Message, err = json.Marshal(m.object(true))
	s.addResponseURLLocked(&i, "actions")
	return i, b.Confirm, err
}

// SlashCommand returns what an app is told when a user types a command.
func (s *Server) CommandInteraction(channelID, userID, line string) (Interaction, error) {
	i, err := s.newInteraction(SlashCommand, channelID, userID)
	if err != nil {
		return i, err
	}
	line = strings.TrimSpace(line)
	if !strings.HasPrefix(line, "/") || len(line) < 2 || len(line) > 4000 {
		return i, ErrNoCommand
	}
	i.Command, i.Text, _ = strings.Cut(line, " ")
	i.Text = strings.TrimSpace(i.Text)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.addResponseURLLocked(&i, "commands")
	return i, nil
}

func (s *Server) newInteraction(kind Kind, channelID, userID string) (Interaction, error) {
	u, ok := s.user(userID)
	if !ok {
		return Interaction{}, ErrNoUser
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.channelLocked(channelID)
	if c == nil {
		return Interaction{}, ErrNoChannel
	}
	return Interaction{
		Kind: kind, App: AppID, Team: u.team(), User: u, Channel: c.ID, ChannelName: c.Name,
		At: s.o.Now(), TriggerID: fmt.Sprintf("%d.%s", s.o.Now().UnixMilli(), rand.Text()),
	}, nil
}

// payload is an interaction as JSON, the form of the socket.
func (i Interaction) payload() object {
	if i.Kind == SlashCommand {
		out := object{}
		for k := range i.form() {
			out[k] = i.form().Get(k)
		}
		return out
	}
	container := object{"type": "message", "message_ts": i.TS, "channel_id": i.Channel, "is_ephemeral": false}
	if i.Thread != "" {
		container["thread_ts"] = i.Thread
	}
	return object{
		"type": string(i.Kind), "api_app_id": i.App, "token": verificationToken, "trigger_id": i.TriggerID, "response_url": i.ResponseURL,
		"user":      object{"id": i.User.ID, "username": i.User.Name, "name": i.User.Name, "team_id": i.User.team()},
		"container": container, "team": object{"id": i.Team, "domain": "fake"}, "enterprise": nil, "is_enterprise_install": false,
		"channel": object{"id": i.Channel, "name": i.ChannelName}, "message": i.Message, "state": object{"values": object{}},
		"actions": []object{i.actionObject()},
	}
}

func (i Interaction) actionObject() object {
	a := object{
		"type": "button", "action_id": i.Action.ID, "block_id": i.Action.Block,
		"text":      object{"type": "plain_text", "text": i.Action.Text, "emoji": true},
		"action_ts": fmt.Sprintf("%d.%06d", i.At.Unix(), i.At.Nanosecond()/1000),
	}
	if i.Action.Value != "" {
		a["value"] = i.Action.Value
	}
	if i.Action.Style != "" {
		a["style"] = i.Action.Style
	}
	return a
}

// form is an interaction as request URLs get it.
func (i Interaction) form() url.Values {
	if i.Kind == ButtonPress {
		raw, _ := json.Marshal(i.payload()) // text and numbers
		return url.Values{"payload": {string(raw)}}
	}
	return url.Values{
		"token": {verificationToken}, "team_id": {i.Team}, "team_domain": {"fake"}, "channel_id": {i.Channel}, "channel_name": {i.ChannelName},
		"user_id": {i.User.ID}, "user_name": {i.User.Name}, "command": {i.Command}, "text": {i.Text}, "api_app_id": {i.App},
		"is_enterprise_install": {"false"}, "response_url": {i.ResponseURL}, "trigger_id": {i.TriggerID},
	}
}

// defaultResponseTimeout is how long Slack waits for an answer.
const defaultResponseTimeout = 3 * time.Second

// Bounds of deliveries.
const (
	maxInFlight      = 100
	maxReceipts      = 5_000
	maxRetries       = 3
	maxResponseBytes = 64 << 10 // bytes of an answer that are read
)

// Callbacks are where interactions are sent.
type Callbacks struct {
	Interactivity string // URL for presses; empty: over the socket
	Commands      string // URL for commands; empty: over the socket
	Secret        string // signs what goes to the URLs
}

// SetCallbacks says where interactions go from now on.
func (s *Server) SetCallbacks(c Callbacks) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.callbacks = c
}

// Receipt is what became of an interaction.
type Receipt struct {
	Kind      Kind
	Via       string // http or socket
	User      string // ID
	Channel   string
	TS        string // of the message
	Action    string // action_id, or the command with what followed it
	TriggerID string
	Sent      int           // times
	Responses int           // times; over HTTP only those that say 200
	Status    int           // of the last answer over HTTP
	Duration  time.Duration // until the last answer, or until it was given up
	Error     string        // empty: answered in time
}

// Why an interaction was not answered.
var (
	ErrNoSocket    = errors.New("fake slack: the app has no open socket, and no request URL")
	ErrNoResponse  = errors.New("fake slack: the app did not answer in time")
	ErrBadResponse = errors.New("fake slack: the app did not answer with 200")
	ErrDropped     = errors.New("fake slack: the connection was lost before the app answered")
	ErrBusy        = errors.New("fake slack: too many interactions are waiting for an answer")
)

// Press presses a button and says yes to its confirmation. It returns when the
// app has answered, or after three seconds.
func (s *Server) Press(ctx context.Context, channelID, ts, actionID, userID string) (Receipt, error) {
	i, err := s.PressInteraction(channelID, ts, actionID, userID)
	if err != nil {
		return Receipt{}, err
	}
	return s.Deliver(ctx, i)
}

// Command types a command, such as "/headgate status". It returns as Press does.
func (s *Server) Command(ctx context.Context, channelID, userID, line string) (Receipt, error) {
	i, err := s.CommandInteraction(channelID, userID, line)
	if err != nil {
		return Receipt{}, err
	}
	return s.Deliver(ctx, i)
}

// Deliver tells the app of an interaction and waits for its answer. When there is
// none, the user is told so in the channel, as in Slack.
func (s *Server) Deliver(ctx context.Context, i Interaction) (Receipt, error) {
	to, f, err := s.beginDelivery(i)
	if err != nil {
		return Receipt{}, err
	}
	r := Receipt{
		Kind: i.Kind, User: i.User.ID, Channel: i.Channel, TS: i.TS, Action: i.Action.ID,
		TriggerID: i.TriggerID, Via: "socket",
	}
	if i.Kind == SlashCommand {
		r.Action = i.Command + " " + i.Text
	}
	began := time.Now()
	var said []byte
	if f.Kind == Slow {
		err = wait(ctx, f.Delay)
	}
	switch {
	case err != nil:
	case to.url != "":
		r.Via = "http"
		said, err = s.deliverHTTP(ctx, to, i, f, &r)
	default:
		said, err = s.deliverSocket(ctx, i, f, &r)
	}
	r.Duration = time.Since(began)
	if err != nil {
		r.Error = err.Error()
	}
	s.endDelivery(i, r, said)
	return r, err
}

// callbackTarget is where an interaction is sent; without a URL to the socket.
type callbackTarget struct{ url, secret string }

func (s *Server) beginDelivery(i Interaction) (callbackTarget, Fault, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inFlight >= maxInFlight {
		return callbackTarget{}, Fault{}, ErrBusy
	}
	s.inFlight++
	var f Fault
	if hit := s.matchFaultLocked(string(i.Kind), i.Channel); hit != nil {
		f = *hit
	}
	if i.Kind == SlashCommand {
		return callbackTarget{s.callbacks.Commands, s.callbacks.Secret}, f, nil
	}
	return callbackTarget{s.callbacks.Interactivity, s.callbacks.Secret}, f, nil
}

// endDelivery keeps the receipt, and shows the user what was said, or that nothing was.
func (s *Server) endDelivery(i Interaction, r Receipt, said []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inFlight--
	if len(s.receipts) == maxReceipts {
		s.receipts = slices.Delete(s.receipts, 0, maxReceipts/2)
	}
	s.receipts = append(s.receipts, r)
	s.notifyLocked()
	c := s.channelLocked(i.Channel)
	switch {
	case c == nil:
	case r.Error != "":
		c.addEphemeral(&Message{TS: s.tsLocked(), OnlyFor: i.User.ID, Author: "Slackbot", Text: i.failureText()})
	case i.Kind == SlashCommand:
		s.showResponseLocked(c, i.User.ID, said)
	}
}

func (i Interaction) failureText() string {
	if i.Kind == SlashCommand {
		return i.Command + " failed: the app did not answer."
	}
	return "“" + i.Action.Text + "” failed: the app did not answer."
}

// showResponseLocked shows what a command was answered with directly: JSON or text.
func (s *Server) showResponseLocked(c *channel, userID string, said []byte) {
	var m struct {
		Type   string          `json:"response_type"`
		Text   string          `json:"text"`
		Blocks json.RawMessage `json:"blocks"`
	}
	if err := json.Unmarshal(said, &m); err != nil {
		m.Text = string(said)
	}
	if m.Text == "" && m.Blocks == nil {
		return
	}
	s.postResponseLocked(c, userID, m.Type == "in_channel", m.Text, m.Blocks)
}

// Receipts returns what became of all interactions, in the order in which they
// ended.
func (s *Server) Receipts() []Receipt {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.receipts)
}

// notifyLocked wakes those who await something.
func (s *Server) notifyLocked() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// await waits until a condition holds. It is asked with the lock held.
func (s *Server) await(ctx context.Context, holds func() bool) error {
	for {
		s.mu.Lock()
		ok, changed := holds(), s.changed
		s.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// AwaitReceipts waits until n interactions have come to their ends.
func (s *Server) AwaitReceipts(ctx context.Context, n int) error {
	return s.await(ctx, func() bool { return len(s.receipts) >= n })
}

func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// deliverHTTP posts an interaction to a request URL, once unless a fault has it
// otherwise. It returns the last answer.
func (s *Server) deliverHTTP(ctx context.Context, to callbackTarget, i Interaction, f Fault, r *Receipt) (said []byte, err error) {
	body := i.form().Encode()
	at := s.requestTime(f)
	said, err = s.postOnce(ctx, to, body, at, 0, f, r)
	if f.Kind == Duplicated {
		return s.postOnce(ctx, to, body, at, 0, f, r)
	}
	if f.Kind != Retried {
		return said, err
	}
	for n := 1; err != nil && n <= maxRetries && ctx.Err() == nil; n++ {
		said, err = s.postOnce(ctx, to, body, s.requestTime(f), n, f, r)
	}
	return said, err
}

// requestTime is when a request says that it was made.
func (s *Server) requestTime(f Fault) int64 {
	at := s.o.Now()
	if f.Kind == Backdated {
		at = at.Add(-f.Delay)
	}
	return at.Unix()
}

// postOnce posts once. Retries are numbered from 1.
func (s *Server) postOnce(ctx context.Context, to callbackTarget, body string, at int64, retry int, f Fault, r *Receipt) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, s.o.ResponseTimeout)
	defer cancel()
	signature := sign(to.secret, at, body)
	switch f.Kind {
	case Forged:
		signature = sign(to.secret+"?", at, body)
	case Tampered:
		body += "&tampered=1"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to.url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("User-Agent", "Slackbot 1.0 (+https://api.slack.com/robots)")
	if f.Kind != Unsigned {
		req.Header.Set("X-Slack-Request-Timestamp", strconv.FormatInt(at, 10))
		req.Header.Set("X-Slack-Signature", signature)
	}
	if retry > 0 {
		req.Header.Set("X-Slack-Retry-Num", strconv.Itoa(retry))
		req.Header.Set("X-Slack-Retry-Reason", "http_timeout")
	}
	r.Sent++
	return s.doRequest(req, r)
}

func (s *Server) doRequest(req *http.Request, r *Receipt) ([]byte, error) {
	resp, err := s.client.Do(req)
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			return nil, ErrNoResponse
		}
		return nil, err
	}
	defer resp.Body.Close()
	said, err := io.ReadAll(io.LimitReader(resp.Body, maxResponseBytes))
	if err != nil {
		return nil, fmt.Errorf("read the app's answer: %w", err)
	}
	r.Status = resp.StatusCode
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%w but %d", ErrBadResponse, resp.StatusCode)
	}
	r.Responses++
	return said, nil
}

// sign is Slack's signature, version 0.
func sign(secret string, at int64, body string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	fmt.Fprintf(mac, "v0:%d:%s", at, body)
	return "v0=" + hex.EncodeToString(mac.Sum(nil))
}

// newClient follows no redirects, and keeps no connection after an answer, so
// that nothing is left of it.
func newClient() *http.Client {
	return &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true, MaxConnsPerHost: maxInFlight},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

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
