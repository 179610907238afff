package fakeslack

import (
	"cmp"
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

// Limits of interactions and of response URLs.
const (
	maxInFlight      = 100
	maxReceipts      = 5_000 // the oldest are dropped first
	maxRetries       = 3
	maxResponseBytes = 64 << 10 // bytes of a response that are read
	maxCommand       = 4000     // bytes
	maxResponseUses  = 5        // of a response URL, as Slack allows
	responseLifetime = 30 * time.Minute
	maxResponseURLs  = 1_000 // the oldest are dropped first
)

// Kind is the kind of an interaction. As a method it names the faults that hit it.
type Kind string

// The kinds of interactions.
const (
	ButtonPress  Kind = "block_actions"
	SlashCommand Kind = "slash_commands"
)

// Interaction is an action of a user, as the app will receive it. Tests may change any of it before it is delivered.
// Delivered twice, it is the same callback twice.
type Interaction struct {
	Kind        Kind
	App, Team   string
	User        User
	Channel     string // ID
	ChannelName string
	TriggerID   string    // unique
	ResponseURL string    // accepts five responses within half an hour; has no host before the app's first call
	At          time.Time // of the action

	// Of a button press.
	TS, Thread string          // of the message; the thread's first message if it is a reply
	Message    json.RawMessage // in the version that was pressed
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
	Text  string // label
	Style string // empty, primary or danger
}

// Reasons why a user cannot do something.
var (
	ErrNoChannel = errors.New("fake slack: no such channel")
	ErrNoMessage = errors.New("fake slack: no such message")
	ErrNoButton  = errors.New("fake slack: the message has no such button")
	ErrNoUser    = errors.New("fake slack: no such user")
	ErrNoCommand = errors.New("fake slack: a command begins with a slash and has at most 4000 characters")
)

// Reasons why an interaction was not answered.
var (
	ErrNoSocket    = errors.New("fake slack: the app has no open socket and no request URL")
	ErrNoResponse  = errors.New("fake slack: the app did not answer in time")
	ErrBadResponse = errors.New("fake slack: the app did not answer with 200")
	ErrDropped     = errors.New("fake slack: the connection was lost before the app answered")
	ErrBusy        = errors.New("fake slack: too many interactions wait for an answer")
)

// PressInteraction returns what the app receives when a user presses a button of a message in its present version.
// Delivered after an edit, it is a press on an outdated message.
func (s *Server) PressInteraction(channelID, ts, actionID, userID string) (Interaction, error) {
	i, _, err := s.newPress(channelID, ts, buttonRef{action: actionID}, userID)
	return i, err
}

// newPress also returns the confirmation that the button asks for, if it does.
func (s *Server) newPress(channelID, ts string, p buttonRef, userID string) (Interaction, *confirmation, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, err := s.newInteractionLocked(ButtonPress, channelID, userID)
	if err != nil {
		return i, nil, err
	}
	m := s.channelLocked(channelID).findVisible(ts, userID)
	if m == nil {
		return i, nil, ErrNoMessage
	}
	m = m.atVersion(p.version)
	b, blockID, ok := m.button(p.block, p.action)
	if !ok {
		return i, nil, ErrNoButton
	}
	i.TS, i.Thread = m.TS, m.Thread
	i.Action = ButtonAction{ID: b.Action, Block: blockID, Value: b.Value, Text: b.plainText(), Style: b.Style}
	i.Message, err = json.Marshal(m.object(true))
	s.addResponseURLLocked(&i, "actions")
	return i, b.Confirm, err
}

// CommandInteraction returns what the app receives when a user types a command.
func (s *Server) CommandInteraction(channelID, userID, line string) (Interaction, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, err := s.newInteractionLocked(SlashCommand, channelID, userID)
	if err != nil {
		return i, err
	}
	line = strings.TrimSpace(line)
	if !strings.HasPrefix(line, "/") || len(line) < 2 || len(line) > maxCommand {
		return i, ErrNoCommand
	}
	i.Command, i.Text, _ = strings.Cut(line, " ")
	i.Text = strings.TrimSpace(i.Text)
	s.addResponseURLLocked(&i, "commands")
	return i, nil
}

func (s *Server) newInteractionLocked(kind Kind, channelID, userID string) (Interaction, error) {
	u, ok := s.user(userID)
	if !ok {
		return Interaction{}, ErrNoUser
	}
	c := s.channelLocked(channelID)
	if c == nil {
		return Interaction{}, ErrNoChannel
	}
	at := s.o.Now()
	return Interaction{
		Kind: kind, App: AppID, Team: u.team(), User: u, Channel: c.ID, ChannelName: c.Name,
		At: at, TriggerID: fmt.Sprintf("%d.%s", at.UnixMilli(), rand.Text()),
	}, nil
}

// payload is an interaction as JSON, the form of the socket.
func (i Interaction) payload() object {
	out := object{}
	if i.Kind == SlashCommand {
		for k, v := range i.form() {
			out[k] = v[0]
		}
		return out
	}
	container := object{"type": "message", "message_ts": i.TS, "channel_id": i.Channel, "is_ephemeral": false}
	if i.Thread != "" {
		container["thread_ts"] = i.Thread
	}
	action := object{
		"type": "button", "action_id": i.Action.ID, "block_id": i.Action.Block,
		"text":      object{"type": "plain_text", "text": i.Action.Text, "emoji": true},
		"action_ts": fmt.Sprintf("%d.%06d", i.At.Unix(), i.At.Nanosecond()/1000),
	}
	if i.Action.Value != "" {
		action["value"] = i.Action.Value
	}
	if i.Action.Style != "" {
		action["style"] = i.Action.Style
	}
	return object{
		"type": string(i.Kind), "api_app_id": i.App, "token": verificationToken, "trigger_id": i.TriggerID, "response_url": i.ResponseURL,
		"user":      object{"id": i.User.ID, "username": i.User.Name, "name": i.User.Name, "team_id": i.User.team()},
		"container": container, "team": object{"id": i.Team, "domain": "fake"}, "enterprise": nil, "is_enterprise_install": false,
		"channel": object{"id": i.Channel, "name": i.ChannelName}, "message": i.Message, "state": object{"values": object{}},
		"actions": []object{action},
	}
}

// form is an interaction as request URLs receive it.
func (i Interaction) form() url.Values {
	if i.Kind == ButtonPress {
		raw, _ := json.Marshal(i.payload()) // cannot fail: text and numbers
		return url.Values{"payload": {string(raw)}}
	}
	return url.Values{
		"token": {verificationToken}, "team_id": {i.Team}, "team_domain": {"fake"}, "channel_id": {i.Channel}, "channel_name": {i.ChannelName},
		"user_id": {i.User.ID}, "user_name": {i.User.Name}, "command": {i.Command}, "text": {i.Text}, "api_app_id": {i.App},
		"is_enterprise_install": {"false"}, "response_url": {i.ResponseURL}, "trigger_id": {i.TriggerID},
	}
}

// Callbacks are where interactions are sent.
type Callbacks struct {
	Interactivity string // URL for button presses; empty: over the socket
	Commands      string // URL for commands; empty: over the socket
	Secret        string // signs what is sent to the URLs
}

// SetCallbacks sets where interactions are sent from now on.
func (s *Server) SetCallbacks(c Callbacks) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.callbacks = c
}

