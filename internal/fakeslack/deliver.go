package fakeslack

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"
)

// patience is how long Slack waits for an answer.
const patience = 3 * time.Second

// Bounds of deliveries.
const (
	maxFlying   = 100
	maxReceipts = 5_000
	maxRetries  = 3
	maxAnswer   = 64 << 10 // bytes of an answer that are read
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
	Kind    Kind
	Via     string // http or socket
	User    string // ID
	Channel string
	TS      string // of the message
	Action  string // action_id, or the command with what followed it
	Trigger string
	Sent    int           // times
	Answers int           // times; over HTTP only those that say 200
	Status  int           // of the last answer over HTTP
	Took    time.Duration // until the last answer, or until it was given up
	Error   string        // empty: answered in time
}

// Why an interaction was not answered.
var (
	ErrNoSocket = errors.New("fake slack: the app has no open socket, and no request URL")
	ErrNoAnswer = errors.New("fake slack: the app did not answer in time")
	ErrBadReply = errors.New("fake slack: the app did not answer with 200")
	ErrDropped  = errors.New("fake slack: the connection was lost before the app answered")
	ErrBusy     = errors.New("fake slack: too many interactions are waiting for an answer")
)

// Press presses a button and says yes to its confirmation. It returns when the
// app has answered, or after three seconds.
func (s *Server) Press(ctx context.Context, channelID, ts, actionID, userID string) (Receipt, error) {
	i, err := s.Interaction(channelID, ts, actionID, userID)
	if err != nil {
		return Receipt{}, err
	}
	return s.Deliver(ctx, i)
}

// Command types a command, such as "/headgate status". It returns as Press does.
func (s *Server) Command(ctx context.Context, channelID, userID, line string) (Receipt, error) {
	i, err := s.Typed(channelID, userID, line)
	if err != nil {
		return Receipt{}, err
	}
	return s.Deliver(ctx, i)
}

// Deliver tells the app of an interaction and waits for its answer. When there is
// none, the user is told so in the channel, as in Slack.
func (s *Server) Deliver(ctx context.Context, i Interaction) (Receipt, error) {
	to, f, err := s.depart(i)
	if err != nil {
		return Receipt{}, err
	}
	r := Receipt{
		Kind: i.Kind, User: i.User.ID, Channel: i.Channel, TS: i.TS, Action: i.Action.ID,
		Trigger: i.Trigger, Via: "socket",
	}
	if i.Kind == Typed {
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
		said, err = s.overHTTP(ctx, to, i, f, &r)
	default:
		said, err = s.overSocket(ctx, i, f, &r)
	}
	r.Took = time.Since(began)
	if err != nil {
		r.Error = err.Error()
	}
	s.arrive(i, r, said)
	return r, err
}

// target is where an interaction is sent; without a URL to the socket.
type target struct{ url, secret string }

func (s *Server) depart(i Interaction) (target, Fault, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.flying >= maxFlying {
		return target{}, Fault{}, ErrBusy
	}
	s.flying++
	var f Fault
	if hit := s.strikeLocked(string(i.Kind), i.Channel); hit != nil {
		f = *hit
	}
	if i.Kind == Typed {
		return target{s.callbacks.Commands, s.callbacks.Secret}, f, nil
	}
	return target{s.callbacks.Interactivity, s.callbacks.Secret}, f, nil
}

// arrive keeps the receipt, and shows the user what was said, or that nothing was.
func (s *Server) arrive(i Interaction, r Receipt, said []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.flying--
	if len(s.receipts) == maxReceipts {
		s.receipts = slices.Delete(s.receipts, 0, maxReceipts/2)
	}
	s.receipts = append(s.receipts, r)
	s.changedLocked()
	c := s.channelLocked(i.Channel)
	switch {
	case c == nil:
	case r.Error != "":
		c.whisper(&Message{TS: s.tsLocked(), To: i.User.ID, Author: "Slackbot", Text: i.failed()})
	case i.Kind == Typed:
		s.saidLocked(c, i.User.ID, said)
	}
}

func (i Interaction) failed() string {
	if i.Kind == Typed {
		return i.Command + " failed: the app did not answer."
	}
	return "“" + i.Action.Text + "” failed: the app did not answer."
}

// saidLocked shows what a command was answered with directly: JSON or text.
func (s *Server) saidLocked(c *channel, userID string, said []byte) {
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
	s.sayLocked(c, userID, m.Type == "in_channel", m.Text, m.Blocks)
}

// Receipts returns what became of all interactions, in the order in which they
// ended.
func (s *Server) Receipts() []Receipt {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.receipts)
}

// changedLocked wakes those who await something.
func (s *Server) changedLocked() {
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
