package fakeslack

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
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