// Receipt is the result of an interaction.
type Receipt struct {
	Kind      Kind
	Via       string // http or socket
	User      string // ID
	Channel   string
	TS        string // of the message
	Action    string // action_id, or the command with what followed it
	TriggerID string
	Sent      int           // times
	Responses int           // times; over HTTP only those with 200
	Status    int           // of the last response over HTTP
	Duration  time.Duration // until the last response, or until it was given up
	Error     string        // empty: answered in time
}

// Press presses a button and confirms it. It returns when the app has answered, or after three seconds.
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

// Deliver sends an interaction to the app and waits for its answer. Without one the channel shows an error to the user, as
// Slack does.
func (s *Server) Deliver(ctx context.Context, i Interaction) (Receipt, error) {
	s.mu.Lock()
	if s.inFlight >= maxInFlight {
		s.mu.Unlock()
		return Receipt{}, ErrBusy
	}
	s.inFlight++
	f := s.matchFaultLocked(string(i.Kind), i.Channel)
	to, secret := s.callbacks.Interactivity, s.callbacks.Secret
	if i.Kind == SlashCommand {
		to = s.callbacks.Commands
	}
	s.mu.Unlock()

	r := Receipt{
		Kind: i.Kind, User: i.User.ID, Channel: i.Channel, TS: i.TS, Action: i.Action.ID,
		TriggerID: i.TriggerID, Via: "socket",
	}
	if i.Kind == SlashCommand {
		r.Action = i.Command + " " + i.Text
	}
	began := time.Now()
	var answer []byte
	var err error
	if f.Kind == Slow {
		err = wait(ctx, f.Delay)
	}
	switch {
	case err != nil:
	case to != "":
		r.Via = "http"
		answer, err = s.deliverHTTP(ctx, to, secret, i, f, &r)
	default:
		answer, err = s.deliverSocket(ctx, i, f, &r)
	}
	r.Duration = time.Since(began)
	if err != nil {
		r.Error = err.Error()
	}
	s.endDelivery(i, r, answer)
	return r, err
}

