package fakeslack

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"
)

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