// endDelivery keeps the receipt, and shows the user the answer, or that there was none.
func (s *Server) endDelivery(i Interaction, r Receipt, answer []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inFlight--
	s.receipts = appendBounded(s.receipts, r, maxReceipts)
	s.notifyLocked()
	c := s.channelLocked(i.Channel)
	switch {
	case c == nil:
	case r.Error != "":
		what := i.Command
		if i.Kind == ButtonPress {
			what = "“" + i.Action.Text + "”"
		}
		c.add(&Message{TS: s.tsLocked(), OnlyFor: i.User.ID, Author: "Slackbot", Text: what + " failed: the app did not answer."})
	case i.Kind == SlashCommand:
		s.showAnswerLocked(c, i.User.ID, answer)
	}
}

// showAnswerLocked shows the body that a command was answered with: JSON or text.
func (s *Server) showAnswerLocked(c *channel, userID string, answer []byte) {
	var m struct {
		Type   string          `json:"response_type"`
		Text   string          `json:"text"`
		Blocks json.RawMessage `json:"blocks"`
	}
	if err := json.Unmarshal(answer, &m); err != nil {
		m.Text = string(answer)
	}
	if m.Text != "" || m.Blocks != nil {
		s.postResponseLocked(c, userID, m.Type, m.Text, m.Blocks)
	}
}

// Receipts returns the results of all interactions, in the order in which they ended.
func (s *Server) Receipts() []Receipt {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.receipts)
}

// AwaitReceipts waits until n interactions have ended.
func (s *Server) AwaitReceipts(ctx context.Context, n int) error {
	return s.await(ctx, func() bool { return len(s.receipts) >= n })
}

// notifyLocked wakes callers of await.
func (s *Server) notifyLocked() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// await waits until a condition holds, which is called with the lock held.
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

// deliverHTTP posts an interaction to a request URL, once unless a fault repeats it. It returns the last answer.
func (s *Server) deliverHTTP(ctx context.Context, to, secret string, i Interaction, f Fault, r *Receipt) (answer []byte, err error) {
	body, at := i.form().Encode(), s.o.Now()
	if f.Kind == Backdated {
		at = at.Add(-f.Delay)
	}
	answer, err = s.postOnce(ctx, to, secret, body, at, 0, f.Kind, r)
	if f.Kind == Duplicated {
		return s.postOnce(ctx, to, secret, body, at, 0, f.Kind, r)
	}
	for n := 1; f.Kind == Retried && err != nil && n <= maxRetries && ctx.Err() == nil; n++ {
		answer, err = s.postOnce(ctx, to, secret, body, s.o.Now(), n, f.Kind, r)
	}
	return answer, err
}

// postOnce posts once. Retries are numbered from 1.
func (s *Server) postOnce(ctx context.Context, to, secret, body string, at time.Time, retry int, f FaultKind, r *Receipt) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.o.ResponseTimeout, ErrNoResponse)
	defer cancel()
	if f == Forged {
		secret += "?"
	}
	stamp := at.Unix()
	signature := sign(secret, stamp, body)
	if f == Tampered {
		body += "&tampered=1"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("User-Agent", "Slackbot 1.0 (+https://api.slack.com/robots)")
	if f != Unsigned {
		req.Header.Set("X-Slack-Request-Timestamp", strconv.FormatInt(stamp, 10))
		req.Header.Set("X-Slack-Signature", signature)
	}
	if retry > 0 {
		req.Header.Set("X-Slack-Retry-Num", strconv.Itoa(retry))
		req.Header.Set("X-Slack-Retry-Reason", "http_timeout")
	}
	r.Sent++
	resp, err := s.client.Do(req)
	if err != nil {
		return nil, cmp.Or(context.Cause(ctx), err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxResponseBytes))
	if err != nil {
		return nil, fmt.Errorf("read the app's response: %w", err)
	}
	r.Status = resp.StatusCode
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%w but %d", ErrBadResponse, resp.StatusCode)
	}
	r.Responses++
	return answer, nil
}

// sign returns Slack's signature, version 0.
func sign(secret string, at int64, body string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	fmt.Fprintf(mac, "v0:%d:%s", at, body)
	return "v0=" + hex.EncodeToString(mac.Sum(nil))
}

// newClient follows no redirects and keeps no connections.
func newClient() *http.Client {
	return &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true, MaxConnsPerHost: maxInFlight},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// responseURL accepts responses to one interaction.
type responseURL struct {
	id            string
	channel, user string
	ts            string // of the message whose button was pressed
	uses          int
	expires       time.Time
}

func (s *Server) addResponseURLLocked(i *Interaction, kind string) {
	u := &responseURL{id: rand.Text(), channel: i.Channel, user: i.User.ID, ts: i.TS, expires: i.At.Add(responseLifetime)}
	s.responseURLs = appendBounded(s.responseURLs, u, maxResponseURLs)
	i.ResponseURL = s.base + "/" + kind + "/" + teamID + "/" + u.id
}

// serveResponse accepts what is sent to a response URL.
func (s *Server) serveResponse(w http.ResponseWriter, r *http.Request) {
	values, err := arguments(r)
	s.serveCall(w, r, "response_url", "", func() object {
		i := slices.IndexFunc(s.responseURLs, func(u *responseURL) bool { return u.id == r.PathValue("id") })
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

func (s *Server) respondLocked(u *responseURL, v url.Values) object {
	c := s.channelLocked(u.channel)
	if c == nil {
		return errorObject("channel_not_found")
	}
	u.uses++
	if v.Get("delete_original") == "true" {
		c.remove(u.ts)
		return object{"ok": true}
	}
	if refused := validateContent(v); refused != nil {
		return refused
	}
	if v.Get("replace_original") == "true" {
		m := c.findVisible(u.ts, u.user)
		if m == nil {
			return errorObject("message_not_found")
		}
		m.edit(v)
		return object{"ok": true}
	}
	s.postResponseLocked(c, u.user, v.Get("response_type"), v.Get("text"), rawJSON(v.Get("blocks")))
	return object{"ok": true}
}

// postResponseLocked posts for everybody in the channel, or for one user.
func (s *Server) postResponseLocked(c *channel, userID, responseType, text string, blocks json.RawMessage) {
	m := &Message{TS: s.tsLocked(), Text: text, Blocks: blocks}
	if responseType != "in_channel" {
		m.OnlyFor = userID
	}
	c.add(m)
}
